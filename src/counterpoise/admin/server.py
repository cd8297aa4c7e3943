"""The HTTP listener of one broker."""

from __future__ import annotations

from aiohttp import web

from counterpoise.admin.app import create_app
from counterpoise.broker.broker import Broker

SHUTDOWN_WITHIN_S = 1.0
"""How long answers in progress may take when the broker stops."""


class WebServer:
    """Serves the REST API of a broker; the port is bound by :meth:`start`, before registration."""

    def __init__(self, broker: Broker, *, host: str, port: int) -> None:
        self._broker = broker
        self._host = host
        self._wanted_port = port
        self._runner: web.AppRunner | None = None
        self.port = port

    async def start(self) -> int:
        """Bind and serve; gives the port, which is a free one if 0 was asked for.

        Raises OSError when the port is taken.
        """
        runner = web.AppRunner(
            create_app(self._broker), access_log=None, shutdown_timeout=SHUTDOWN_WITHIN_S
        )
        await runner.setup()
        site = web.TCPSite(runner, self._host, self._wanted_port)
        try:
            await site.start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self.port = runner.addresses[0][1]
        return self.port

    async def stop(self) -> None:
        """Stop listening and end the connections."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
