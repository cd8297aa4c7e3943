"""The base class of logs on a disk or on bookies: caches new entries, skips lost ones."""

import logging
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TypeVar

from counterpoise.storage.cache import EntryCache, LogCache
from counterpoise.storage.grouplog import Log
from counterpoise.storage.ledger_index import IndexedLedger
from counterpoise.storage.lost_entries import LostEntries, empty_chunk, lost_from, merged
from counterpoise.storage.port import (
    Chunk,
    CursorState,
    EntryGroup,
    LogListener,
    Lost,
    StorageError,
)

C = TypeVar("C")
_log = logging.getLogger(__name__)


class StoredLog(Log[C]):
    """Base of logs that are not in memory, with a cache of the newest entries."""

    def __init__(
        self,
        name: str,
        listener: LogListener[C],
        ledgers: Iterable[tuple[int, int, int]],
        cursors: Mapping[str, CursorState],
        cache: EntryCache,
    ) -> None:
        super().__init__(name, listener, ledgers, cursors)
        self._cache = LogCache(cache)

    def _remember(self, group: EntryGroup[C]) -> None:
        self._cache.add(group)

    @property
    def cached_bytes(self) -> int:
        """Bytes of this log's entries in the entry cache."""
        return self._cache.size

    def cached(self, index: int) -> Chunk | None:
        """A cached chunk that contains ``index``; None if it has to be `read`."""
        return self._cache.at(index)

    async def read(self, index: int, max_bytes: int) -> Chunk:
        """Read a chunk starting at ``index`` from the store."""
        if index < self.begin:
            return Chunk(index, (), ())
        ledger = self._index.holding(index)
        entry_id = index - ledger.base
        if lost := lost_from(self._lost, ledger.ledger_id, entry_id):
            return empty_chunk(index, lost)
        try:
            entries, messages = await self._read(ledger, entry_id, max_bytes)
        except StorageError:
            if index >= self.begin:
                raise
        except LostEntries as error:
            if index >= self.begin:
                # Perhaps a successor has deleted the entries, so that they are not lost: then this
                # raises.
                await self._check_mine()
            if index >= self.begin:
                self._found_lost(error.lost)
                return empty_chunk(index, error.lost.entries)
        else:
            return Chunk(index, entries, messages)
        # Deleted while it was read.
        return Chunk(index, (), ())

    @abstractmethod
    async def _read(
        self, ledger: IndexedLedger, entry_id: int, max_bytes: int
    ) -> tuple[list[bytes], list[int]]:
        """Read entries of a ledger from ``entry_id`` on, and how many messages each has: at least
        one entry, about ``max_bytes`` at most.

        Raises `LostEntries` if the first is lost, and `StorageError`.
        """

    @abstractmethod
    async def _check_mine(self) -> None:
        """Raise `StorageError` if another owner has fenced this log."""

    def _found_lost(self, lost: Lost) -> None:
        before = list(self._lost)
        self._lost = list(merged([*before, lost]))
        if self._lost != before:
            self._log_lost(lost)
            self._listener.lost(lost)

    @abstractmethod
    def _log_lost(self, lost: Lost) -> None:
        """Log entries that a read has just found to be lost."""

    async def _save_now(self) -> None:
        try:
            await self._persist()
        except StorageError as error:
            # No stored message depends on this save: the next change tries again.
            _log.warning("%s", error)
