"""Computes a slow answer once for all requests that wait for it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from aiohttp import web

from counterpoise.broker.face import BackgroundTasks

T = TypeVar("T")


class SharedAnswers:
    """The answers that a broker is computing now, each shared by all requests for it.

    The statistics of 10,000 topics are megabytes, and take a second of work. A thread for each
    request would leave the event loop no processor time.
    """

    def __init__(self, background: BackgroundTasks) -> None:
        self._background = background
        self._one = asyncio.Lock()
        self._awaited: dict[str, asyncio.Task[Any]] = {}

    async def get(self, what: str, make: Callable[[], Awaitable[T]]) -> T:
        """The result of ``make``, whose computation began after this call: no answer is older than
        its request.

        ``what`` names the answer: requests with the same name share one.
        """
        awaited = self._awaited.get(what)
        if awaited is None:
            awaited = self._background.start(what, self._make(what, make), expected=(Exception,))
            self._awaited[what] = awaited
        answer: T = await asyncio.shield(awaited)
        return answer

    async def _make(self, what: str, make: Callable[[], Awaitable[T]]) -> T:
        async with self._one:
            # A request from now on gets the next computation.
            del self._awaited[what]
            return await make()


SHARED: Final = web.AppKey("shared answers", SharedAnswers)
"""The key of the answers that this broker computes by itself."""
PARTITIONS_SHARED: Final = web.AppKey("shared answers about partitions", SharedAnswers)
"""The key of answers about partitions.

Separate from `SHARED`, since these computations wait for other brokers."""
