"""The interface of a BookKeeper client that writes: create, append, recover, read, delete.

A managed ledger needs only this of BookKeeper. `client/` is the real one, over bookies and a
metadata store; tests have one in memory.
"""

from collections.abc import Mapping
from typing import Protocol

from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.quorums import Quorums


class LedgerOver(BookKeeperError):
    """A ledger accepts no more entries, whatever the reason.

    It was fenced, too few bookies are left, its metadata cannot be changed, or it was closed. Being
    fenced proves nothing about who owns a topic: BookKeeper's auto-recovery fences, too.
    """


class EntryTooLarge(BookKeeperError):
    """Bookies would end the connection for this entry. The ledger continues without it."""


class LedgerListener(Protocol):
    """What a ledger's writer calls, on its event loop, when entries are stored or it has failed."""

    def confirmed(self, last: int) -> None:
        """Called when every entry up to and including ``last`` is on an ack quorum of bookies."""

    def ended(self, error: BookKeeperError) -> None:
        """Called at most once: no entry after the last confirmed one will be acknowledged.

        Not called for the owner's own `LedgerWriter.close`. Some of these entries may be on bookies
        nevertheless: the ledger's recovery decides.
        """


class LedgerWriter(Protocol):
    """The only writer of an open ledger."""

    @property
    def ledger(self) -> int:
        """The ledger's id."""

    @property
    def last_confirmed(self) -> int:
        """The last confirmed entry; -1 if there is none."""

    @property
    def length(self) -> int:
        """Bytes of the payloads of all confirmed entries."""

    def add(self, *payloads: bytes) -> int:
        """Send entries and return the id of the first; raises `LedgerOver`, `EntryTooLarge`, and
        sends none then. Never blocks.
        """

    async def close(self) -> None:
        """Fail unconfirmed entries, and record the ledger as closed at `last_confirmed`. Raises
        `BookKeeperError`, also if another client has closed it at a different last entry.
        """


class LedgerReader(Protocol):
    """A reader of one ledger."""

    @property
    def ledger(self) -> int:
        """The ledger's id."""

    @property
    def last_entry(self) -> int:
        """The last readable entry; -1 if there is none."""

    @property
    def length(self) -> int:
        """Bytes of the payloads up to and including `last_entry`."""

    async def read(self, first: int, last: int) -> list[bytes]:
        """The payloads of entries ``first`` to ``last``, both included.

        Raises `EntryUnreadable`, with `lost` set if no bookie will ever return the entry.
        """


class LedgerClient(Protocol):
    """One client of a BookKeeper cluster. Every error is a `BookKeeperError`."""

    async def create(
        self, purpose: Mapping[str, bytes], listener: LedgerListener, quorums: Quorums | None = None
    ) -> LedgerWriter:
        """Create a ledger; ``purpose`` is its custom metadata, by which tools find its owner.

        ``quorums``: how many bookies store it and each entry; None: as in the client's options.
        """

    async def recover(self, ledger: int) -> LedgerReader:
        """Fence the ledger's writer, decide the last entry, close the ledger, and return its
        reader.

        A closed ledger is not changed. Raises `NoSuchLedger` if it was deleted or never existed.
        """

    async def read_open(self, writer: LedgerWriter) -> LedgerReader:
        """Open a reader of what this client's own writer has confirmed, or confirms later."""

    async def delete(self, ledger: int) -> None:
        """Delete the ledger's metadata; bookies then drop its entries. Ignored if it is gone."""

    async def close(self) -> None:
        """Close the connections. Writers must have been closed."""
