"""Costly answers that many ask for at once: found once for all who asked before it was begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SingleFlight(Generic[K, T]):
    """Finds one answer at a time for each key.

    Whoever asks while one is being found gets the next, since the present one may have missed what
    the asker knows of; all who wait share it, or its failure. Nothing is kept for later.
    """

    def __init__(self, find: Callable[[K], Awaitable[T]]) -> None:
        self._find = find
        self._known: dict[K, _Flights[T]] = {}

    async def __call__(self, key: K) -> T:
        """The answer, found after this was called; raises what finding it raises."""
        with self.asking(key) as asking:
            await asking.find()
            return asking.answer

    @contextmanager
    def asking(self, key: K) -> Iterator[FlightTicket[T]]:
        """Ask now; and find the answer later, unless somebody else has by then."""
        known = self._known.setdefault(key, _Flights())
        known.asking += 1
        try:
            yield FlightTicket(known, lambda: self._find(key))
        finally:
            known.asking -= 1
            if not known.asking:
                self._known.pop(key, None)


class _Flights(Generic[T]):
    """What was found last for a key, while anybody asks for it."""

    def __init__(self) -> None:
        self.one = asyncio.Lock()
        self.asking = 0
        #: How many times it was looked for, and which of them was answered last.
        self.begun = 0
        self.answered = 0
        self.error: Exception | None = None
        self.value: T


class FlightTicket(Generic[T]):
    """One who asks."""

    def __init__(self, known: _Flights[T], find: Callable[[], Awaitable[T]]) -> None:
        self._known = known
        self._before = known.begun
        self._find = find

    @property
    def found(self) -> bool:
        """Whether there is an answer, or a failure, that was begun after this was asked."""
        return self._known.answered > self._before

    async def find(self) -> None:
        """See to it that there is."""
        known = self._known
        async with known.one:
            if self.found:
                return
            known.begun += 1
            number = known.begun
            try:
                known.value, known.error = await self._find(), None
            except Exception as error:
                known.error = error
            known.answered = number

    @property
    def answer(self) -> T:
        """What was found; raises what finding it raised."""
        if self._known.error is not None:
            raise self._known.error.with_traceback(None)
        return self._known.value
