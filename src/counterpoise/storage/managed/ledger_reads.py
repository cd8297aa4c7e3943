"""Reads a log's ledgers."""

from collections.abc import Iterable
from typing import Final

from counterpoise.bookkeeper.client_port import LedgerClient, LedgerReader
from counterpoise.bookkeeper.errors import BookKeeperError, EntryUnreadable, NoSuchLedger
from counterpoise.storage.ledger_index import IndexedLedger
from counterpoise.storage.lost_entries import LostEntries
from counterpoise.storage.managed.current_ledger import CurrentLedger
from counterpoise.storage.managed.entries import as_sent
from counterpoise.storage.port import Lost, StorageError

ENTRIES_MAX: Final = 1000
"""The most entries that are requested at once."""


class LedgerReads:
    """The readers of a log's ledgers, each opened on first use."""

    def __init__(self, client: LedgerClient) -> None:
        self._client = client
        self._readers: dict[int, LedgerReader] = {}

    def forget(self, ledger_ids: Iterable[int]) -> None:
        """Drop the readers of ledgers that were deleted or closed; the next read opens another."""
        for ledger_id in ledger_ids:
            self._readers.pop(ledger_id, None)

    async def read(
        self, ledger: IndexedLedger, entry_id: int, max_bytes: int, current: CurrentLedger
    ) -> list[bytes]:
        """Read entries of ``ledger`` from ``entry_id`` on: at least one, about ``max_bytes`` at
        most.

        Raises `LostEntries` if the first is lost, and `StorageError`.
        """
        is_new = ledger.ledger_id not in self._readers
        try:
            return await self._read(ledger, entry_id, max_bytes, current)
        except (LostEntries, StorageError):
            # Other bookies may have the entries since its metadata was read: they are copied when
            # a bookie is lost.
            self.forget([ledger.ledger_id])
            if is_new:
                raise
        return await self._read(ledger, entry_id, max_bytes, current)

    async def _read(
        self, ledger: IndexedLedger, entry_id: int, max_bytes: int, current: CurrentLedger
    ) -> list[bytes]:
        mean = max(ledger.size // max(ledger.entries, 1), 1)
        count = min(max(max_bytes // mean, 1), ENTRIES_MAX, ledger.entries - entry_id)
        try:
            reader = await self._reader(ledger.ledger_id, current)
            try:
                payloads = await reader.read(entry_id, entry_id + count - 1)
            except EntryUnreadable:
                if count == 1:
                    raise
                # Perhaps only one of them is unreadable: the first is tried alone.
                payloads = await reader.read(entry_id, entry_id)
        except NoSuchLedger:
            raise LostEntries(Lost(ledger.ledger_id, entry_id, ledger.entries - 1)) from None
        except EntryUnreadable as error:
            if error.lost:
                raise LostEntries(Lost(ledger.ledger_id, entry_id, entry_id)) from None
            raise StorageError(str(error)) from error
        except BookKeeperError as error:
            raise StorageError(f"ledger {ledger.ledger_id} cannot be read: {error}") from error
        return [as_sent(payload) for payload in payloads]

    async def _reader(self, ledger_id: int, current: CurrentLedger) -> LedgerReader:
        reader = self._readers.get(ledger_id)
        if reader is None:
            if ledger_id == current.ledger_id and not current.is_over:
                reader = await self._client.read_open(current.writer)
            else:
                # Owners of this log have closed all ledgers but the one being written, so this
                # fences no writer.
                reader = await self._client.recover(ledger_id)
            self._readers[ledger_id] = reader
        return reader
