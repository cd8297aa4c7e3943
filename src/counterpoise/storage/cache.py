"""Caches recently written entries, bounded in bytes over all logs; evicts the oldest."""

from bisect import bisect_right
from collections import deque
from typing import Any

from counterpoise.storage.port import Chunk, EntryGroup

_SMALL = 64
"""A chunk with fewer entries than this takes in the next group, too, so that a slow topic, whose
groups are small, has few chunks."""

_OVERHEAD = 120
"""Bytes of memory that an entry costs beside its content: object headers and list slots."""


class EntryCache:
    """Limits the bytes that the caches of all logs take together; evicts the oldest chunks."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._order: deque[tuple[LogCache, int]] = deque()
        self._closed = 0
        """How many of these chunks are of closed logs."""
        self.size = 0

    def added(self, cache: "LogCache", size: int) -> None:
        """Count a new chunk of a log, and evict the oldest chunks of all logs to make room."""
        self._order.append((cache, size))
        self.size += size
        while self.size > self._max_bytes and len(self._order) > 1:
            oldest, freed = self._order.popleft()
            if oldest.closed:
                self._closed -= 1
            else:
                self.size -= freed
                oldest.evict()

    def extended(self, cache: "LogCache", size: int) -> bool:
        """Count bytes appended to a log's newest chunk.

        Returns False, and counts nothing, unless that chunk is also the newest of all logs: chunks
        are evicted in the order in which they began.
        """
        newest, before = self._order[-1] if self._order else (None, 0)
        if newest is not cache:
            return False
        self._order[-1] = (cache, before + size)
        self.size += size
        return True

    def dropped(self, size: int, chunks: int) -> None:
        """Count the chunks of a log that was closed as deleted."""
        self.size -= size
        self._closed += chunks
        if self._closed * 2 > len(self._order):
            self._order = deque(each for each in self._order if not each[0].closed)
            self._closed = 0


class LogCache:
    """The newest entries of one log in memory, as chunks in order and without gaps."""

    __slots__ = (
        "_budget",
        "_chunks",
        "_entries",
        "_firsts",
        "_ledger",
        "_messages",
        "_sizes",
        "_start",
        "closed",
        "size",
    )

    def __init__(self, budget: EntryCache) -> None:
        self._budget = budget
        self._chunks: list[Chunk] = []
        self._firsts: list[int] = []
        self._sizes: list[int] = []
        self._entries: list[bytes] = []
        """The lists of the newest chunk, to which small groups are appended."""
        self._messages: list[int] = []
        self._start = 0
        self._ledger = -1
        self.size = 0
        self.closed = False

    def add(self, group: EntryGroup[Any]) -> None:
        """Cache a committed group of entries.

        The group's lists begin a new chunk, and later groups are appended to them. So a chunk that
        `read` returned earlier may have grown at its end.
        """
        size = group.size + _OVERHEAD * len(group.entries)
        self.size += size
        if (
            self._start < len(self._chunks)
            and self._ledger == group.ledger_id
            and len(self._entries) < _SMALL
            and self._budget.extended(self, size)
        ):
            self._entries += group.entries
            self._messages += group.messages
            self._sizes[-1] += size
            return
        self._ledger = group.ledger_id
        self._entries, self._messages = group.entries, group.messages
        self._chunks.append(Chunk(group.first, group.entries, group.messages))
        self._firsts.append(group.first)
        self._sizes.append(size)
        self._budget.added(self, size)

    def at(self, index: int) -> Chunk | None:
        """The cached chunk that contains ``index``, if any."""
        firsts = self._firsts
        if not firsts:
            return None
        place = len(firsts) - 1 if index >= firsts[-1] else bisect_right(firsts, index) - 1
        if place < self._start:
            return None
        chunk = self._chunks[place]
        return chunk if index < chunk.first + len(chunk.entries) else None

    def evict(self) -> None:
        """Drop this log's oldest cached chunk."""
        self.size -= self._sizes[self._start]
        self._chunks[self._start] = Chunk(0, (), ())
        self._start += 1
        if self._start == len(self._chunks):
            self._entries, self._messages = [], []
        if self._start * 2 > len(self._chunks):
            del self._chunks[: self._start], self._firsts[: self._start]
            del self._sizes[: self._start]
            self._start = 0

    def close(self) -> None:
        """Drop all cached entries of this log."""
        if not self.closed:
            self.closed = True
            self._budget.dropped(self.size, len(self._chunks) - self._start)
            self.size = 0
            self._chunks, self._firsts, self._sizes, self._start = [], [], [], 0
            self._entries, self._messages = [], []
