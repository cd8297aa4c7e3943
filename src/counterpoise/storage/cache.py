"""Recently written entries, bounded in bytes over all logs of a store; oldest go first."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Any

from counterpoise.storage.port import Chunk, Group

_SMALL = 64
"""Groups below this many entries are joined, so that a slow topic has few chunks as well."""

_OVERHEAD = 120
"""Bytes an entry costs beside its own: object headers and list slots."""


class EntryCache:
    """The budget that the caches of all logs share."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._order: deque[tuple[LogCache, int]] = deque()
        self.size = 0

    def added(self, cache: LogCache, size: int) -> None:
        """Account for a new chunk, evicting the oldest ones of any log to make room."""
        self._order.append((cache, size))
        self.size += size
        while self.size > self._max_bytes and len(self._order) > 1:
            oldest, freed = self._order.popleft()
            if not oldest.closed:
                self.size -= freed
                oldest.evict()

    def extended(self, size: int) -> None:
        """The newest chunk grew."""
        cache, before = self._order[-1]
        self._order[-1] = (cache, before + size)
        self.size += size

    def is_newest(self, cache: LogCache) -> bool:
        """Whether the newest chunk of all is this log's."""
        return bool(self._order) and self._order[-1][0] is cache


class LogCache:
    """One log's cached chunks, in order and without gaps."""

    __slots__ = ("_budget", "_chunks", "_firsts", "_ledger", "_start", "closed", "size")

    def __init__(self, budget: EntryCache) -> None:
        self._budget = budget
        self._chunks: list[tuple[Chunk, int]] = []
        self._firsts: list[int] = []
        self._start = 0
        self._ledger = -1
        self.size = 0
        self.closed = False

    def add(self, group: Group[Any]) -> None:
        """Keep a committed group; its lists are shared, so nobody may change them after."""
        size = group.size + _OVERHEAD * len(group.entries)
        self.size += size
        if (
            self._start < len(self._chunks)
            and self._ledger == group.ledger_id
            and self._budget.is_newest(self)
            and len(self._chunks[-1][0].entries) < _SMALL
        ):
            chunk, before = self._chunks[-1]
            entries, messages = list(chunk.entries), list(chunk.messages)
            entries += group.entries
            messages += group.messages
            self._chunks[-1] = Chunk(chunk.first, entries, messages), before + size
            self._budget.extended(size)
            return
        self._ledger = group.ledger_id
        self._chunks.append((Chunk(group.first, group.entries, group.messages), size))
        self._firsts.append(group.first)
        self._budget.added(self, size)

    def at(self, index: int) -> Chunk | None:
        """The chunk that contains ``index``, if it is still here."""
        firsts = self._firsts
        if not firsts:
            return None
        place = len(firsts) - 1 if index >= firsts[-1] else bisect_right(firsts, index) - 1
        if place < self._start:
            return None
        chunk = self._chunks[place][0]
        return chunk if index < chunk.first + len(chunk.entries) else None

    def evict(self) -> None:
        """Forget the oldest chunk."""
        self.size -= self._chunks[self._start][1]
        self._chunks[self._start] = (Chunk(0, (), ()), 0)
        self._start += 1
        if self._start * 2 > len(self._chunks):
            del self._chunks[: self._start], self._firsts[: self._start]
            self._start = 0

    def close(self) -> None:
        """Forget everything."""
        if not self.closed:
            self.closed = True
            self._budget.size -= self.size
            self._chunks, self._firsts, self._start = [], [], 0
