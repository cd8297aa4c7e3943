"""Writes a ledger entry by entry, each awaited until it is confirmed."""

import asyncio
from collections.abc import Mapping

from counterpoise.bookkeeper.client_port import LedgerClient, LedgerOver, LedgerWriter
from counterpoise.bookkeeper.errors import BookKeeperError


class ConfirmedLedger:
    """Writes one ledger entry by entry, waiting for each to be confirmed."""

    def __init__(self) -> None:
        self._writer: LedgerWriter
        self._waiting: asyncio.Future[None] | None = None
        self._wanted = -1
        self.is_over = False

    @classmethod
    async def create(cls, client: LedgerClient, purpose: Mapping[str, bytes]) -> "ConfirmedLedger":
        """Create a ledger; raises `BookKeeperError`."""
        made = cls()
        made._writer = await client.create(purpose, made)
        return made

    @property
    def ledger(self) -> int:
        """The ledger's id."""
        return self._writer.ledger

    @property
    def entries(self) -> int:
        """The number of confirmed entries."""
        return self._writer.last_confirmed + 1

    async def add(self, payload: bytes) -> None:
        """Add an entry and return when it is confirmed; raises `BookKeeperError`."""
        if self.is_over:
            raise LedgerOver(f"ledger {self.ledger} takes no more entries")
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            self._wanted = self._writer.add(payload)
            if self._writer.last_confirmed < self._wanted:
                await self._waiting
        except BookKeeperError:
            self.is_over = True
            raise
        finally:
            self._waiting = None

    async def close(self) -> None:
        """Close the ledger; raises `BookKeeperError`."""
        self.is_over = True
        await self._writer.close()

    def confirmed(self, last: int) -> None:
        """Called by the writer: entries up to ``last`` are on an ack quorum of bookies."""
        if self._waiting is not None and last >= self._wanted and not self._waiting.done():
            self._waiting.set_result(None)

    def ended(self, error: BookKeeperError) -> None:
        """Called by the writer: no entry after the last confirmed one will be acknowledged."""
        self.is_over = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
