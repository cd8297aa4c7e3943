"""Entries that wait for publish rate limits: of one connection, and of all."""

from typing import Final

from counterpoise.broker.connection.pause import PauseReason, ReadingPause

RESUME_PART: Final = 64
"""Reading resumes when 1/64 of the entries and bytes that may be throttled is free: early, since
the connection's other producers wait too while it is paused."""


class ThrottledMemory:
    """Counts the bytes of throttled entries over all connections of a broker."""

    __slots__ = ("limit", "size")

    def __init__(self, limit: int) -> None:
        """``limit``: the most bytes of throttled entries in all; 0 for no limit."""
        self.limit = limit
        self.size = 0

    @property
    def full(self) -> bool:
        """Whether the limit is reached: each connection pauses when its next entry is throttled."""
        return 0 < self.limit <= self.size


class ThrottledPublishes:
    """Counts the throttled entries of one connection, and pauses its reading if there are too many.

    While too many bytes of all connections together are throttled, each connection is paused when
    another of its entries is throttled. A client within its limits is never paused.
    """

    __slots__ = ("_entries_max", "_memory", "_pause", "_size_max", "entries", "size")

    def __init__(
        self, pause: ReadingPause, memory: ThrottledMemory, entries_max: int, size_max: int
    ) -> None:
        self._pause = pause
        self._memory = memory
        self._entries_max = entries_max
        self._size_max = size_max
        self.entries = 0
        self.size = 0

    def add(self, entries: int, size: int) -> None:
        """Count throttled entries of ``size`` bytes together, negative for entries that wait no
        longer; pause or resume reading.
        """
        self.entries += entries
        self.size += size
        self._memory.size += size
        if entries > 0:
            if self._over(self._entries_max, self._size_max) or self._memory.full:
                self._pause.hold(PauseReason.PUBLISH_RATE)
        elif not self.entries or not (
            self._memory.full
            or self._over(
                self._entries_max - self._entries_max // RESUME_PART,
                self._size_max - self._size_max // RESUME_PART,
            )
        ):
            self._pause.release(PauseReason.PUBLISH_RATE)

    def _over(self, entries: int, size: int) -> bool:
        return self.entries >= entries or self.size >= size
