"""Errors of reading and writing BookKeeper, each a sentence."""

from collections.abc import Sequence


class BookKeeperError(Exception):
    """Base of the errors of this package's access to BookKeeper."""


class UnreadableNode(BookKeeperError):
    """A metadata node has other content than BookKeeper or Pulsar writes there."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class NotThisCluster(BookKeeperError):
    """The metadata store has no BookKeeper cluster, or no Pulsar cluster, at this path."""


class NoSuchLedger(BookKeeperError):
    """A ledger was deleted, or never existed."""

    def __init__(self, ledger: int) -> None:
        super().__init__(f"there is no ledger {ledger}")
        self.ledger = ledger


class BookieError(BookKeeperError):
    """A bookie returned no entry: it cannot be reached, does not respond, or returned an error."""

    def __init__(self, bookie: str, why: str) -> None:
        super().__init__(f"bookie {bookie}: {why}")


class MissingEntry(BookieError):
    """A bookie responded that it does not have the ledger or the entry."""


class BadStoredEntry(BookKeeperError):
    """A stored entry is too short, belongs to another ledger or id, or fails its digest."""


class EntryUnreadable(BookKeeperError):
    """No bookie of the write set returned the entry.

    ``lost``: every one of them responded that it does not have the entry, or returned a damaged
    copy. Otherwise some bookie could not be asked, and may have it.
    """

    def __init__(self, ledger: int, entry: int, reasons: Sequence[str], *, lost: bool) -> None:
        what = "lost" if lost else "not readable now"
        super().__init__(f"entry {ledger}:{entry} is {what}: {'; '.join(reasons)}")
        self.lost = lost
