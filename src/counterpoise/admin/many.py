"""Makes one request for many paths, such as those of each partition of a topic or each bundle."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

from aiohttp import web

from counterpoise.admin.errors import RestError
from counterpoise.admin.large_json import IN_A_TURN
from counterpoise.admin.redirect import ask
from counterpoise.admin.shapes import Json
from counterpoise.broker.face import WorkBudget

T = TypeVar("T")

AT_ONCE: Final = 32
"""How many requests are in progress at once; each has a connection and a task of its own."""
PATIENCE_S: Final = 5.0
"""How long requests about many topics or bundles wait for those that move."""
FIRST_PAUSE_S: Final = 0.05
_UNANSWERED: Final = Exception("no broker was asked")


async def ask_each(
    request: web.Request,
    method: str,
    paths: Iterable[str],
    *,
    body: Json = None,
    unless_all: HTTPStatus | None = None,
) -> list[Json]:
    """Make the same request for each path, and return the answers in order; raises the first
    failure.

    A path refused with the status ``unless_all`` has no answer; the refusal is raised only if every
    path was refused so.
    """
    answers = await try_each(request, method, paths, body=body)
    failures = [each for each in answers if isinstance(each, Exception)]
    for each in failures:
        is_ignored = isinstance(each, RestError) and each.status == unless_all
        if not is_ignored or len(failures) == len(answers):
            raise each
    return [each for each in answers if not isinstance(each, Exception)]


async def try_each(
    request: web.Request, method: str, paths: Iterable[str], *, body: Json = None
) -> list[Json | Exception]:
    """Make a request for each path, and return the answers, or the refusals, in order."""
    return await try_all([partial(ask, request, method, path, body=body) for path in paths])


class Patience:
    """Repeats requests that are refused with 503 while a bundle moves, for `PATIENCE_S` in all."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._until = self._clock() + PATIENCE_S

    async def repeat(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call a function, again after growing pauses while it raises 503; returns its result."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await call()
            except RestError as error:
                moves = error.status == HTTPStatus.SERVICE_UNAVAILABLE
                if not moves or self._clock() + pause_s > self._until:
                    raise
            await asyncio.sleep(pause_s)
            pause_s *= 2


async def try_all(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
    """Call each function, `AT_ONCE` concurrently; returns results, or exceptions, in order."""
    left = list(enumerate(calls))[::-1]
    found: list[T | Exception] = [_UNANSWERED] * len(left)
    turns = WorkBudget(IN_A_TURN)

    async def work() -> None:
        while left:
            number, call = left.pop()
            try:
                found[number] = await call()
            except Exception as error:
                found[number] = error
            # Some calls return without waiting, which would let no other task run.
            await turns.did()

    await asyncio.gather(*(work() for _ in range(min(AT_ONCE, len(left)))))
    return found
