"""Injects the faults that a test asked for, between a connection and its handlers.

A connection without faults has no gate. `Connection.intercept` puts one before the connection's
handlers and before its outbox.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

from counterpoise.broker.connection.client_link import ClientLink, log
from counterpoise.broker.connection.consumers import ClientConsumers
from counterpoise.broker.connection.handshake import NO_REQUEST
from counterpoise.broker.connection.outbox import FrameWriter
from counterpoise.broker.connection.ports import Handler
from counterpoise.broker.connection.producers import ClientProducers
from counterpoise.faults import EffectKind, FaultEffect, Occurrence, Operation
from counterpoise.names.callbacks import Notify
from counterpoise.names.errors import InvalidName
from counterpoise.names.topic import TopicName
from counterpoise.wire import encode, events
from counterpoise.wire.errors import ServerError
from counterpoise.wire.frames import cut_frames
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.states import PeerChange

_PRODUCER: Final = "producer"
_CONSUMER: Final = "consumer"
_NO_PEER: Final = ("", 0)


class GatedConnection(Protocol):
    """The methods of a connection that its fault gate calls."""

    def close(self) -> None:
        """Write what is buffered, then close."""

    def abort(self) -> None:
        """Close at once without writing."""

    def serve(self, event: events.Event) -> None:
        """Pass an event to its handler, without asking the fault gate."""

    def count_served(self) -> None:
        """Called after the gate served held entries: check whether memory requires a pause."""


class Interceptor(Protocol):
    """Is called for each operation of a broker's clients, and may inject a fault into it."""

    broker: str
    """The broker's id."""

    def on(self, occurrence: Occurrence) -> FaultEffect | None:
        """The fault's effect on an operation that begins; None: serve it normally."""

    def lost(self, address: str) -> None:
        """Called when the connection of the client at this address has ended."""


@dataclass(frozen=True, slots=True)
class _Intercepted:
    """How faults treat events of one type.

    ``peer`` is "producer" or "consumer" if the event must not overtake earlier ones of the same
    producer or consumer; ``opens`` and ``closes`` say that it creates or ends that.
    """

    operation: Operation | None
    """The operation that faults name; None if they cannot strike it."""
    peer: str = ""
    opens: bool = False
    closes: bool = False


_KINDS: Final[Mapping[type, _Intercepted]] = {
    events.Connect: _Intercepted(Operation.CONNECT),
    commands.CommandPartitionedTopicMetadata: _Intercepted(Operation.PARTITIONS),
    commands.CommandLookupTopic: _Intercepted(Operation.LOOKUP),
    commands.CommandGetTopicsOfNamespace: _Intercepted(Operation.TOPICS),
    commands.CommandWatchTopicList: _Intercepted(Operation.TOPICS),
    commands.CommandGetSchema: _Intercepted(Operation.SCHEMA),
    commands.CommandGetOrCreateSchema: _Intercepted(Operation.SCHEMA),
    commands.CommandProducer: _Intercepted(Operation.PRODUCER, _PRODUCER, opens=True),
    events.Send: _Intercepted(Operation.SEND, _PRODUCER),
    events.TransactionSend: _Intercepted(Operation.SEND, _PRODUCER),
    commands.CommandCloseProducer: _Intercepted(None, _PRODUCER, closes=True),
    commands.CommandSubscribe: _Intercepted(Operation.SUBSCRIBE, _CONSUMER, opens=True),
    events.Flow: _Intercepted(Operation.FLOW, _CONSUMER),
    events.Ack: _Intercepted(Operation.ACK, _CONSUMER),
    events.Redeliver: _Intercepted(Operation.REDELIVER, _CONSUMER),
    commands.CommandSeek: _Intercepted(Operation.SEEK, _CONSUMER),
    commands.CommandGetLastMessageId: _Intercepted(Operation.LAST_MESSAGE_ID, _CONSUMER),
    commands.CommandUnsubscribe: _Intercepted(Operation.UNSUBSCRIBE, _CONSUMER),
    commands.CommandCloseConsumer: _Intercepted(None, _CONSUMER, closes=True),
}
"""The events that faults can strike, and those (without operation) that only keep their place."""

_MESSAGE_ALONE: Final = {
    ServerError.ChecksumError,
    ServerError.NotAllowedError,
    ServerError.TopicTerminatedError,
}
"""Errors to a SEND after which clients fail that message alone; after others they reconnect."""

_Waiting = deque[tuple[float, Notify]]


