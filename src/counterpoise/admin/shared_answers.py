"""Answers that take long to make: one at a time, and for all who ask meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from aiohttp import web

from counterpoise.broker.face import BackgroundTasks

T = TypeVar("T")


class SharedAnswers:
    """The answers that a broker is making now, each shared by all requests for it.

    The figures of ten thousand topics are megabytes, and a second's work beside the event loop. A
    thread for each of those who ask would leave clients nothing of the interpreter.
    """

    def __init__(self, background: BackgroundTasks) -> None:
        self._background = background
        self._one = asyncio.Lock()
        self._awaited: dict[str, asyncio.Task[Any]] = {}

    async def get(self, what: str, make: Callable[[], Awaitable[T]]) -> T:
        """What ``make`` gives, begun after this was asked: no answer is older than its question.

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
            # A request from here on is too late for this one.
            del self._awaited[what]
            return await make()


SHARED: Final = web.AppKey("shared answers", SharedAnswers)
PARTITIONS_SHARED: Final = web.AppKey("shared answers about partitions", SharedAnswers)
"""Apart from the others, since these wait for other brokers."""
