"""A broker's admin API that is loaded when somebody first connects to it."""

from __future__ import annotations

import asyncio
import importlib
import socket
from collections.abc import Sequence

from counterpoise.app.wiring import make_web_server
from counterpoise.broker.broker import AdminServer, Broker
from counterpoise.broker.server_sockets import ServerSocket


class WebOnDemand:
    """Listens at once, and serves as soon as there is whom to serve.

    The admin API and its HTTP library are a third of what an embedded cluster would load, and many
    tests never ask it anything. Who comes first waits a moment longer, in the socket's backlog. A
    broker that is to run for months loads everything when it starts: what is loaded later would be
    whatever is installed by then.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._doors: Sequence[ServerSocket] = ()
        self._server: AdminServer | None = None
        self._loading: asyncio.Task[None] | None = None

    async def start(self, doors: Sequence[ServerSocket]) -> None:
        """Serve on bound sockets, which are closed by :meth:`stop`."""
        self._doors = doors
        self._loading = self._broker.background.keep("admin API", lambda: self._serve(doors))

    async def stop(self) -> None:
        """Stop listening and end the connections."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        if self._server is not None:
            await self._server.stop()
        else:
            for door in self._doors:
                door.socket.close()

    async def _serve(self, doors: Sequence[ServerSocket]) -> None:
        await _somebody_at([door.socket for door in doors])
        # In a thread: connections that are being served shall not wait for it.
        await asyncio.to_thread(importlib.import_module, "counterpoise.admin.server")
        server = make_web_server(self._broker)
        await server.start(doors)
        self._server = server


async def _somebody_at(listening: Sequence[socket.socket]) -> None:
    """Wait until a connection can be accepted."""
    loop = asyncio.get_running_loop()
    knocked = asyncio.Event()
    for each in listening:
        loop.add_reader(each, knocked.set)
    try:
        await knocked.wait()
    finally:
        for each in listening:
            loop.remove_reader(each)
