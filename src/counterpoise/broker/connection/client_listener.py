"""Accepts clients' connections on the sockets of the binary protocol."""

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from dataclasses import replace
from functools import partial

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.traffic import Traffic
from counterpoise.broker.connection import Connection, ConnectionConfig, Services
from counterpoise.broker.connection.fault_gate import Interceptor
from counterpoise.broker.connection.pause import PauseReason
from counterpoise.broker.connection.publish_buffer import PublishBuffer
from counterpoise.broker.connection.recorded import RecordedConnection, TrafficRecorder
from counterpoise.broker.connection.shared_parts import SharedByConnections
from counterpoise.broker.connection.throttled import ThrottledMemory
from counterpoise.security.tls import HANDSHAKE_S

FAREWELL_S = 1.0
"""Seconds a client has to read what was written before the broker stopped."""
_TURNS_TO_ACCEPT = 4
"""Turns of the loop from the acceptance of a socket to `Connection.connection_made`."""


class ClientListener:
    """Accepts clients on one or more sockets and serves them, from `start` to `stop`."""

    def __init__(
        self,
        services: Services,
        config: ConnectionConfig,
        background: BackgroundTasks | None = None,
    ) -> None:
        """``background`` runs the requests; its creator stops it."""
        self._services = services
        self._config = config
        self._shared = SharedByConnections(config, background or BackgroundTasks(), services)
        self._servers: list[asyncio.Server] = []
        self._recorder: TrafficRecorder | None = None

    @property
    def connections(self) -> int:
        """The number of connected clients."""
        return len(self._shared.connections.open)

    @property
    def connections_admitted(self) -> int:
        """The number of clients accepted since the start."""
        return self._shared.connections.admitted

    def pauses(self) -> Counter[PauseReason]:
        """How often reading from a client was paused since the start, by reason."""
        return self._shared.connections.pauses()

    def paused(self) -> dict[PauseReason, list[str]]:
        """The addresses of clients that are not read from now, by reason."""
        return self._shared.connections.paused()

    @property
    def open_connections(self) -> list[Connection]:
        """The connections of all connected clients."""
        return list(self._shared.connections.open)

    @property
    def publish_buffer(self) -> PublishBuffer:
        """The count of published bytes that wait for storage, over all connections."""
        return self._shared.publish_buffer

    @property
    def throttled_memory(self) -> ThrottledMemory:
        """The count of published bytes that wait for a rate limit, over all connections."""
        return self._shared.throttled_memory

    def intercept(self, interceptor: Interceptor) -> None:
        """From now on call an interceptor, which may inject faults, for every client operation."""
        self._shared.interceptor = interceptor
        for connection in self.open_connections:
            connection.intercept(interceptor)

    def record(self, recorder: TrafficRecorder) -> None:
        """From now on pass the traffic of every new connection to a recorder."""
        self._recorder = recorder

    def freeze(self, *, frozen: bool) -> None:
        """Stop (or resume) reading and writing on every connection, new ones included."""
        self._shared.is_frozen = frozen
        for connection in self.open_connections:
            (connection.freeze if frozen else connection.thaw)()

    def drop_connections(self, *, for_good: bool = False) -> None:
        """Disconnect every client now; with ``for_good`` new ones too, until `admit_again`."""
        self._shared.connections.closed |= for_good
        for connection in self.open_connections:
            connection.abort()

    def admit_again(self) -> None:
        """Accept clients again after `drop_connections` with ``for_good``."""
        self._shared.connections.closed = False

    def set_limits(self, config: ConnectionConfig) -> None:
        """Apply the limits that may change: on lookups, and on the memory of published messages."""
        self._shared.set_limits(config)

    def traffic(self) -> Traffic:
        """Bytes read and written since the start."""
        return replace(self._shared.traffic)

    @property
    def bytes_in(self) -> int:
        """Bytes read from clients since the start."""
        return self._shared.traffic.bytes_in

    @property
    def bytes_out(self) -> int:
        """Bytes written to clients since the start."""
        return self._shared.traffic.bytes_out

    async def start(
        self, sock: socket.socket, tls: ssl.SSLContext | None = None, listener: str = ""
    ) -> int:
        """Serve clients that connect to a bound socket; returns its port. Can be called again.

        ``listener`` is the name of the advertised listener of this socket.
        """
        loop = asyncio.get_running_loop()
        within_s = HANDSHAKE_S if tls is not None else None
        accept = partial(self._connection, listener)
        self._servers.append(
            await loop.create_server(accept, sock=sock, ssl=tls, ssl_handshake_timeout=within_s)
        )
        port: int = sock.getsockname()[1]
        return port

    def _connection(self, listener: str) -> Connection:
        if self._recorder is None:
            return Connection(self._services, self._config, self._shared, listener)
        return RecordedConnection(
            self._services, self._config, self._shared, listener, recorder=self._recorder
        )

    async def stop(self) -> None:
        """Stop listening, let each client read what was written to it, then disconnect it.

        Returns when all are disconnected; a client that does not read is disconnected after
        `FAREWELL_S`.
        """
        self._accept_no_more()
        for _ in range(_TURNS_TO_ACCEPT):
            await asyncio.sleep(0)
        self._stop_listening_in(0)
        for connection in self.open_connections:
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                while self.connections:  # noqa: ASYNC110 - a moment, and no event to wait for
                    await asyncio.sleep(0.001)
        self.kill()
        # A transport closes its socket in the turn of the loop after `abort`.
        await asyncio.sleep(0)

    def kill(self) -> None:
        """Stop listening and disconnect every client at once, as a killed process would."""
        self._accept_no_more()
        for connection in self.open_connections:
            connection.abort()
        self._stop_listening_in(_TURNS_TO_ACCEPT)

    def _accept_no_more(self) -> None:
        """Accept no more clients, and disconnect those that are just being accepted."""
        self._shared.connections.closed = True
        loop = asyncio.get_running_loop()
        for server in self._servers:
            for sock in server.sockets:
                loop.remove_reader(sock.fileno())

    def _stop_listening_in(self, turns: int) -> None:
        """Close the servers after some turns, when each accepted socket has its connection.

        The standard event loop leaks such a socket, still open, if its server is closed first.
        """
        if turns and self._servers:
            asyncio.get_running_loop().call_soon(self._stop_listening_in, turns - 1)
            return
        while self._servers:
            self._servers.pop().close()
