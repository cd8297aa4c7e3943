"""One client's connection: socket bytes to events, events to the part that serves them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from counterpoise.broker.background import BackgroundTasks
from counterpoise.broker.connection.consuming import Consuming
from counterpoise.broker.connection.finding import Finding
from counterpoise.broker.connection.keep_alive import KeepAlive
from counterpoise.broker.connection.link import Link, log
from counterpoise.broker.connection.outbox import Outbox
from counterpoise.broker.connection.pause import ReadingPause
from counterpoise.broker.connection.ports import ConnectionConfig, Services, Traffic
from counterpoise.broker.connection.producing import Producing
from counterpoise.broker.connection.watching import Watching
from counterpoise.wire import encode, events
from counterpoise.wire.constants import PROTOCOL_VERSION
from counterpoise.wire.protocol import ServerProtocol
from counterpoise.wire.states import ConnectionState

#: What CONNECTED says, in the form a 4.0.7 broker says it.
SERVER_VERSION = "Pulsar Server4.0.7"


class Connection(asyncio.Protocol):
    """Speaks the binary protocol with one client.

    A frame that breaks the protocol closes this connection, with an error in the log, and touches
    no other.
    """

    def __init__(
        self,
        services: Services,
        config: ConnectionConfig,
        connections: set[Connection],
        traffic: Traffic,
        background: BackgroundTasks,
    ) -> None:
        self._services = services
        self._config = config
        self._connections = connections
        self._traffic = traffic
        self._background = background
        self._protocol = ServerProtocol(config.max_message_size)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is there."""
        loop = asyncio.get_running_loop()
        self._transport = transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._outbox = Outbox(loop, transport, self._traffic, self._resume_consumers)
        self.pause = ReadingPause(transport, loop.time, self._heard)
        self._link = Link(
            self._background,
            self._protocol,
            self._outbox,
            self.pause,
            f"/{peer[0]}:{peer[1]}" if peer else "unknown",
        )
        self._producing = Producing(
            self._link, self._services, self._config.max_pending_publish_requests
        )
        self._consuming = Consuming(self._link, self._services)
        self._finding = Finding(self._link, self._services, self._config)
        self._watching = Watching(self._link, self._services, self._config)
        self._handlers = self._handler_table()
        self._keep_alive = KeepAlive(
            loop, self._config.keep_alive_interval_s, self._status, self._ping, self._end
        )
        self._connections.add(self)

    def _handler_table(self) -> dict[type[Any], Callable[[Any], None]]:
        producing, consuming, finding = self._producing, self._consuming, self._finding
        return {
            events.Connect: self._connect,
            events.Ping: lambda _event: self._outbox.write(encode.PONG),
            events.Pong: lambda _event: None,
            events.PartitionedMetadata: finding.partitions,
            events.Lookup: finding.lookup,
            events.GetTopics: finding.topics,
            events.WatchTopics: self._watching.open,
            events.CloseWatch: self._watching.close,
            events.GetSchema: finding.get_schema,
            events.GetOrCreateSchema: finding.put_schema,
            events.OpenProducer: producing.open,
            events.Send: producing.send,
            events.SendRefused: producing.refused,
            events.CloseProducer: producing.close,
            events.Subscribe: consuming.subscribe,
            events.Flow: consuming.flow,
            events.Ack: consuming.ack,
            events.Redeliver: consuming.redeliver,
            events.Seek: consuming.seek,
            events.GetLastMessageId: consuming.last_message_id,
            events.ConsumerStats: consuming.stats,
            events.Unsubscribe: consuming.unsubscribe,
            events.CloseConsumer: consuming.close,
            events.Refused: self._refuse,
            events.Violation: self._violation,
        }

    def data_received(self, data: bytes) -> None:
        """Serve what the next bytes complete."""
        self._heard()
        self._traffic.bytes_in += len(data)
        handlers = self._handlers
        for event in self._protocol.receive(data):
            handlers[type(event)](event)
        self._producing.after_reading()

    def _connect(self, event: events.Connect) -> None:
        version = min(PROTOCOL_VERSION, event.protocol_version)
        self._link.client_version = event.client_version
        self._link.protocol_version = version
        self._outbox.write(
            encode.connected(
                SERVER_VERSION,
                version,
                self._config.max_message_size,
                topic_watchers=self._config.pattern_evaluation,
            )
        )

    def _refuse(self, event: events.Refused) -> None:
        self._outbox.write(encode.error(event.request_id, event.code, event.message))

    def _violation(self, event: events.Violation) -> None:
        log.error("Closing the connection of %s: %s", self._link.address, event.error)
        self._transport.abort()

    def _status(self) -> tuple[bool, bool]:
        return self._protocol.state is not ConnectionState.AWAITING_CONNECT, not self.pause

    def _ping(self) -> None:
        self._outbox.write(encode.PING)

    def _end(self, why: str) -> None:
        log.warning("Closing the connection of %s: %s", self._link.address, why)
        self._transport.abort()

    def _heard(self) -> None:
        # After a pause the client's signs of life have yet to be read: it gets a whole interval.
        self._keep_alive.silent = False

    def _resume_consumers(self) -> None:
        self._consuming.resume_all()

    def pause_writing(self) -> None:
        """The socket's buffer is full."""
        self._outbox.pause()

    def resume_writing(self) -> None:
        """The socket's buffer has drained."""
        self._outbox.resume()

    def close(self) -> None:
        """Write what waits, then close (the broker stops)."""
        self._outbox.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once, with nothing more written (the broker dies)."""
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone; so are its producers and consumers."""
        self._connections.discard(self)
        self._keep_alive.stop()
        self._link.close()
        self._producing.detach_all()
        self._consuming.detach_all()
        self._watching.stop_all()
