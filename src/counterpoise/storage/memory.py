"""Ledgers in memory, shared by the brokers of one process: for tests and embedded clusters."""

import threading
from collections.abc import Iterable
from typing import TypeVar

from counterpoise.storage.grouplog import Log
from counterpoise.storage.local_ids import LocalLedgerIds
from counterpoise.storage.port import (
    Chunk,
    CursorState,
    EntryGroup,
    LedgerIds,
    LogFencedError,
    LogListener,
    Persistence,
)
from counterpoise.storage.topic_record import JsonTopics, TopicCodec

C = TypeVar("C")

_LEDGER_ENTRIES = 50_000
"""Entries after which a ledger rolls over (``managedLedgerMaxEntriesPerLedger``)."""


class _Stored:
    """The data of a log that outlive its owner: committed entries by ledger, and cursors."""

    def __init__(self) -> None:
        self.epoch = 0
        self.owner = ""
        self.released = False
        self.last_ledger = -1
        self.ledgers: dict[int, tuple[list[bytes], list[int]]] = {}
        self.cursors: dict[str, CursorState] = {}
        self.lock = threading.Lock()


class MemoryLedgerStore:
    """Logs in memory: one object for all brokers of a process, each on an event loop of its own."""

    def __init__(self, *, ledger_entries: int = _LEDGER_ENTRIES) -> None:
        self._logs: dict[str, _Stored] = {}
        self._ledger_entries = ledger_entries
        self._lock = threading.Lock()
        self._ids = LocalLedgerIds()
        self.topics: TopicCodec = JsonTopics()

    async def open(
        self,
        name: str,
        owner: str,
        listener: LogListener[C],
        ids: LedgerIds | None = None,
        persistence: Persistence | None = None,
    ) -> Log[C]:
        """Take log ``name`` over from its former owner."""
        ids = ids or self._ids
        while True:
            with self._lock:
                stored = self._logs.setdefault(name, _Stored())
            with stored.lock:
                last = stored.last_ledger
                if (ledger_id := ids.next_id(last)) is not None:
                    return self._take_over(name, stored, owner, listener, ids, ledger_id)
            await ids.fetch(last)

    def _take_over(
        self,
        name: str,
        stored: _Stored,
        owner: str,
        listener: LogListener[C],
        ids: LedgerIds,
        ledger_id: int,
    ) -> Log[C]:
        stored.epoch += 1
        stored.owner = owner
        stored.released = False
        for unused in [i for i, (entries, _) in stored.ledgers.items() if not entries]:
            del stored.ledgers[unused]
        return _MemoryLog(name, stored, listener, self._ledger_entries, ids, ledger_id)

    async def prepare(self, name: str, ids: LedgerIds | None = None) -> None:
        """Fetches an id for the next ledger; nothing else has to be read."""
        stored = self._logs.get(name)
        if ids is not None and stored is not None:
            await ids.fetch(stored.last_ledger)

    async def highest_ledger(self) -> int:
        """The largest ledger id in memory."""
        with self._lock:
            return max((each.last_ledger for each in self._logs.values()), default=-1)

    async def is_released(self, name: str) -> bool:
        """Whether the log's last owner has closed it."""
        stored = self._logs.get(name)
        return stored is not None and stored.released

    async def exists(self, name: str) -> bool:
        """Whether the log was created and not deleted."""
        return name in self._logs

    async def delete(self, name: str) -> None:
        """Fence the owner and delete the log."""
        with self._lock:
            stored = self._logs.pop(name, None)
        if stored is not None:
            with stored.lock:
                stored.epoch += 1
                stored.owner = "its deletion"

    async def close(self) -> None:
        """Does nothing: the entries live as long as this object."""


class _MemoryLog(Log[C]):
    def __init__(
        self,
        name: str,
        stored: _Stored,
        listener: LogListener[C],
        ledger_entries: int,
        ids: LedgerIds,
        ledger_id: int,
    ) -> None:
        self._stored = stored
        self._epoch = stored.epoch
        self._ledger_entries = ledger_entries
        self._ids = ids
        self._begin_ledger(ledger_id)
        super().__init__(name, listener, _sizes(stored), stored.cursors)

    def _begin_ledger(self, ledger_id: int) -> None:
        self._stored.last_ledger = ledger_id
        self._stored.ledgers[ledger_id] = ([], [])

    def cached(self, index: int) -> Chunk | None:
        """A chunk with the whole ledger that contains ``index``; None if there is no such entry."""
        if not self.begin <= index < self.end:
            return None
        ledger = self._index.holding(index)
        entries, messages = self._stored.ledgers[ledger.ledger_id]
        return Chunk(ledger.base, entries, messages)

    async def read(self, index: int, max_bytes: int) -> Chunk:
        """A chunk with the whole ledger of entry ``index``; an empty one without such an entry."""
        chunk = self.cached(index)
        return chunk if chunk is not None else Chunk(index, (), ())

    def _place(self, group: EntryGroup[C]) -> tuple[int, int]:
        last = self._index.last
        if last.entries < self._ledger_entries:
            return last.ledger_id, last.entries
        ledger_id = self._ids.next_id(last.ledger_id)
        # While no id is available the ledger grows on.
        return (last.ledger_id, last.entries) if ledger_id is None else (ledger_id, 0)

    def _write(self, group: EntryGroup[C]) -> None:
        stored = self._stored
        with stored.lock:
            is_mine = stored.epoch == self._epoch
            if is_mine:
                if group.ledger_id not in stored.ledgers:
                    self._begin_ledger(group.ledger_id)
                entries, messages = stored.ledgers[group.ledger_id]
                entries += group.entries
                messages += group.messages
        if not is_mine:
            self._fail(self._fenced())
            return
        group.size = sum(map(len, group.entries))
        self._written(group)

    def _fenced(self) -> LogFencedError:
        return LogFencedError(f"{self.name} was taken over by {self._stored.owner}")

    def _remember(self, group: EntryGroup[C]) -> None:
        pass  # `cached` returns the stored lists themselves

    def _state_changed(self) -> None:
        with self._stored.lock:
            if self._stored.epoch == self._epoch:
                self._stored.cursors = dict(self._cursors)

    def _delete_ledgers(self, ledger_ids: list[int]) -> None:
        with self._stored.lock:
            if self._stored.epoch == self._epoch:
                for ledger_id in ledger_ids:
                    del self._stored.ledgers[ledger_id]

    async def _persist(self) -> None:
        # Cursors are stored as they change.
        if self._stored.epoch != self._epoch:
            self._fail(fenced := self._fenced())
            raise fenced

    async def _write_final_state(self) -> None:
        with self._stored.lock:
            self._stored.released |= self._stored.epoch == self._epoch

    async def _release(self) -> None:
        pass


def _sizes(stored: _Stored) -> Iterable[tuple[int, int, int]]:
    for ledger_id, (entries, _) in stored.ledgers.items():
        yield ledger_id, len(entries), sum(map(len, entries))
