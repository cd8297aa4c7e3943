"""Single flight: one query serves all callers that asked before it began."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SingleFlight(Generic[K, T]):
    """Runs at most one query at a time for each key, and shares its result.

    A caller that comes while a query runs gets the result of the next one, since the running one
    may have read before a change that the caller knows of. All waiting callers share the result or
    its exception. Results are not cached.
    """

    def __init__(self, find: Callable[[K], Awaitable[T]]) -> None:
        self._find = find
        self._known: dict[K, _Flights[T]] = {}

    async def __call__(self, key: K) -> T:
        """The result of a query that began after this call; raises what the query raises."""
        with self.asking(key) as asking:
            await asking.find()
            return asking.answer

    @contextmanager
    def asking(self, key: K) -> "Iterator[FlightTicket[T]]":
        """Register a caller for a key; its `FlightTicket.find` runs the query if needed."""
        known = self._known.setdefault(key, _Flights())
        known.asking += 1
        try:
            yield FlightTicket(known, lambda: self._find(key))
        finally:
            known.asking -= 1
            if not known.asking:
                self._known.pop(key, None)


class _Flights(Generic[T]):
    """The queries under one key, kept as long as a caller waits for one of them."""

    def __init__(self) -> None:
        self.one = asyncio.Lock()
        self.asking = 0
        self.begun = 0
        """How many queries have begun."""
        self.answered = 0
        """The number of the last query that ended."""
        self.error: Exception | None = None
        self.value: T


class FlightTicket(Generic[T]):
    """One caller's place among those that wait for a result of `SingleFlight`."""

    def __init__(self, known: _Flights[T], find: Callable[[], Awaitable[T]]) -> None:
        self._known = known
        self._before = known.begun
        self._find = find

    @property
    def found(self) -> bool:
        """Whether a query that began after this caller registered has ended."""
        return self._known.answered > self._before

    async def find(self) -> None:
        """Wait for a query that began after this caller registered; run it if no other does."""
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
        """The result of the last query that ended; raises the query's exception."""
        if self._known.error is not None:
            raise self._known.error.with_traceback(None)
        return self._known.value
