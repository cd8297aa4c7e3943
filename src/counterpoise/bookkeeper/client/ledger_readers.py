"""Readers of closed ledgers, and of one that this client is writing."""

from __future__ import annotations

import asyncio

from counterpoise.bookkeeper.bookies import Bookies
from counterpoise.bookkeeper.client.bookie_directory import BookieDirectory
from counterpoise.bookkeeper.client.ledger_writer import BookieLedgerWriter
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata
from counterpoise.bookkeeper.ledger_reading import read_entry


class ClosedLedgerReader:
    """Reads a closed ledger."""

    def __init__(
        self, metadata: LedgerMetadata, bookies: Bookies, directory: BookieDirectory
    ) -> None:
        self._metadata = metadata
        self._directory = directory
        self._bookies = bookies

    @property
    def ledger(self) -> int:
        """The ledger's id."""
        return self._metadata.ledger

    @property
    def last_entry(self) -> int:
        """The last readable entry; -1 if there is none."""
        return self._metadata.last_entry

    @property
    def length(self) -> int:
        """Bytes of the payloads up to and including `last_entry`."""
        return self._metadata.length

    async def read(self, first: int, last: int) -> list[bytes]:
        """The payloads of entries ``first`` to ``last``, both included."""
        return await _read(
            self._directory, self._bookies, self._metadata, first, min(last, self.last_entry)
        )


class OpenLedgerReader:
    """Reads a ledger that this client's own writer has open."""

    def __init__(
        self, writer: BookieLedgerWriter, bookies: Bookies, directory: BookieDirectory
    ) -> None:
        self._writer = writer
        self._directory = directory
        self._bookies = bookies

    @property
    def ledger(self) -> int:
        """The ledger's id."""
        return self._writer.ledger

    @property
    def last_entry(self) -> int:
        """The last readable entry; -1 if there is none."""
        return self._writer.last_confirmed

    @property
    def length(self) -> int:
        """Bytes of the payloads up to and including `last_entry`."""
        return self._writer.length

    async def read(self, first: int, last: int) -> list[bytes]:
        """The payloads of entries ``first`` to ``last``, both included."""
        metadata, last = self._writer.metadata, min(last, self.last_entry)
        return await _read(self._directory, self._bookies, metadata, first, last)


async def _read(
    directory: BookieDirectory, bookies: Bookies, ledger: LedgerMetadata, first: int, last: int
) -> list[bytes]:
    await directory.refresh()
    tasks = [
        asyncio.create_task(read_entry(bookies, ledger, entry)) for entry in range(first, last + 1)
    ]
    try:
        return [each.payload for each in await asyncio.gather(*tasks)]
    finally:
        for task in tasks:
            task.cancel()
