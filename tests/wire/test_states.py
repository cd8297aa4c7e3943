"""The tables, pair by pair: what every command does in every state."""

import pytest

from counterpoise.wire.decode import READERS
from counterpoise.wire.events import Event, Refused, Violation
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.protocol import ServerProtocol
from counterpoise.wire.states import (
    CONNECTION,
    CONSUMER,
    PRODUCER,
    ConnectionState,
    PeerState,
    Step,
    Turn,
)
from tests.wire import frames
from tests.wire.strategies import FIELDS

Type = BaseCommand.Type


def minimal(kind: int) -> bytes:
    """Return the shortest command of a kind, about producer or consumer 0."""
    field = READERS[kind][0]
    command = BaseCommand(type=kind)
    body = getattr(command, field)
    body.SetInParent()
    for each in body.DESCRIPTOR.fields:
        if each.is_required and each.message_type is None:
            number = 1 if each.name == "message_permits" else 0
            setattr(body, each.name, "x" if each.type == each.TYPE_STRING else number)
        elif each.is_required:
            body.schema.name, body.schema.schema_data, body.schema.type = "", b"", 0
    return frames.frame(command, frames.entry() if kind == Type.SEND else b"")


def connection(state: ConnectionState) -> ServerProtocol:
    protocol = ServerProtocol()
    if state is not ConnectionState.AWAITING_CONNECT:
        protocol.receive(frames.connect())
    if state is ConnectionState.FAILED:
        protocol.receive(frames.connect())
    assert protocol.state is state
    return protocol


def producer(state: PeerState) -> ServerProtocol:
    protocol = connection(ConnectionState.OPEN)
    if state is not PeerState.ABSENT:
        protocol.receive(frames.producer(0))
    if state in (PeerState.READY, PeerState.DETACHED):
        protocol.producer_turn(0, Turn.OPENED)
    if state is PeerState.DETACHED:
        protocol.producer_turn(0, Turn.DETACHED)
    assert protocol.producer_state(0) is state
    return protocol


def consumer(state: PeerState) -> ServerProtocol:
    protocol = connection(ConnectionState.OPEN)
    if state is not PeerState.ABSENT:
        protocol.receive(frames.subscribe(0))
    if state in (PeerState.READY, PeerState.DETACHED):
        protocol.consumer_turn(0, Turn.OPENED)
    if state is PeerState.DETACHED:
        protocol.consumer_turn(0, Turn.DETACHED)
    assert protocol.consumer_state(0) is state
    return protocol


@pytest.mark.parametrize("kind", Type.values(), ids=Type.Name)
@pytest.mark.parametrize("state", ConnectionState)
def test_connection(state: ConnectionState, kind: int) -> None:
    protocol = connection(state)
    data = (
        minimal(kind) if kind in READERS else frames.frame(BaseCommand(type=kind))  # server only
    )
    events = protocol.receive(data)
    if state is ConnectionState.FAILED:
        assert events == []
    elif (state, kind) in CONNECTION:
        violated = any(isinstance(event, Violation) for event in events)
        assert violated == (
            (PeerState.ABSENT, kind) not in {**PRODUCER, **CONSUMER} and _peer(kind)
        )
        if not violated:
            assert protocol.state is CONNECTION[state, kind]
    else:
        assert isinstance(events[-1], Violation)
        assert f"not allowed while {state.name}" in str(events[-1].error)
        assert protocol.state is ConnectionState.FAILED


def _peer(kind: int) -> bool:
    return any(key == kind for _, key in (*PRODUCER, *CONSUMER))


PRODUCER_INPUTS = sorted({key for _, key in PRODUCER if not isinstance(key, Turn)})
CONSUMER_INPUTS = sorted({key for _, key in CONSUMER if not isinstance(key, Turn)})


@pytest.mark.parametrize("kind", PRODUCER_INPUTS, ids=Type.Name)
@pytest.mark.parametrize("state", PeerState)
def test_producer(state: PeerState, kind: int) -> None:
    protocol = producer(state)
    events = protocol.receive(minimal(kind))
    step = PRODUCER.get((state, kind))
    check(events, step, state)
    if step is not None:
        assert protocol.producer_state(0) is step.next


@pytest.mark.parametrize("kind", CONSUMER_INPUTS, ids=Type.Name)
@pytest.mark.parametrize("state", PeerState)
def test_consumer(state: PeerState, kind: int) -> None:
    protocol = consumer(state)
    events = protocol.receive(minimal(kind))
    step = CONSUMER.get((state, kind))
    check(events, step, state)
    if step is not None:
        assert protocol.consumer_state(0) is step.next


def check(events: list[Event], step: Step | None, state: PeerState) -> None:
    if step is None:
        assert isinstance(events[-1], Violation)
        assert f"id 0 is {state.name}" in str(events[-1].error)
    elif step.discard:
        assert events == []
    elif step.refuse is not None:
        assert events == [Refused(0, *step.refuse)]
    else:
        assert len(events) == 1
        assert not isinstance(events[0], Refused | Violation)


@pytest.mark.parametrize("turn", Turn)
@pytest.mark.parametrize("state", PeerState)
def test_turns_of_the_broker(state: PeerState, turn: Turn) -> None:
    for table, protocol, take, now in (
        (PRODUCER, p := producer(state), p.producer_turn, p.producer_state),
        (CONSUMER, c := consumer(state), c.consumer_turn, c.consumer_state),
    ):
        assert protocol.state is ConnectionState.OPEN
        if (state, turn) in table:
            take(0, turn)
            assert now(0) is table[state, turn].next
        else:
            with pytest.raises(KeyError):
                take(0, turn)


def test_every_command_of_a_client_is_tried_by_hypothesis() -> None:
    assert set(FIELDS) | {Type.CONNECT} == set(READERS)
    assert set(READERS) == {kind for _, kind in CONNECTION}


def test_producers_and_consumers_do_not_share_ids() -> None:
    protocol = producer(PeerState.READY)
    assert protocol.consumer_state(0) is PeerState.ABSENT
