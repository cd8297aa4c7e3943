"""Limits on HTTP clients of the admin API: connections, seconds, body sizes, unread answers.

A connection that stays open without a whole request occupies a file descriptor, and without
descriptors the broker can open no ledger; a body that never ends, or an answer that the client does
not read, occupies memory. So each has a maximum, and a time after which the connection is closed.
"""

import asyncio
from collections.abc import Iterable
from contextlib import nullcontext
from http import HTTPStatus
from typing import Final, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from counterpoise.admin.errors import Handler, RestError
from counterpoise.admin.packed import PackedAnswer
from counterpoise.broker.face import RateLimiter

FIRST_REQUEST_S: Final = 10.0
"""How many seconds a new connection may take to send its first request."""
BETWEEN_REQUESTS_S: Final = 75.0
"""After how many seconds without a further request a connection is closed."""
SWEEP_S: Final = 2.5

LARGE: Final = 64 * 1024
"""From this many bytes on a body counts towards `LARGE_BODIES`, and a response towards
`UNREAD_MAX`."""
LARGE_BODIES: Final = 16
"""How many large bodies are read at the same time; at the largest size they take 16 MiB."""
LARGE_BODIES_MAX: Final = 64
"""How many large bodies may be read or wait to be read; further ones are refused."""
READ_AT_ONCE: Final = 16 * 1024
"""How many bytes of a body aiohttp reads ahead on a connection (``read_bufsize``)."""
BODY_S: Final = 10.0
"""How many seconds a body may take to arrive."""

UNREAD_MAX: Final = 64 << 20
"""The most bytes of large responses that clients have not read yet, over all connections."""
READ_S: Final = 30.0
"""How many seconds a client may take to read a response."""
PATIENCE_S: Final = 1.0
"""How many seconds every client has to read a response, even if others need the memory."""


class HttpClientLimits:
    """The connections of one HTTP server, and limits on what each client uses of the broker."""

    def __init__(self, most: int, requests: RateLimiter | None = None) -> None:
        """Make the limits of one HTTP server.

        ``most``: the largest number of connections (``maxHttpServerConnections``); 0 is no limit.
        ``requests``: the largest number of requests a second on all connections together
        (``httpRequestsMaxPerSecond``).
        """
        self._most = most
        self._requests = requests
        self._loop = asyncio.get_running_loop()
        self._server: web.Server | None = None
        self._idle_since: dict[RequestHandler, float] = {}
        """Since when each connection is idle."""
        self._served: set[RequestHandler] = set()
        """The connections that have sent a request."""
        self._busy: set[RequestHandler] = set()
        self._reading = asyncio.Semaphore(LARGE_BODIES)
        self._bodies = 0
        self._unread: dict[RequestHandler, tuple[float, int]] = {}
        """Responses that clients are reading, the oldest first: since when, and how much memory
        they take."""

    def receive(self, server: web.Server) -> None:
        """Set the aiohttp server whose connections are limited; called once, before it listens."""
        self._server = server

    def make_protocol(self) -> asyncio.Protocol:
        """Make the protocol of a new connection; beyond the limit, one that closes at once."""
        full = self._most and len(self._open()) >= self._most
        return _RefusedConnection() if self._server is None or full else self._server()

    def _open(self) -> list[RequestHandler]:
        return [] if self._server is None else self._server.connections

    async def watch(self) -> None:
        """Close idle connections every `SWEEP_S` seconds, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            self.sweep(self._loop.time())

    def sweep(self, now: float) -> None:
        """Close the connections that are idle for too long at ``now`` (the loop's seconds)."""
        open_now = set(self._open())
        self._served &= open_now
        self._busy &= open_now
        self._idle_since = {
            each: self._idle_since.get(each, now) for each in open_now if each not in self._busy
        }
        for each, since in self._idle_since.items():
            allowed = BETWEEN_REQUESTS_S if each in self._served else FIRST_REQUEST_S
            if now - since > allowed and each.transport is not None:
                each.transport.abort()

    @web.middleware
    async def serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The outermost middleware: limits requests per second (429), and marks the connection
        as busy until its answer is read.
        """
        if self._requests is not None and not self._requests.try_acquire():
            why = "Too Many Requests: more than httpRequestsMaxPerSecond; try again later"
            return web.json_response({"reason": why}, status=HTTPStatus.TOO_MANY_REQUESTS)
        here = request.protocol
        self._busy.add(here)
        self._served.add(here)
        try:
            answer = await handler(request)
            if isinstance(answer, PackedAnswer):
                text = answer.text
                return await self._read(request, answer, text.size, text.held, text.pieces())
            body = answer.body if isinstance(answer, web.Response) else None
            if isinstance(body, bytes) and len(body) >= LARGE and request.method != "HEAD":
                size = len(body)
                pieces = (body[at : at + LARGE] for at in range(0, size, LARGE))
                return await self._read(request, answer, size, size, pieces)
            return answer
        finally:
            self._busy.discard(here)
            self._idle_since[here] = self._loop.time()

    async def _read(
        self,
        request: web.Request,
        answer: web.StreamResponse,
        size: int,
        held: int,
        pieces: Iterable[bytes],
    ) -> web.StreamResponse:
        """Write a large answer; returns when the client has read it, or the connection is given up.

        It is written in pieces, because the transport keeps a copy of what it has been given.
        ``held``: bytes of memory that the answer occupies until then.
        """
        written = web.StreamResponse(status=answer.status, headers=answer.headers)
        written.content_length = size
        reader, now = request.protocol, self._loop.time()
        self._make_room(held, now)
        self._unread[reader] = now, held
        try:
            async with asyncio.timeout(READ_S):
                await written.prepare(request)
                for piece in pieces if request.method != "HEAD" else ():
                    await written.write(piece)
                    # Other tasks get their turn: `write` does not wait if the client reads fast
                    # enough.
                    await asyncio.sleep(0)
                await written.write_eof()
        except (TimeoutError, ConnectionError):
            self._give_up(reader)
        finally:
            self._unread.pop(reader, None)
        return written

    def _make_room(self, size: int, now: float) -> None:
        unread = size + sum(each for _, each in self._unread.values())
        for reader, (since, each) in list(self._unread.items()):
            if unread <= UNREAD_MAX or now - since < PATIENCE_S:
                return
            self._give_up(reader)
            unread -= each

    @staticmethod
    def _give_up(reader: RequestHandler) -> None:
        """Disconnect a client that reads its answer too slowly; the answer counts no longer."""
        if reader.transport is not None:
            reader.transport.abort()

    async def body(self, request: web.Request) -> bytes:
        """Read a body; raises `RestError` 408 (slow), 503 (too many at once) or 400 (malformed)."""
        length = request.content_length
        small = (length is not None and length < LARGE) or not request.can_read_body
        if not small and self._bodies >= LARGE_BODIES_MAX:
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "too many large bodies at once")
        self._bodies += not small
        try:
            async with nullcontext() if small else self._reading, asyncio.timeout(BODY_S):
                return await request.read()
        except TimeoutError:
            why = f"the body did not come within {BODY_S:g} s"
            raise RestError(HTTPStatus.REQUEST_TIMEOUT, why) from None
        except ConnectionError:
            raise RestError(HTTPStatus.BAD_REQUEST, "the client left before its body") from None
        finally:
            self._bodies -= not small


class _RefusedConnection(asyncio.Protocol):
    """A connection beyond ``maxHttpServerConnections``: closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close the connection at once."""
        cast("asyncio.Transport", transport).abort()


CLIENT_LIMITS: Final = web.AppKey("client limits", HttpClientLimits)
