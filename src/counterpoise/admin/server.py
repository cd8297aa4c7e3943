"""The HTTP server of one broker."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from counterpoise.admin.app import create_app
from counterpoise.admin.client_limits import BETWEEN_REQUESTS_S, READ_AT_ONCE, HttpClientLimits
from counterpoise.admin.rest.faults import FaultControl
from counterpoise.broker.face import Broker, RateLimiter, ServerSocket
from counterpoise.names.options import Option
from counterpoise.security.tls import HANDSHAKE_S

log = logging.getLogger("counterpoise.admin.http")


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a log record is about this program, not about malformed HTTP of a client."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


log.addFilter(_is_ours)

SHUTDOWN_WITHIN_S = 1.0
"""For how many seconds a stopping broker waits for responses in progress."""


class WebServer:
    """Serves the REST API of a broker on the socket that the broker bound."""

    def __init__(
        self,
        broker: Broker,
        settings: Callable[[], Iterable[Option]],
        check: Callable[[str, str], None],
        faults: FaultControl | None = None,
    ) -> None:
        """Make the server; ``settings``, ``check`` and ``faults`` are those of `create_app`."""
        self._faults = faults
        self._broker = broker
        self._settings = settings
        self._check = check
        self._runner: web.AppRunner | None = None
        self._servers: list[asyncio.Server] = []

    async def start(self, listeners: Sequence[ServerSocket]) -> None:
        """Serve on bound sockets, which are closed by :meth:`stop`."""
        config = self._broker.config
        requests = None
        if config.http_requests_limited:
            per_s = config.http_requests_per_s
            requests = RateLimiter(round(1000 * per_s), 1000.0, burst=round(per_s))
        limits = HttpClientLimits(config.http_connections_max, requests)
        runner = web.AppRunner(
            create_app(self._broker, self._settings, self._check, limits, self._faults),
            access_log=None,
            logger=log,
            shutdown_timeout=SHUTDOWN_WITHIN_S,
            keepalive_timeout=BETWEEN_REQUESTS_S,
            read_bufsize=READ_AT_ONCE,
        )
        await runner.setup()
        self._runner = runner
        if runner.server is not None:
            limits.receive(runner.server)
        loop = asyncio.get_running_loop()
        for listener in listeners:
            within_s = HANDSHAKE_S if listener.tls is not None else None
            self._servers.append(
                await loop.create_server(
                    limits.make_protocol,
                    sock=listener.socket,
                    ssl=listener.tls,
                    ssl_handshake_timeout=within_s,
                )
            )
        self._broker.background.keep("the admin API's connections", limits.watch)

    async def stop(self) -> None:
        """Stop listening and end the connections."""
        while self._servers:
            self._servers.pop().close()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
