"""Settings from broker.conf for logs on BookKeeper."""

from dataclasses import dataclass

from counterpoise.bookkeeper.quorums import Quorums
from counterpoise.names.options import option
from counterpoise.storage.port import Persistence


@dataclass(frozen=True, slots=True)
class ManagedLedgerOptions:
    """How ledgers of logs are written to BookKeeper, and when the next one starts."""

    ensemble: int = option(2, "managedLedgerDefaultEnsembleSize", low=1)
    """How many bookies the entries of a ledger are spread over."""
    write_quorum: int = option(2, "managedLedgerDefaultWriteQuorum", low=1)
    """How many bookies each entry is written to."""
    ack_quorum: int = option(2, "managedLedgerDefaultAckQuorum", low=1)
    """How many bookies must have an entry before it is acknowledged."""
    rack_aware: bool = option(True, "bookkeeperClientRackawarePolicyEnabled")
    """Whether the bookies of a ledger are chosen by their racks in Pulsar's map (/bookies)."""
    racks_min: int = option(2, "bookkeeperClientMinNumRacksPerWriteQuorum", low=1)
    """How many racks the copies of an entry are spread over, if there are so many."""
    racks_enforced: bool = option(False, "bookkeeperClientEnforceMinNumRacksPerWriteQuorum")
    """Whether ledgers that cannot be spread over so many racks are refused; otherwise they are
    written, with a warning in the log."""
    digest: str = option("CRC32C", "managedLedgerDigestType")
    """How the checksum of an entry is made: CRC32C, CRC32, MAC (HMAC-SHA1) or DUMMY."""
    password: str = option("", "managedLedgerPassword", secret=True)
    """The password of ledgers. Ledgers that have another cannot be opened."""
    timeout_s: int = option(30, "bookkeeperClientTimeoutInSeconds", "s", low=1)
    """How long a bookie may take to answer before it counts as failed."""
    ledger_entries: int = option(50_000, "managedLedgerMaxEntriesPerLedger", low=1)
    """How many entries a ledger may have before it is closed and the next begun."""
    min_rollover_min: int = option(10, "managedLedgerMinLedgerRolloverTimeMinutes", "min", low=0)
    """A ledger that is full is written on until it is as old as this."""
    max_rollover_min: int = option(240, "managedLedgerMaxLedgerRolloverTimeMinutes", "min", low=1)
    """A ledger as old as this is closed with the next message, full or not."""
    cursor_entries: int = option(50_000, "managedLedgerCursorMaxEntriesPerLedger", low=1)
    """How many entries, one for each saved state, a cursor's ledger may have before it is closed
    and the next begun."""
    cursor_rollover_s: int = option(14_400, "managedLedgerCursorRolloverTimeInSeconds", "s", low=1)
    """How old a cursor's ledger may be before it is closed and the next begun."""
    mark_deletes_per_s: float = option(1.0, "managedLedgerDefaultMarkDeleteRateLimit", low=0)
    """How often a second the state of cursors is stored, at most; 0: whenever it changes."""
    node_ranges_max: int = option(
        1000, "managedLedgerMaxUnackedRangesToPersistInMetadataStore", low=0
    )
    """When a topic is closed, a cursor with at most this many acknowledged ranges is stored in its
    node in the metadata store; one with more stays in its ledger."""

    @property
    def persistence(self) -> Persistence:
        """The quorums of logs without a policy; raises `ValueError` for contradictory ones."""
        quorums = Quorums(self.ensemble, self.write_quorum, self.ack_quorum)
        return Persistence(quorums, self.mark_deletes_per_s)

    def is_due(self, entries: int, size: int, age_s: float, size_max: int) -> bool:
        """Whether a ledger of this size and age is to be closed and the next one started.

        ``size`` and ``size_max`` are bytes.
        """
        full = entries >= self.ledger_entries or size >= size_max
        return (full and age_s >= self.min_rollover_min * 60) or (
            bool(entries) and age_s >= self.max_rollover_min * 60
        )
