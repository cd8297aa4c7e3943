"""One client's connection: parses socket bytes into events, and passes each to its handler."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, cast

from counterpoise.broker.base.clock import wall_clock_ms
from counterpoise.broker.connection.client_link import ClientLink, log
from counterpoise.broker.connection.consumers import ClientConsumers
from counterpoise.broker.connection.fault_gate import FaultGate, Interceptor
from counterpoise.broker.connection.handshake import NO_REQUEST, REFRESH, Admission, Handshake
from counterpoise.broker.connection.keep_alive import KeepAlive
from counterpoise.broker.connection.outbox import Outbox
from counterpoise.broker.connection.pause import PauseReason, ReadingPause
from counterpoise.broker.connection.permissions import ClientPermissions
from counterpoise.broker.connection.ports import ConnectionConfig, Handler, Services
from counterpoise.broker.connection.producers import ClientProducers
from counterpoise.broker.connection.reading_rounds import REQUEST_S, TURN_S
from counterpoise.broker.connection.shared_parts import SharedByConnections
from counterpoise.broker.connection.topic_queries import TopicQueries
from counterpoise.broker.connection.topic_watches import TopicListWatches
from counterpoise.broker.connection.transactions import ClientTransactions
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.wire import encode, events
from counterpoise.wire.constants import PROTOCOL_VERSION
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.protocol import ServerProtocol
from counterpoise.wire.states import ConnectionState

SERVER_VERSION = "Pulsar Server4.0.7"
"""The server version in CONNECTED, in the form in which a 4.0.7 broker sends it."""

STEP: Final = 64
"""How many events are served between two looks at the clock."""
_SENDS_ONLY: Final = {events.Send}
_TURNS: Final = PauseReason.TURNS
_BEFORE: Final = (ConnectionState.AWAITING_CONNECT, ConnectionState.CONNECTING)


class Connection(asyncio.Protocol):
    """One client's connection, in Pulsar's binary protocol.

    A frame that violates the protocol closes this connection, with an error in the log, and affects
    no other.
    """

    def __init__(
        self,
        services: Services,
        config: ConnectionConfig,
        shared: SharedByConnections,
        listener: str = "",
    ) -> None:
        """``listener``: the ``advertisedListeners`` entry for which its socket is bound, if any."""
        self._listener = listener
        self._services = services
        self._config = config
        self._shared = shared
        self._traffic = shared.traffic
        self._rounds = shared.rounds
        self._protocol = ServerProtocol(
            config.max_message_size, authenticates=services.security.authentication.enabled
        )
        self._turn_is_due = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Build the connection's parts, and admit the client that has connected."""
        loop = asyncio.get_running_loop()
        self._transport = transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._loop = loop
        self.pause = ReadingPause(transport, loop.time, self._on_release)
        self.outbox = Outbox(
            loop,
            transport,
            self._traffic,
            self.pause,
            on_writable=self._resume_consumers,
            give_up=self._end,
        )
        self.link = ClientLink(
            self._shared.background,
            self._protocol,
            self.outbox,
            self.pause,
            f"/{peer[0]}:{peer[1]}" if peer else "unknown",
            ClientPermissions(self._services.security.authorization, self._services.system_topics),
            self._listener,
        )
        self.handshake = self._make_handshake()
        self._share = self._shared.publish_buffer.share(self.pause)
        self.producing = ClientProducers(
            self.link, self._services, self._config, self._share, self._shared.throttled_memory
        )
        self.consuming = ClientConsumers(self.link, self._services)
        self.finding = TopicQueries(self.link, self._services, self._config, self._shared)
        self.transactions = ClientTransactions(self.link, self._services)
        self.watching = TopicListWatches(
            self.link, self._services, self._config, self._shared.listings
        )
        self._handlers = _HANDLERS
        self._send_run = self.producing.sends
        self._interceptor: Interceptor | None = None
        if self._shared.interceptor is not None:
            self.intercept(self._shared.interceptor)
        if self._shared.is_frozen:
            self.freeze()
        self._keep_alive = KeepAlive(
            loop,
            self._config.keep_alive_interval_s,
            self._status,
            ping=self.link.round_trips.ping,
            answer=lambda: self.outbox.write(encode.PONG),
            end=self._end,
        )
        self._ip = str(peer[0]) if peer else "unknown"
        self._admit()

    def _admit(self) -> None:
        if self._shared.connections.closed:
            self.abort()
            return
        why_not = self._shared.connections.why_not(self._ip)
        if why_not is None:
            self._shared.connections.add(self, self._ip)
            return
        log.warning("%s is not let in: %s", self.link.address, why_not)
        self.outbox.write(encode.error(NO_REQUEST, ServerError.NotAllowedError, why_not))
        self.close()

    def intercept(self, interceptor: Interceptor) -> None:
        """From now on let an interceptor decide about each operation before it is served."""
        self._interceptor = interceptor
        gate = FaultGate(self.link, self.producing, self.consuming, interceptor, self)
        self._handlers = {**_HANDLERS, **gate.handlers()}
        self._send_run = gate.serve_run

    def serve(self, event: events.Event) -> None:
        """Pass an event to its handler, without asking the fault gate."""
        _HANDLERS[type(event)](self, event)

    def freeze(self) -> None:
        """Stop reading and writing, as if the broker did not respond. Idempotent."""
        self.pause.hold(PauseReason.FROZEN)
        self.outbox.keep()

    def thaw(self) -> None:
        """Read and write again after `freeze`."""
        self.outbox.send_kept()
        self.pause.release(PauseReason.FROZEN)

    def count_served(self) -> None:
        """Check the memory limits after the fault gate served entries later than they were read."""
        self._share.book()
        self.producing.after_reading()

    def _make_handshake(self) -> Handshake:
        config = self._config
        return Handshake(
            self.link,
            self._services.security,
            self._transport.get_extra_info("peercert"),
            Admission(
                accept=self._accept,
                close=self.close,
                clock=lambda: wall_clock_ms() / 1000,
                challenge=self._challenge,
            ),
            refresh_check_s=config.refresh_check_s,
            authenticate_original=config.authenticate_original,
        )

    def _challenge(self, method: str) -> bytes:
        return encode.frame(
            commands.CommandAuthChallenge(
                server_version=SERVER_VERSION,
                protocol_version=self.link.protocol_version,
                challenge=raw.AuthData(auth_method_name=method, auth_data=REFRESH),
            )
        )

    @property
    def address(self) -> str:
        """The client's host and port."""
        return self.link.address

    @property
    def waiting_to_be_read(self) -> int:
        """Bytes that are still in this process because the client has not read them."""
        return self.outbox.waiting

    def data_received(self, data: bytes) -> None:
        """Serve the frames that these bytes complete, up to one turn's budget."""
        self._keep_alive.silent = False
        self._traffic.bytes_in += len(data)
        try:
            self._take_turn(data)
        except Exception:
            log.exception("Closing the connection of %s: serving it failed", self.link.address)
            self._transport.abort()

    def _take_turn(self, data: bytes) -> None:
        """Serve for a few milliseconds at most, then yield to other connections.

        Requests run once this turn is over: no more are started in it than one step reads.
        """
        ends, begun = 0.0, self.link.begun
        receive, handlers, pause = self._protocol.receive, self._handlers, self.pause
        share = self._rounds.share
        # If the round's time is used up, the bytes are only buffered.
        most = max(int(STEP * share), 1) if self._rounds.left > 0 else 0
        while True:
            step = receive(data, most)
            if len(step) > 1 and set(map(type, step)) == _SENDS_ONLY:
                self._send_run(cast("list[events.Send]", step))
            else:
                for event in step:
                    handlers[type(event)](self, event)
            self._share.book()
            requests = self.link.begun - begun
            if requests:
                self._rounds.spend(requests * REQUEST_S)
            if not self._protocol.waiting:
                self.producing.after_reading()
                pause.release(_TURNS)
                return
            # The clock is a system call: a turn of one step does not read it.
            now = time.thread_time()
            ends = ends or now + TURN_S * share
            if requests or pause.other_than(_TURNS) or now > ends or not most:
                self._rounds.spend(now - ends + TURN_S * share)
                break
            data = b""
        pause.hold(_TURNS)
        self._next_turn()

    def _next_turn(self) -> None:
        """Continue with buffered bytes, unless reading is paused."""
        if self._protocol.waiting and not self._turn_is_due and not self.pause.other_than(_TURNS):
            self._turn_is_due = True
            self._rounds.wait(self._turn_has_come)

    def _turn_has_come(self) -> None:
        self._turn_is_due = False
        if not self.link.closed and not self.pause.other_than(_TURNS):
            self.data_received(b"")

    def connect(self, event: events.Connect) -> None:
        """CONNECT: begin the handshake, or accept the client at once."""
        if self._services.security.authentication.enabled:
            self.handshake.connect(event)
        else:
            self._accept(event)

    def _accept(self, event: events.Connect) -> None:
        version = min(PROTOCOL_VERSION, event.protocol_version)
        self.link.client_version = event.client_version
        self.link.protocol_version = version
        self.outbox.write(
            encode.frame(
                commands.CommandConnected(
                    server_version=SERVER_VERSION,
                    protocol_version=version,
                    max_message_size=self._config.max_message_size,
                    # Those of a 4.0.7 broker.
                    feature_flags=raw.FeatureFlags(
                        supports_topic_watchers=self._config.pattern_evaluation,
                        supports_get_partitioned_metadata_without_auto_creation=True,
                        supports_repl_dedup_by_lid_and_eid=True,
                    ),
                )
            )
        )

    def refuse(self, event: events.RequestRefused) -> None:
        """Respond to a request that cannot be read."""
        self.outbox.write(encode.error(event.request_id, event.code, event.message))

    def violation(self, event: events.Violation) -> None:
        """Close the connection of a client that violates the protocol."""
        log.error("Closing the connection of %s: %s", self.link.address, event.error)
        self._transport.abort()

    def _status(self) -> tuple[bool, bool]:
        return self._protocol.state not in _BEFORE, not self.pause

    def _end(self, why: str) -> None:
        log.warning("Closing the connection of %s: %s", self.link.address, why)
        self._transport.abort()

    def _on_release(self) -> None:
        # After a pause the client's PONGs are not read yet: it gets a whole interval.
        self._keep_alive.silent = False
        self._next_turn()

    def _resume_consumers(self) -> None:
        self.consuming.resume_all()

    def pause_writing(self) -> None:
        """Stop writing, since the socket's buffer is full."""
        self.outbox.pause()

    def resume_writing(self) -> None:
        """Write again, since the socket's buffer has drained."""
        self.outbox.resume()

    def close(self) -> None:
        """Write what is buffered, then close. Used when the broker stops."""
        self.outbox.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once without writing. Used when the broker is killed."""
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Detach the producers and consumers of the client that has disconnected."""
        self._shared.connections.remove(self, self._ip)
        self._keep_alive.stop()
        self.handshake.stop()
        self.link.close()
        self.outbox.close()
        self.producing.detach_all()
        self.consuming.detach_all()
        self.watching.stop_all()
        if self._interceptor is not None:
            self._interceptor.lost(self.link.address)


