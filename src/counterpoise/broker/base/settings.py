"""Options that may change while a broker runs (Pulsar's dynamic configuration)."""

import asyncio
from collections.abc import Callable


class LiveSemaphore:
    """Limits concurrent work by a setting that may change.

    A new value is for work that begins from then on, as in Pulsar: what runs or waits does not
    count.
    """

    __slots__ = ("_limit", "_most", "_semaphore")

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._most = 0
        self._semaphore = asyncio.Semaphore(0)

    def current(self) -> asyncio.Semaphore:
        """The semaphore that work takes which begins now."""
        if (most := self._limit()) != self._most:
            self._most, self._semaphore = most, asyncio.Semaphore(most)
        return self._semaphore
