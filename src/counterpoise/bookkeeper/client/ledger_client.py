"""A client of a BookKeeper cluster that writes, over a metadata store and TCP."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from counterpoise.bookkeeper import ledger_metadata
from counterpoise.bookkeeper.bookies import BookieReadOptions, Bookies
from counterpoise.bookkeeper.client.bookie_directory import BookieDirectory
from counterpoise.bookkeeper.client.ledger_nodes import LedgerNodes, as_bookkeeper_error
from counterpoise.bookkeeper.client.ledger_reader import BookieLedgerReader
from counterpoise.bookkeeper.client.ledger_writer import BookieLedgerWriter
from counterpoise.bookkeeper.client.rack_placement import RackPolicy
from counterpoise.bookkeeper.client.recovering import recover_ledger
from counterpoise.bookkeeper.client_port import (
    LedgerClient,
    LedgerListener,
    LedgerReader,
    LedgerWriter,
)
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.ledger_paths import DEFAULT_ROOT, check_layout
from counterpoise.bookkeeper.quorums import Quorums
from counterpoise.metadata.errors import MetadataError
from counterpoise.metadata.port import MetadataStore

_QUORUMS = Quorums()
_RACKS = RackPolicy()


@dataclass(frozen=True, slots=True)
class LedgerClientOptions:
    """How ledgers are created, and bookies requested; the defaults are Pulsar's."""

    root: str = DEFAULT_ROOT
    quorums: Quorums = _QUORUMS
    """The quorums of ledgers that are created without their own."""
    digest: ledger_metadata.DigestType = ledger_metadata.DigestType.CRC32C
    """How the checksum of an entry is made (``managedLedgerDigestType``)."""
    password: bytes = b""
    """The password of all ledgers (``managedLedgerPassword``)."""
    racks: RackPolicy = _RACKS
    """How bookies are chosen by the racks in Pulsar's map of them."""
    bookies: BookieReadOptions = field(default_factory=BookieReadOptions)
    metadata_s: float = 30.0
    """How long a change of a ledger's metadata waits for a metadata store that is unreachable."""


class BookieLedgerClient(LedgerClient):
    """One client of a BookKeeper cluster. Open it with `BookieLedgerClient.open`."""

    def __init__(self, store: MetadataStore, options: LedgerClientOptions, rng: Random) -> None:
        self._options = options
        self._directory = BookieDirectory(store, options.root, rng, options.racks)
        self._bookies = Bookies(self._directory.registered, options.bookies)
        self._nodes = LedgerNodes(store, options.root, rng, unavailable_s=options.metadata_s)

    @classmethod
    async def open(
        cls, store: MetadataStore, options: LedgerClientOptions, rng: Random
    ) -> "BookieLedgerClient":
        """Open a client of the cluster with this metadata store. Raises `NotThisCluster` and
        `MetadataError`.
        """
        await check_layout(store, options.root)
        client = cls(store, options, rng)
        await client._directory.refresh()
        return client

    async def create(
        self, purpose: Mapping[str, bytes], listener: LedgerListener, quorums: Quorums | None = None
    ) -> LedgerWriter:
        """Create a ledger; ``purpose`` is its custom metadata, by which tools find its owner."""
        options = self._options
        quorums = quorums or options.quorums
        try:
            ensemble = await self._directory.choose(quorums, self._bookies)
            metadata = ledger_metadata.LedgerMetadata(
                ledger=0,
                state=ledger_metadata.LedgerState.OPEN,
                write_quorum=quorums.write,
                ack_quorum=quorums.ack,
                length=0,
                last_entry=ledger_metadata.NO_ENTRY,
                segments=(ledger_metadata.LedgerSegment(0, ensemble),),
                digest=options.digest,
                password=options.password,
                created_ms=time.time_ns() // 1_000_000,
                custom=dict(purpose),
            )
            created = await self._nodes.create(metadata)
        except MetadataError as error:
            raise as_bookkeeper_error(error) from error
        return BookieLedgerWriter(created, self._bookies, self._directory, self._nodes, listener)

    async def recover(self, ledger: int) -> LedgerReader:
        """Fence the ledger's writer, decide the last entry, close the ledger, and return its
        reader.
        """
        try:
            found = await recover_ledger(ledger, self._bookies, self._directory, self._nodes)
        except MetadataError as error:
            raise as_bookkeeper_error(error) from error
        return BookieLedgerReader(found, self._bookies, self._directory)

    async def read_open(self, writer: LedgerWriter) -> LedgerReader:
        """Open a reader of what this client's own writer has confirmed, or confirms later."""
        if not isinstance(writer, BookieLedgerWriter):
            raise BookKeeperError(f"ledger {writer.ledger} is not written by this client")
        return BookieLedgerReader(writer, self._bookies, self._directory)

    async def delete(self, ledger: int) -> None:
        """Delete the ledger's metadata; bookies then drop its entries."""
        try:
            await self._nodes.delete(ledger)
        except MetadataError as error:
            raise as_bookkeeper_error(error) from error

    async def close(self) -> None:
        """Close the connections to bookies. Writers must have been closed."""
        self._directory.close()
        self._bookies.close()
