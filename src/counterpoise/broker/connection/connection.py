"""One client's connection: parses socket bytes into events, and passes each to its handler."""

import asyncio
import time
from typing import Final, cast

from counterpoise.broker.base.clock import wall_clock_ms
from counterpoise.broker.connection.client_link import ClientLink, log
from counterpoise.broker.connection.consumers import ClientConsumers
from counterpoise.broker.connection.fault_gate import FaultGate, Interceptor
from counterpoise.broker.connection.handshake import NO_REQUEST, REFRESH, Admission, Handshake
from counterpoise.broker.connection.keep_alive import KeepAlive
from counterpoise.broker.connection.outbox import Outbox
from counterpoise.broker.connection.pause import PauseReason, ReadingPause
from counterpoise.broker.connection.permissions import ClientPermissions
from counterpoise.broker.connection.ports import ConnectionConfig, Handlers, Services
from counterpoise.broker.connection.producers import ClientProducers
from counterpoise.broker.connection.reading_rounds import REQUEST_S, TURN_S
from counterpoise.broker.connection.shared_parts import SharedByConnections
from counterpoise.broker.connection.topic_queries import TopicQueries
from counterpoise.broker.connection.topic_watches import TopicListWatches
from counterpoise.broker.connection.transactions import ClientTransactions
from counterpoise.wire import encode, events
from counterpoise.wire.constants import PROTOCOL_VERSION
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.protocol import ServerProtocol
from counterpoise.wire.states import ConnectionState

#: The server version in CONNECTED, in the form in which a 4.0.7 broker sends it.
SERVER_VERSION = "Pulsar Server4.0.7"

STEP: Final = 64
"""How many events are served before the clock is read."""
_SENDS_ONLY: Final = {events.Send}
_TURNS: Final = PauseReason.TURNS
_BEFORE: Final = (ConnectionState.AWAITING_CONNECT, ConnectionState.CONNECTING)