class FaultGate:
    """Calls an interceptor for each operation of one connection before it is served.

    A delayed operation delays later ones of the same producer or consumer, so that their order
    stays; other requests of the connection are served. After a refused message the producer's later
    ones are refused too until it reconnects, as in Pulsar.
    """

    def __init__(
        self,
        link: ClientLink,
        producers: ClientProducers,
        consumers: ClientConsumers,
        interceptor: Interceptor,
        connection: GatedConnection,
    ) -> None:
        self._link = link
        self._producers = producers
        self._consumers = consumers
        self._interceptor = interceptor
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[str, int], _Waiting] = {}
        self._refused: dict[tuple[str, int], FaultEffect] = {}
        self.plain_outbox = link.outbox
        link.outbox = GatedOutbox(link.outbox, self)

    def handlers(self) -> dict[type, Handler]:
        """This gate's own handler for each type of event that faults can strike."""
        return dict.fromkeys(_KINDS, lambda _connection, event: self.serve(event))

    def serve(self, event: events.Event) -> None:
        """Serve an event of the connection, unless a fault prevents or delays it."""
        kind = _KINDS[type(event)]
        peer = _peer(kind, event)
        if kind.closes and peer in self._waiting and self._attached(peer) is None:
            # The close cancels the delayed request that would have opened the producer or consumer.
            del self._waiting[peer]
        if kind.opens or kind.closes:
            self._refused.pop(peer, None)
        effect = self._refused.get(peer)
        if effect is None and kind.operation is not None:
            effect = self._interceptor.on(self._occurrence(kind.operation, peer, event))
            if effect is not None and _refuses_what_follows(kind, effect):
                self._refused[peer] = effect
        self._in_turn(peer, effect, partial(self._strike, kind, event, effect))

    def serve_run(self, run: Sequence[events.Send]) -> None:
        """Serve SENDs one by one, so that a fault can strike each."""
        for send in run:
            self.serve(send)

    def leaving(self, command: BaseCommand, frame: bytes) -> None:
        """Write a frame to the client, unless a fault strikes it."""
        occurrence, peer = self._outgoing(command)
        effect = None if occurrence is None else self._interceptor.on(occurrence)
        self._in_turn(peer, effect, partial(self._write, frame, effect))

    def _in_turn(self, peer: tuple[str, int], effect: FaultEffect | None, act: Notify) -> None:
        """Call ``act`` now or after a delay, but never before earlier operations of the peer."""
        delay_s = effect.seconds if effect is not None else 0.0
        queue = self._waiting.get(peer)
        if queue is None:
            if not delay_s:
                act()
                return
            # An event that concerns no producer or consumer delays no other.
            queue = deque()
            if peer != _NO_PEER:
                self._waiting[peer] = queue
        due = max(self._loop.time() + delay_s, queue[-1][0] if queue else 0.0)
        queue.append((due, act))
        if len(queue) == 1:
            self._loop.call_at(due, self._act_late, peer, queue)

    def _act_late(self, peer: tuple[str, int], queue: _Waiting) -> None:
        if self._link.closed or self._waiting.get(peer, queue) is not queue:
            return
        try:
            while queue and queue[0][0] <= self._loop.time():
                queue.popleft()[1]()
            self._connection.count_served()
        except Exception:
            log.exception("Closing the connection of %s: serving it failed", self._link.address)
            self._connection.abort()
            return
        if queue:
            self._loop.call_at(queue[0][0], self._act_late, peer, queue)
        else:
            self._waiting.pop(peer, None)

    def _strike(self, kind: _Intercepted, event: events.Event, effect: FaultEffect | None) -> None:
        peer = _peer(kind, event)
        # An ACK may arrive after its consumer has ended without a fault, too.
        goes_on = not kind.peer or kind.opens or kind.closes or kind.operation is Operation.ACK
        if not goes_on and self._attached(peer) is None:
            # The topic has moved meanwhile: the client sends the event again where it reconnects.
            return
        if effect is None or effect.kind is EffectKind.DELAY:
            self._connection.serve(event)
        elif effect.kind is EffectKind.DISCONNECT:
            self._connection.abort()
        else:
            if kind.opens:
                self._forget(peer)
            if effect.kind is EffectKind.ERROR and effect.code is not None:
                frame = refusal(event, effect.code, effect.message)
                if frame is not None:
                    self.plain_outbox.write(frame)
                if kind.operation is Operation.CONNECT:
                    self._connection.close()

    def _forget(self, peer: tuple[str, int]) -> None:
        """Forget a producer or consumer that could not be opened, so the client may try again."""
        name, number = peer
        if self._attached(peer) is None:
            change = self._link.protocol
            (change.change_producer if name == _PRODUCER else change.change_consumer)(
                number, PeerChange.REFUSED
            )

    def _write(self, frame: bytes, effect: FaultEffect | None) -> None:
        if effect is None or effect.kind is EffectKind.DELAY:
            self.plain_outbox.write(frame)
        elif effect.kind is EffectKind.DISCONNECT:
            self._connection.abort()

    def _attached(self, peer: tuple[str, int]) -> object | None:
        name, number = peer
        return (self._producers if name == _PRODUCER else self._consumers).find(number)

    def _occurrence(
        self, operation: Operation, peer: tuple[str, int], event: events.Event
    ) -> Occurrence:
        known = self._of_peer(operation, peer)
        if known is not None and known.topic is not None:
            return known
        fields = ("producer_name", "consumer_name", "client_version")
        names = [getattr(event, each, None) for each in fields]
        return Occurrence(
            operation,
            self._interceptor.broker,
            self._client(each for each in names if each),
            _full(getattr(event, "topic", None)),
            getattr(event, "subscription", None),
        )

    def _of_peer(self, operation: Operation, peer: tuple[str, int]) -> Occurrence | None:
        """Describe an operation of a producer or consumer; None if it is not attached."""
        broker, (kind, number) = self._interceptor.broker, peer
        if kind == _PRODUCER and (producer := self._producers.find(number)) is not None:
            topic = str(producer.topic.name)
            return Occurrence(operation, broker, self._client([producer.name]), topic)
        if kind == _CONSUMER and (consumer := self._consumers.find(number)) is not None:
            of = consumer.subscription
            return Occurrence(
                operation, broker, self._client([consumer.name]), str(of.topic), of.name
            )
        return None

    def _outgoing(self, command: BaseCommand) -> tuple[Occurrence | None, tuple[str, int]]:
        """A frame's operation, if faults can strike it, and the peer whose order it keeps."""
        if command.type == BaseCommand.SEND_RECEIPT:
            receipt = command.send_receipt
            operation, at, redeliveries = Operation.RECEIPT, receipt.message_id, 0
            peer = (_PRODUCER, receipt.producer_id)
        elif command.type == BaseCommand.MESSAGE:
            message = command.message
            operation, at = Operation.MESSAGE, message.message_id
            peer, redeliveries = (_CONSUMER, message.consumer_id), message.redelivery_count
        else:
            return None, _NO_PEER
        known = self._of_peer(operation, peer)
        if known is None:
            return None, _NO_PEER
        position = (at.ledger_id, at.entry_id)
        occurrence = replace(known, position=position, redeliveries=redeliveries)
        return occurrence, (f"to {peer[0]}", peer[1])

    def _client(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names by which a fault can select the client."""
        known = (self._link.address.removeprefix("/"), self._link.client_version)
        return tuple(filter(None, (*known, *names)))


class GatedOutbox(FrameWriter):
    """A connection's outbox in which faults can strike receipts and messages."""

    def __init__(self, outbox: FrameWriter, gate: FaultGate) -> None:
        self._outbox = outbox
        self._gate = gate

    @property
    def writable(self) -> bool:
        """False while the client does not read fast enough."""
        return self._outbox.writable

    async def room(self) -> None:
        """Wait until the client has read most of what it was sent, or has disconnected."""
        await self._outbox.room()

    def write(self, frame: bytes) -> None:
        """Write a frame, or several complete ones, at the end of this turn of the event loop."""
        for command, whole in cut_frames(frame):
            self._gate.leaving(command, whole)

    def write_burst(self, frames: list[bytes], size: int) -> None:
        """Write frames of ``size`` bytes in all at the end of this turn of the event loop."""
        self.write(b"".join(frames))


def _refuses_what_follows(kind: _Intercepted, effect: FaultEffect) -> bool:
    refused = kind.operation is Operation.SEND and effect.kind is EffectKind.ERROR
    return refused and effect.code not in _MESSAGE_ALONE


def refusal(event: events.Event, code: ServerError, message: str) -> bytes | None:
    """The frame that answers an event with an error; None if the event has no response."""
    match event:
        case events.Send():
            return encode.send_error(event.producer_id, event.sequence_id, code, message)
        case events.TransactionSend():
            return refusal(event.send, code, message)
        case events.Ack():
            if event.request_id is None:
                return None
            return encode.ack_response(event.consumer_id, event.request_id, code, message)
        case _ if hasattr(event, "request_id"):
            return encode.refuse(event, code, message)
        case _:
            return encode.error(NO_REQUEST, code, message)


def _peer(kind: _Intercepted, event: events.Event) -> tuple[str, int]:
    return (kind.peer, getattr(event, f"{kind.peer}_id")) if kind.peer else _NO_PEER


def _full(topic: str | None) -> str | None:
    """Return the full name of a topic that a client named; an invalid name as it is."""
    try:
        return None if topic is None else str(TopicName.parse(topic))
    except InvalidName:
        return topic
