"""A broker's admin API that is loaded when somebody first connects to it."""

from __future__ import annotations

import asyncio
import importlib
import socket

from counterpoise.app.wiring import make_web_server
from counterpoise.broker.broker import Broker, WebServer


class WebOnDemand:
    """Listens at once, and serves as soon as there is whom to serve.

    The admin API and its HTTP library are a third of what an embedded cluster would load, and many
    tests never ask it anything. Who comes first waits a moment longer, in the socket's backlog. A
    broker that is to run for months loads everything when it starts: what is loaded later would be
    whatever is installed by then.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._listening: socket.socket | None = None
        self._server: WebServer | None = None
        self._loading: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket) -> None:
        """Serve on a bound socket, which is closed by :meth:`stop`."""
        self._listening = listening
        self._loading = self._broker.background.keep("admin API", lambda: self._serve(listening))

    async def stop(self) -> None:
        """Stop listening and end the connections."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        if self._server is not None:
            await self._server.stop()
        elif self._listening is not None:
            self._listening.close()

    async def _serve(self, listening: socket.socket) -> None:
        await _somebody_at(listening)
        # In a thread: connections that are being served shall not wait for it.
        await asyncio.to_thread(importlib.import_module, "counterpoise.admin.server")
        server = make_web_server(self._broker)
        await server.start(listening)
        self._server = server


async def _somebody_at(listening: socket.socket) -> None:
    """Wait until a connection can be accepted."""
    loop = asyncio.get_running_loop()
    knocked = asyncio.Event()
    loop.add_reader(listening, knocked.set)
    try:
        await knocked.wait()
    finally:
        loop.remove_reader(listening)
