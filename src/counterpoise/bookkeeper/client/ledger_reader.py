"""Reads ledgers that are closed, or that this client is writing."""

import asyncio

from counterpoise.bookkeeper.bookies import Bookies
from counterpoise.bookkeeper.client.bookie_directory import BookieDirectory
from counterpoise.bookkeeper.client.ledger_writer import BookieLedgerWriter
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata
from counterpoise.bookkeeper.ledger_reading import read_entry


class BookieLedgerReader:
    """Reads a closed ledger, or one that this client's own writer has open."""

    def __init__(
        self,
        source: LedgerMetadata | BookieLedgerWriter,
        bookies: Bookies,
        directory: BookieDirectory,
    ) -> None:
        """``source``: the metadata of a closed ledger, or the writer of an open one."""
        self._source = source
        self._directory = directory
        self._bookies = bookies

    @property
    def ledger(self) -> int:
        """The ledger's id."""
        return self._source.ledger

    @property
    def last_entry(self) -> int:
        """The last readable entry; -1 if there is none."""
        source = self._source
        return source.last_entry if isinstance(source, LedgerMetadata) else source.last_confirmed

    @property
    def length(self) -> int:
        """Bytes of the payloads up to and including `last_entry`."""
        return self._source.length

    async def read(self, first: int, last: int) -> list[bytes]:
        """The payloads of entries ``first`` to ``last``, both included."""
        source, last = self._source, min(last, self.last_entry)
        metadata = source if isinstance(source, LedgerMetadata) else source.metadata
        await self._directory.refresh()
        tasks = [
            asyncio.create_task(read_entry(self._bookies, metadata, entry))
            for entry in range(first, last + 1)
        ]
        try:
            return [each.payload for each in await asyncio.gather(*tasks)]
        finally:
            for task in tasks:
                task.cancel()
