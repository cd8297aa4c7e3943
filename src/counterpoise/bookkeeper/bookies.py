"""Connections to all bookies of a cluster, on demand; those that failed recently are used last."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from counterpoise.bookkeeper import bookie_frames
from counterpoise.bookkeeper.bookie_connection import AnswerListener, BookieConnection
from counterpoise.bookkeeper.bookie_registry import RegisteredBookie
from counterpoise.bookkeeper.errors import BookieError, MissingEntry
from counterpoise.bookkeeper.start_tls import BookieTls, connect_by_tls
from counterpoise.names.options import ConfigError


@dataclass(frozen=True, slots=True)
class BookieReadOptions:
    """Limits and time-outs of requests to bookies."""

    speculative_s: float = 2.0
    """How long a bookie may take to answer before the next one is asked as well."""
    timeout_s: float = 30.0
    """How long a bookie may take to answer before its connection is closed."""
    connect_s: float = 5.0
    """How long connecting to a bookie may take."""
    reconnect_s: float = 1.0
    """How long to wait before connecting again to a bookie that refused a connection."""
    at_once: int = 64
    """Reads that may be in flight at one bookie."""
    avoided_s: float = 60.0
    """How long a bookie that failed is asked only after the others."""
    frame_max: int = bookie_frames.FRAME_MAX
    """The largest frame that is accepted (``nettyMaxFrameSizeBytes`` of the bookies)."""
    tls: BookieTls | None = None
    """The TLS settings of connections to bookies; None: they are not encrypted."""


class _AwaitedAnswer:
    """The listener of one request whose response a coroutine awaits, which may be cancelled."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[bookie_frames.BookieAnswer] = loop.create_future()

    def answered(self, bookie: str, answers: Sequence[bookie_frames.BookieAnswer]) -> None:
        """Called when the bookie responded, perhaps with an error."""
        if not self.future.done():
            self.future.set_result(answers[0])

    def unanswered(
        self, bookie: str, request: bookie_frames.BookieRequest, error: BookieError
    ) -> None:
        """Called when the bookie will not respond; it may have carried out the request."""
        if not self.future.done():
            self.future.set_exception(error)


class Bookies:
    """Sends requests to registered bookies, over one connection to each. Close it at the end."""

    def __init__(
        self, registered: Mapping[str, RegisteredBookie], options: BookieReadOptions
    ) -> None:
        self.options = options
        self._registered = registered
        self._connections: dict[str, BookieConnection] = {}
        self._connecting: dict[str, asyncio.Lock] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._avoided: dict[str, float] = {}
        self._refused: dict[str, tuple[float, str]] = {}
        """Until when not to connect again, and why, by bookie."""
        self._unsent: dict[
            str, list[tuple[Sequence[bookie_frames.BookieRequest], AnswerListener]]
        ] = {}
        """Requests that wait for a connection, with their listeners, by bookie."""
        self._opening: set[asyncio.Task[None]] = set()

    async def read(self, bookie: str, ledger: int, entry: int) -> bytes:
        """Read an entry from this bookie; raises `BookieError`, `MissingEntry` if it has none."""
        slots = self._slots.setdefault(bookie, asyncio.Semaphore(self.options.at_once))
        async with slots:
            connection = await self._connected(bookie)
            awaited = _AwaitedAnswer()
            connection.send([bookie_frames.read_request(ledger, entry)], awaited)
            try:
                answer = await awaited.future
            except BookieError:
                self.avoid(bookie)
                raise
        if answer.code == bookie_frames.OK:
            return answer.stored
        if answer.code in (bookie_frames.NO_LEDGER, bookie_frames.NO_ENTRY):
            raise MissingEntry(bookie, answer.reason)
        raise BookieError(bookie, answer.reason)

    def send(
        self, bookie: str, requests: Sequence[bookie_frames.BookieRequest], listener: AnswerListener
    ) -> None:
        """Send requests, in the order of calls for each bookie, once there is a connection.

        The listener is notified later, never before this returns.
        """
        unsent = self._unsent.get(bookie)
        connection = self._connections.get(bookie)
        if unsent is not None:
            unsent.append((requests, listener))
        elif connection is not None and connection.usable:
            connection.send(requests, listener)
        else:
            self._unsent[bookie] = [(requests, listener)]
            task = asyncio.get_running_loop().create_task(self._send_unsent(bookie))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    def in_order(self, bookies: Sequence[str]) -> list[str]:
        """The same bookies; recently failed or slow ones come last, the most recent at the end."""
        return sorted(
            bookies, key=lambda each: self._avoided[each] if self.is_avoided(each) else 0.0
        )

    def is_avoided(self, bookie: str) -> bool:
        """Whether the bookie failed or was slow recently."""
        return self._avoided.get(bookie, 0.0) > asyncio.get_running_loop().time()

    def avoid(self, bookie: str) -> None:
        """Prefer other bookies to this one for some seconds, since it failed or was slow."""
        now = asyncio.get_running_loop().time()
        self._avoided[bookie] = now + self.options.avoided_s

    def close(self) -> None:
        """End the connections to all bookies; requests in flight fail."""
        for task in self._opening:
            task.cancel()
        for each in self._connections.values():
            each.close("closed")

    async def _send_unsent(self, bookie: str) -> None:
        try:
            connection = await self._connected(bookie)
        except BookieError as error:
            for requests, listener in self._unsent.pop(bookie):
                for request in requests:
                    listener.unanswered(bookie, request, error)
            return
        for requests, listener in self._unsent.pop(bookie):
            connection.send(requests, listener)

    async def _connected(self, bookie: str) -> BookieConnection:
        async with self._connecting.setdefault(bookie, asyncio.Lock()):
            connection = self._connections.get(bookie)
            if connection is not None and connection.usable:
                return connection
            if connection is not None and self.options.tls and not connection.has_answered:
                # A certificate may be refused after the handshake: the bookie hangs up.
                self._note_refusal(bookie, connection.failure)
                del self._connections[bookie]
            until, why = self._refused.get(bookie, (0.0, ""))
            if asyncio.get_running_loop().time() < until:
                raise BookieError(bookie, why)
            self._connections[bookie] = connection = await self._connect(bookie)
            return connection

    def _note_refusal(self, bookie: str, why: str) -> None:
        now = asyncio.get_running_loop().time()
        self._refused[bookie] = (now + self.options.reconnect_s, why)

    async def _connect(self, bookie: str) -> BookieConnection:
        known = self._registered.get(bookie)
        if known is None:
            raise BookieError(bookie, "it is gone (not registered)")
        if not known.port:
            raise BookieError(bookie, "its node does not say where it listens")
        connection = BookieConnection(bookie, self.options.frame_max, self.options.timeout_s)
        try:
            async with asyncio.timeout(self.options.connect_s):
                if self.options.tls is not None:
                    await connect_by_tls(known.host, known.port, connection, self.options.tls)
                else:
                    loop = asyncio.get_running_loop()
                    await loop.create_connection(lambda: connection, known.host, known.port)
        except (OSError, ValueError, ConfigError) as error:
            self.avoid(bookie)
            reason = str(error) or f"no connection within {self.options.connect_s:g} s"
            why = f"{known.host}:{known.port}: {reason}"
            self._note_refusal(bookie, why)
            raise BookieError(bookie, why) from None
        return connection