class Connection(asyncio.Protocol):
    """Speaks the binary protocol with one client.

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
        self._outbox = Outbox(
            loop,
            transport,
            self._traffic,
            self.pause,
            on_writable=self._resume_consumers,
            give_up=self._end,
        )
        self._link = ClientLink(
            self._shared.background,
            self._protocol,
            self._outbox,
            self.pause,
            f"/{peer[0]}:{peer[1]}" if peer else "unknown",
            ClientPermissions(self._services.security.authorization, self._services.system_topics),
            self._listener,
        )
        self._handshake = self._make_handshake()
        self._share = self._shared.publish_buffer.share(self.pause)
        self._producing = ClientProducers(
            self._link, self._services, self._config, self._share, self._shared.held_memory
        )
        self._consuming = ClientConsumers(self._link, self._services)
        self._finding = TopicQueries(self._link, self._services, self._config, self._shared)
        self._transactions = ClientTransactions(self._link, self._services)
        self._watching = TopicListWatches(
            self._link, self._services, self._config, self._shared.listings
        )
        self._served = self._handlers = self._handler_table()
        self._send_run = self._producing.sends
        self._interceptor: Interceptor | None = None
        if self._shared.interceptor is not None:
            self.intercept(self._shared.interceptor)
        if self._shared.is_frozen:
            self.freeze()
        self._keep_alive = KeepAlive(
            loop,
            self._config.keep_alive_interval_s,
            self._status,
            ping=self._link.round_trips.ping,
            answer=lambda: self._outbox.write(encode.PONG),
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
        log.warning("%s is not let in: %s", self._link.address, why_not)
        self._outbox.write(encode.error(NO_REQUEST, ServerError.NotAllowedError, why_not))
        self.close()

    def intercept(self, interceptor: Interceptor) -> None:
        """From now on let an interceptor decide about each operation before it is served."""
        self._interceptor = interceptor
        gate = FaultGate(
            self._link, self._producing, self._consuming, self._served, interceptor, self
        )
        self._handlers, self._send_run = gate.handlers(), gate.serve_run

    def freeze(self) -> None:
        """Stop reading and writing, as if the broker did not respond. Idempotent."""
        self.pause.hold(PauseReason.FROZEN)
        self._outbox.keep()

    def thaw(self) -> None:
        """Read and write again after `freeze`."""
        self._outbox.send_kept()
        self.pause.release(PauseReason.FROZEN)

    def settle(self) -> None:
        """Count entries that were served outside a reading turn towards the memory limits."""
        self._share.book()
        self._producing.after_reading()

    def _make_handshake(self) -> Handshake:
        config = self._config
        return Handshake(
            self._link,
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
                protocol_version=self._link.protocol_version,
                challenge=raw.AuthData(auth_method_name=method, auth_data=REFRESH),
            )
        )

    @property
    def address(self) -> str:
        """The client's host and port."""
        return self._link.address

    @property
    def waiting_to_be_read(self) -> int:
        """Bytes that are still in this process because the client has not read them."""
        return self._outbox.waiting

    def _handler_table(self) -> Handlers:
        producing, consuming, finding = self._producing, self._consuming, self._finding
        transactions, answering = self._transactions, self._link.answering
        in_transactions, of_consumer = transactions.answering, consuming.answering
        return {
            events.Connect: self._connect,
            events.AuthResponse: self._handshake.respond,
            commands.CommandPing: lambda _event: self._outbox.write(encode.PONG),
            commands.CommandPong: lambda _event: self._link.round_trips.pong(),
            commands.CommandPartitionedTopicMetadata: answering(finding.partitions),
            commands.CommandLookupTopic: finding.lookup,
            commands.CommandGetTopicsOfNamespace: answering(finding.topics),
            commands.CommandWatchTopicList: answering(self._watching.open),
            commands.CommandWatchTopicListClose: self._watching.close,
            commands.CommandGetSchema: answering(finding.get_schema),
            commands.CommandGetOrCreateSchema: answering(finding.put_schema),
            commands.CommandProducer: producing.open,
            events.Send: producing.send,
            events.TransactionSend: producing.send_in_transaction,
            events.SendRefused: producing.refused,
            commands.CommandCloseProducer: producing.close,
            commands.CommandSubscribe: consuming.subscribe,
            events.Flow: consuming.flow,
            events.Ack: consuming.ack,
            events.Redeliver: consuming.redeliver,
            commands.CommandSeek: of_consumer(consuming.seek),
            commands.CommandGetLastMessageId: of_consumer(consuming.last_message_id),
            commands.CommandConsumerStats: consuming.stats,
            commands.CommandUnsubscribe: of_consumer(consuming.unsubscribe),
            commands.CommandCloseConsumer: consuming.close,
            commands.CommandTcClientConnectRequest: in_transactions(transactions.connect),
            commands.CommandNewTxn: in_transactions(transactions.new),
            commands.CommandAddPartitionToTxn: in_transactions(transactions.add_topics),
            commands.CommandAddSubscriptionToTxn: in_transactions(transactions.add_subscriptions),
            commands.CommandEndTxn: in_transactions(transactions.end),
            events.EndOnParticipant: in_transactions(transactions.end_here),
            events.RequestRefused: self._refuse,
            events.Violation: self._violation,
        }

    def data_received(self, data: bytes) -> None:
        """Serve the frames that these bytes complete, up to one turn's budget."""
        self._keep_alive.silent = False
        self._traffic.bytes_in += len(data)
        try:
            self._take_turn(data)
        except Exception:
            log.exception("Closing the connection of %s: serving it failed", self._link.address)
            self._transport.abort()

    def _take_turn(self, data: bytes) -> None:
        """Serve for a few milliseconds at most, then yield to other connections.

        Requests run once this turn is over: no more are started in it than one step reads.
        """
        ends, begun = 0.0, self._link.begun
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
                    handlers[type(event)](event)
            self._share.book()
            requests = self._link.begun - begun
            if requests:
                self._rounds.spend(requests * REQUEST_S)
            if not self._protocol.waiting:
                self._producing.after_reading()
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
        if not self._link.closed and not self.pause.other_than(_TURNS):
            self.data_received(b"")

    def _connect(self, event: events.Connect) -> None:
        if self._services.security.authentication.enabled:
            self._handshake.connect(event)
        else:
            self._accept(event)

    def _accept(self, event: events.Connect) -> None:
        version = min(PROTOCOL_VERSION, event.protocol_version)
        self._link.client_version = event.client_version
        self._link.protocol_version = version
        self._outbox.write(
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

    def _refuse(self, event: events.RequestRefused) -> None:
        self._outbox.write(encode.error(event.request_id, event.code, event.message))

    def _violation(self, event: events.Violation) -> None:
        log.error("Closing the connection of %s: %s", self._link.address, event.error)
        self._transport.abort()

    def _status(self) -> tuple[bool, bool]:
        return self._protocol.state not in _BEFORE, not self.pause

    def _end(self, why: str) -> None:
        log.warning("Closing the connection of %s: %s", self._link.address, why)
        self._transport.abort()

    def _on_release(self) -> None:
        # After a pause the client's PONGs are not read yet: it gets a whole interval.
        self._keep_alive.silent = False
        self._next_turn()

    def _resume_consumers(self) -> None:
        self._consuming.resume_all()

    def pause_writing(self) -> None:
        """Stop writing, since the socket's buffer is full."""
        self._outbox.pause()

    def resume_writing(self) -> None:
        """Write again, since the socket's buffer has drained."""
        self._outbox.resume()

    def close(self) -> None:
        """Write what is buffered, then close. Used when the broker stops."""
        self._outbox.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once without writing. Used when the broker is killed."""
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Detach the producers and consumers of the client that has disconnected."""
        self._shared.connections.remove(self, self._ip)
        self._keep_alive.stop()
        self._handshake.stop()
        self._link.close()
        self._outbox.close()
        self._producing.detach_all()
        self._consuming.detach_all()
        self._watching.stop_all()
        if self._interceptor is not None:
            self._interceptor.lost(self._link.address)
