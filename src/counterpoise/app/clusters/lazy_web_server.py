"""A broker's admin API that is loaded at the first connection to it."""

import asyncio
import importlib
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from counterpoise.app.wiring import make_web_server
from counterpoise.broker.broker import AdminServer, Broker
from counterpoise.broker.server_sockets import ServerSocket

if TYPE_CHECKING:
    from counterpoise.admin.rest.faults import FaultControl


class LazyWebServer:
    """Serves the admin API, whose modules are imported only at the first connection.

    The admin API and its HTTP library are a third of what an embedded cluster imports, and many
    tests never use them. Until they are imported, the first client waits in the socket's backlog.

    A broker that is a process of its own imports everything at its start instead: if the package
    were upgraded while it runs, modules of two versions would mix.
    """

    def __init__(self, broker: Broker, faults: "FaultControl | None" = None) -> None:
        """``faults``: sets faults for HTTP clients; None: the API has no endpoints for faults."""
        self._broker = broker
        self._faults = faults
        self._sockets: Sequence[ServerSocket] = ()
        self._server: AdminServer | None = None
        self._loading: asyncio.Task[None] | None = None

    async def start(self, sockets: Sequence[ServerSocket]) -> None:
        """Serve on bound sockets, which are closed by :meth:`stop`."""
        self._sockets = sockets
        self._loading = self._broker.background.keep("admin API", lambda: self._serve(sockets))

    async def stop(self) -> None:
        """Stop listening and end the connections."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        if self._server is not None:
            await self._server.stop()
        else:
            for each in self._sockets:
                each.socket.close()

    async def _serve(self, sockets: Sequence[ServerSocket]) -> None:
        await _until_connection([each.socket for each in sockets])
        # In a thread, so that clients of the brokers do not wait for the import.
        await asyncio.to_thread(importlib.import_module, "counterpoise.admin.server")
        server = make_web_server(self._broker, self._faults)
        await server.start(sockets)
        self._server = server


async def _until_connection(listening: Sequence[socket.socket]) -> None:
    """Wait until a connection can be accepted."""
    loop = asyncio.get_running_loop()
    connected = asyncio.Event()
    for each in listening:
        loop.add_reader(each, connected.set)
    try:
        await connected.wait()
    finally:
        for each in listening:
            loop.remove_reader(each)
