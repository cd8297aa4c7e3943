"""The port of a BookKeeper client that writes: create, append, recover, read and delete ledgers.

A managed ledger needs no more of BookKeeper than this. `client/` is the real one, over bookies and
a metadata store; tests have one in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from counterpoise.bookkeeper.errors import BookKeeperError


class LedgerOver(BookKeeperError):
    """A ledger takes no more entries, whatever the reason.

    It was fenced, too few bookies are left, its metadata cannot be changed, or it was closed. Being
    fenced proves nothing about who owns a topic: BookKeeper's auto-recovery fences, too.
    """


class EntryTooLarge(BookKeeperError):
    """Bookies would end the connection if this entry were sent. The ledger goes on without it."""


class LedgerListener(Protocol):
    """What the writer of a ledger is notified of, on its event loop."""

    def confirmed(self, last: int) -> None:
        """Every entry up to and including ``last`` is on an ack quorum of bookies, for good."""

    def ended(self, error: BookKeeperError) -> None:
        """No entry above the last confirmed one is acknowledged any more. Called once at most.

        Not called for a `LedgerWriter.close` of its owner's. Some of them may be on bookies all the
        same: the ledger's recovery decides.
        """


class LedgerWriter(Protocol):
    """A ledger that its only writer has open."""

    @property
    def ledger(self) -> int:
        """Its id."""

    @property
    def last_confirmed(self) -> int:
        """The last confirmed entry; -1 while there is none."""

    @property
    def length(self) -> int:
        """Bytes of the payloads of all confirmed entries."""

    def add(self, payload: bytes) -> int:
        """Send an entry and return its id; raises `LedgerOver`, `EntryTooLarge`. Never blocks."""

    async def close(self) -> None:
        """Fail what is not confirmed, and record the ledger as closed at `last_confirmed`.

        Raises `BookKeeperError` where that cannot be recorded, or where another client recorded
        another end.
        """


class LedgerReader(Protocol):
    """A ledger to read from."""

    @property
    def ledger(self) -> int:
        """Its id."""

    @property
    def last_entry(self) -> int:
        """The last entry that may be read; -1 where there is none."""

    @property
    def length(self) -> int:
        """Bytes of the payloads up to and including `last_entry`."""

    async def read(self, first: int, last: int) -> list[bytes]:
        """The payloads of entries ``first`` to ``last``, both included.

        Raises `EntryUnreadable`, with `lost` set where no bookie will ever give the entry.
        """


class LedgerClient(Protocol):
    """One client of a BookKeeper cluster. Raises `BookKeeperError` for whatever goes wrong."""

    async def create(self, purpose: Mapping[str, bytes], listener: LedgerListener) -> LedgerWriter:
        """A new ledger; ``purpose`` is its custom metadata, by which tools find its owner."""

    async def recover(self, ledger: int) -> LedgerReader:
        """Fence the ledger's writer, decide its last entry, close it; harmless when it is closed.

        Raises `NoSuchLedger` where it was deleted or never existed.
        """

    async def read_open(self, writer: LedgerWriter) -> LedgerReader:
        """Read what this client's own writer has confirmed, up to now and from now on."""

    async def delete(self, ledger: int) -> None:
        """Delete the ledger's metadata; bookies then drop its entries. No-op when it is gone."""

    async def close(self) -> None:
        """Close the connections. Writers must have been closed."""
