"""Requests to brokers' admin API, with limits, and time-outs that count only a broker's own delay.

A broker has `timeout_s` from the moment its request is sent. The time a request waits for its turn
does not count, nor the time this process's event loop was busy: neither is due to the broker. A
request that takes longer than its turn lets the next one start, and its response is still awaited.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import aiohttp

from counterpoise.names.options import ConfigError
from counterpoise.pipeline.collect.words import elsewhere, line, refusal

T = TypeVar("T")


class RefusedError(Exception):
    """A broker refused a request, or its response is unusable (then `status` is 0)."""

    def __init__(self, sentence: str, status: int = 0, body: str = "") -> None:
        super().__init__(sentence)
        self.status = status
        self.body = body


NOT_FOUND: Final = 404
"""The HTTP status for something that does not exist."""
UNREADABLE = (aiohttp.ClientError, TimeoutError, OSError, RefusedError)
"""The exceptions raised when a broker cannot be read."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response to a GET request, whatever its status."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    def refused(self) -> RefusedError:
        """An exception that says how the request was refused."""
        text = self.body.decode(errors="replace")
        return RefusedError(refusal(self.status, text), self.status, text)


@dataclass(frozen=True, slots=True)
class AdminOptions:
    """Limits on requests to brokers."""

    at_once: int = 32
    """The most requests at a time, without those that have taken longer than `turn_s`."""
    aside: int = 32
    """The most requests at a time that have taken longer than `turn_s`, and as many to brokers that
    hung.

    All together are fewer than the hundred connections that aiohttp opens."""
    turn_s: float = 1.0
    """Seconds without an answer after which a request no longer keeps others waiting."""
    timeout_s: float = 10.0
    """Seconds that a broker may take for one answer, unless the HTTP session has a shorter
    time-out."""
    most_bytes: int = 256 << 20
    """The most bytes of one answer; a broker with a hundred thousand topics needs half of it."""


class Admin:
    """GET requests to a cluster's admin API over one `aiohttp` session (its TLS and tokens)."""

    def __init__(self, session: aiohttp.ClientSession, options: AdminOptions) -> None:
        self._session = session
        self._turns = _Turns(options.at_once, options.aside, options.turn_s)
        self._most_bytes = options.most_bytes
        self._options = options
        self._lag = LoopLag()
        self._slow: set[str] = set()

    @property
    def timeout_s(self) -> float:
        """Seconds a broker may take for one answer."""
        return min(self._options.timeout_s, self._session.timeout.total or math.inf)

    @property
    def aside(self) -> "Admin":
        """A client for brokers that hang, with a limit of its own, so that they delay no others."""
        return Admin(self._session, replace(self._options, at_once=self._options.aside, aside=0))

    def slow(self) -> frozenset[str]:
        """The addresses that took longer than `turn_s` to answer since the last call of `slow`."""
        slow = frozenset(self._slow)
        self._slow.clear()
        return slow

    async def get(self, url: str, *, of_itself: bool = False) -> bytes:
        """Return the body of a response with status 200.

        Otherwise raises one of `UNREADABLE`, whose text says what came instead. With `of_itself`, a
        redirect is an error: the request is for this broker's own figures.
        """
        reply = await self.ask(url, redirects=not of_itself)
        if of_itself and 300 <= reply.status < 400:
            raise RefusedError(elsewhere(reply.status, reply.headers), reply.status)
        if reply.status != 200:
            raise reply.refused()
        return reply.body

    async def ask(self, url: str, *, redirects: bool = False) -> Reply:
        """Return the response, whatever its status; redirects are followed only with `redirects`.

        Raises one of `UNREADABLE` if there is no response.
        """
        async with self._turns.one(lambda: self._slow.add(_origin(url))):
            try:
                return await self._lag.within(self._ask(url, redirects), self.timeout_s)
            except ConfigError as error:  # our own credentials cannot be read
                raise RefusedError(str(error)) from None
            except ValueError as error:  # the URL is invalid
                raise RefusedError(f"{line(url)} is no address: {line(str(error))}") from None

    async def _ask(self, url: str, redirects: bool) -> Reply:
        # Without aiohttp's own time-out, which would include our event loop's lag.
        no_limit = aiohttp.ClientTimeout(total=None)
        request = self._session.get(url, timeout=no_limit, allow_redirects=redirects)
        async with request as response:
            return Reply(response.status, await self._body(response), response.headers)

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for piece in response.content.iter_any():
            body += piece
            if len(body) > self._most_bytes:
                response.close()
                most = f"{self._most_bytes / (1 << 20):g} MiB"
                raise RefusedError(f"its answer is longer than {most}, and the rest is not read")
        return bytes(body)


class _Turns:
    """A semaphore that frees the place of a holder that keeps it for too long."""

    def __init__(self, at_once: int, given_away_most: int, turn_s: float) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._left = given_away_most
        self._turn_s = turn_s

    @asynccontextmanager
    async def one(self, late: Callable[[], object]) -> AsyncIterator[None]:
        """Hold one of the limited places during the block.

        After ``turn_s`` seconds `late` is called, and the place is freed for another request.
        """
        await self._free.acquire()
        has = True

        def give_away() -> None:
            nonlocal has
            late()
            if self._left:
                self._left -= 1
                has = False
                self._free.release()

        timer = asyncio.get_running_loop().call_later(self._turn_s, give_away)
        try:
            yield
        finally:
            timer.cancel()
            if has:
                self._free.release()
            else:
                self._left += 1


class LoopLag:
    """Measures for how long the event loop was blocked, so that no response could be read."""

    EVERY_S = 0.1

    def __init__(self) -> None:
        self._waiting = 0
        self._late_s = 0.0
        self._due = 0.0
        self._handle: asyncio.TimerHandle | None = None

    async def within(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return the result of `work`; raise `TimeoutError` after `seconds`, in which the time
        that the event loop was blocked does not count.
        """
        clock = asyncio.get_running_loop().time
        task = asyncio.ensure_future(work)
        task.add_done_callback(_heard)
        self._begin()
        try:
            began, late = clock(), self._late()
            left = seconds
            while left > 0:
                done, _ = await asyncio.wait({task}, timeout=left)
                if done:
                    return task.result()
                left = seconds - (clock() - began) + (self._late() - late)
            raise TimeoutError(f"no answer within {seconds:g} s")
        finally:
            self._end()
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _late(self) -> float:
        overdue = asyncio.get_running_loop().time() - self._due
        return self._late_s + max(0.0, overdue)

    def _begin(self) -> None:
        self._waiting += 1
        if self._handle is None:
            self._next()

    def _end(self) -> None:
        self._waiting -= 1
        if not self._waiting and self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _next(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + self.EVERY_S
        self._handle = loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._late_s += max(0.0, asyncio.get_running_loop().time() - self._due)
        self._next()


def _heard(task: asyncio.Task[Any]) -> None:
    """Mark a task's error as read, since asyncio would log it if no caller awaits the task."""
    if not task.cancelled():
        task.exception()


def _origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])