_Serve = Callable[[Any, Any], Coroutine[None, None, bytes | None]]
"""Serves an event and returns the response; a method of one of a connection's parts."""


def _of_topics(serve: _Serve) -> Handler:
    return lambda connection, event: connection.link.respond(
        serve(connection.finding, event), event
    )


def _of_watches(serve: _Serve) -> Handler:
    return lambda connection, event: connection.link.respond(
        serve(connection.watching, event), event
    )


def _of_consumer(
    serve: Callable[[ClientConsumers, Consumer, Any], Coroutine[None, None, bytes]],
) -> Handler:
    return lambda connection, event: connection.consuming.respond(serve, event)


def _of_transactions(serve: _Serve) -> Handler:
    return lambda connection, event: connection.transactions.respond(serve, event)


_HANDLERS: Final[Mapping[type[Any], Handler]] = {
    events.Connect: lambda connection, event: connection.connect(event),
    events.AuthResponse: lambda connection, event: connection.handshake.respond(event),
    commands.CommandPing: lambda connection, _event: connection.outbox.write(encode.PONG),
    commands.CommandPong: lambda connection, _event: connection.link.round_trips.pong(),
    commands.CommandPartitionedTopicMetadata: _of_topics(TopicQueries.partitions),
    commands.CommandLookupTopic: lambda connection, event: connection.finding.lookup(event),
    commands.CommandGetTopicsOfNamespace: _of_topics(TopicQueries.topics),
    commands.CommandWatchTopicList: _of_watches(TopicListWatches.open),
    commands.CommandWatchTopicListClose: lambda connection, event: connection.watching.close(event),
    commands.CommandGetSchema: _of_topics(TopicQueries.get_schema),
    commands.CommandGetOrCreateSchema: _of_topics(TopicQueries.put_schema),
    commands.CommandProducer: lambda connection, event: connection.producing.open(event),
    events.Send: lambda connection, event: connection.producing.send(event),
    events.TransactionSend: lambda connection, event: connection.producing.send_in_transaction(
        event
    ),
    events.SendRefused: lambda connection, event: connection.producing.refused(event),
    commands.CommandCloseProducer: lambda connection, event: connection.producing.close(event),
    commands.CommandSubscribe: lambda connection, event: connection.consuming.subscribe(event),
    events.Flow: lambda connection, event: connection.consuming.flow(event),
    events.Ack: lambda connection, event: connection.consuming.ack(event),
    events.Redeliver: lambda connection, event: connection.consuming.redeliver(event),
    commands.CommandSeek: _of_consumer(ClientConsumers.seek),
    commands.CommandGetLastMessageId: _of_consumer(ClientConsumers.last_message_id),
    commands.CommandConsumerStats: lambda connection, event: connection.consuming.stats(event),
    commands.CommandUnsubscribe: _of_consumer(ClientConsumers.unsubscribe),
    commands.CommandCloseConsumer: lambda connection, event: connection.consuming.close(event),
    commands.CommandTcClientConnectRequest: _of_transactions(ClientTransactions.connect),
    commands.CommandNewTxn: _of_transactions(ClientTransactions.new),
    commands.CommandAddPartitionToTxn: _of_transactions(ClientTransactions.add_topics),
    commands.CommandAddSubscriptionToTxn: _of_transactions(ClientTransactions.add_subscriptions),
    commands.CommandEndTxn: _of_transactions(ClientTransactions.end),
    events.EndOnParticipant: _of_transactions(ClientTransactions.end_here),
    events.RequestRefused: lambda connection, event: connection.refuse(event),
    events.Violation: lambda connection, event: connection.violation(event),
}
"""How each event is served: one table for all connections, of which there may be 10,000."""
