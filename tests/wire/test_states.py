"""What every command does in every state, against tables of what Pulsar's ServerCnx does.

They are written by hand in a form of their own, and know nothing of the tables of the code.
"""

from collections.abc import Callable

import pytest

from counterpoise.wire.decode import READERS
from counterpoise.wire.events import AuthResponse, Connect, Event, RequestRefused, Violation
from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.protocol import ServerProtocol
from counterpoise.wire.states import ConnectionState, PeerChange, PeerState
from tests.wire import frames
from tests.wire.strategies import FIELDS

Type = BaseCommand.Type


def minimal(kind: int) -> bytes:
    """Return the shortest command of a kind, about producer or consumer 0."""
    if kind not in READERS:  # what only servers send, and what we never read
        return frames.frame(BaseCommand(type=kind))
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


def peer(kind: str, state: PeerState) -> ServerProtocol:
    """A connection whose producer or consumer 0 is in this state."""
    protocol = connection(ConnectionState.OPEN)
    change = protocol.change_producer if kind == "producer" else protocol.change_consumer
    if state is not PeerState.ABSENT:
        protocol.receive(frames.producer(0) if kind == "producer" else frames.subscribe(0))
    if state in (PeerState.READY, PeerState.DETACHED):
        change(0, PeerChange.OPENED)
    if state is PeerState.DETACHED:
        change(0, PeerChange.DETACHED)
    reached = protocol.producer_state if kind == "producer" else protocol.consumer_state
    assert reached(0) is state
    return protocol


BEFORE_CONNECT = "CONNECT PING PONG"
"""What ServerCnx takes before and after CONNECT; whatever is missing here ends the connection."""
WHEN_OPEN = """
    PING PONG AUTH_RESPONSE
    PARTITIONED_METADATA LOOKUP GET_TOPICS_OF_NAMESPACE WATCH_TOPIC_LIST WATCH_TOPIC_LIST_CLOSE
    PRODUCER SEND CLOSE_PRODUCER GET_SCHEMA GET_OR_CREATE_SCHEMA
    SUBSCRIBE FLOW ACK REDELIVER_UNACKNOWLEDGED_MESSAGES SEEK GET_LAST_MESSAGE_ID CONSUMER_STATS
    UNSUBSCRIBE CLOSE_CONSUMER
    NEW_TXN ADD_PARTITION_TO_TXN ADD_SUBSCRIPTION_TO_TXN END_TXN END_TXN_ON_PARTITION
    END_TXN_ON_SUBSCRIPTION TC_CLIENT_CONNECT_REQUEST
"""

PRODUCERS = """
                    ABSENT              OPENING             READY       DETACHED
    PRODUCER        opening             SERVICE_NOT_READY   ready       opening
    SEND            violates            violates            ready       dropped
    CLOSE_PRODUCER  UNKNOWN_ERROR       absent              absent      absent
    opened          -                   ready               -           -
    refused         -                   absent              -           -
    detached        -                   detached            detached    -
"""
"""What becomes of a producer, from what ServerCnx does: a state is the one that follows a command
that is taken; `dropped` gives no event, `violates` ends the connection, a word in capitals is the
error that answers it. The last three are what the broker itself does; `-`: it cannot."""
CONSUMERS = """
                         ABSENT          OPENING             READY     DETACHED
    SUBSCRIBE            opening         SERVICE_NOT_READY   ready     opening
    FLOW                 dropped         dropped             ready     dropped
    ACK                  dropped         dropped             ready     detached
    REDELIVER_UNACKNOWLEDGED_MESSAGES  dropped  dropped      ready     dropped
    SEEK                 METADATA_ERROR  METADATA_ERROR      ready     METADATA_ERROR
    GET_LAST_MESSAGE_ID  METADATA_ERROR  METADATA_ERROR      ready     METADATA_ERROR
    UNSUBSCRIBE          METADATA_ERROR  METADATA_ERROR      ready     METADATA_ERROR
    CONSUMER_STATS       absent          opening             ready     detached
    CLOSE_CONSUMER       METADATA_ERROR  absent              absent    absent
    opened               -               ready               -         -
    refused              -               absent              -         -
    detached             -               detached            detached  -
"""

ERRORS = {
    ("PRODUCER", "SERVICE_NOT_READY"): (6, "Producer is already present on the connection"),
    ("SUBSCRIBE", "SERVICE_NOT_READY"): (6, "Consumer is already present on the connection"),
    ("CLOSE_PRODUCER", "UNKNOWN_ERROR"): (0, "Producer was not registered on the connection"),
    **{
        (command, "METADATA_ERROR"): (1, "Consumer not found")
        for command in ("SEEK", "GET_LAST_MESSAGE_ID", "UNSUBSCRIBE", "CLOSE_CONSUMER")
    },
}
"""Pulsar's own numbers (ServerError in PulsarApi.proto) and words, and who says them."""


def cases(table: str) -> list[tuple[str, str, str]]:
    """What a table says: input, state, what becomes of it."""
    head, *rows = [line.split() for line in table.strip().splitlines()]
    return [
        (command, state, becomes)
        for command, *cells in rows
        for state, becomes in zip(head, cells, strict=True)
    ]


@pytest.mark.parametrize("kind", Type.values(), ids=Type.Name)
def test_before_it_has_said_who_it_is(kind: int) -> None:
    protocol = connection(ConnectionState.AWAITING_CONNECT)
    events = protocol.receive(minimal(kind))
    if Type.Name(kind) in BEFORE_CONNECT.split():
        assert len(events) == 1
        assert not isinstance(events[0], Violation)
        connected = kind == Type.CONNECT
        assert protocol.state.name == ("OPEN" if connected else "AWAITING_CONNECT")
    else:
        violated(protocol, events, "not allowed while AWAITING_CONNECT")


@pytest.mark.parametrize("kind", Type.values(), ids=Type.Name)
def test_what_an_open_connection_takes(kind: int) -> None:
    protocol = connection(ConnectionState.OPEN)
    events = protocol.receive(minimal(kind))
    if Type.Name(kind) not in WHEN_OPEN.split():
        violated(protocol, events, "not allowed while OPEN")
    elif kind == Type.SEND:  # which the table of producers forbids: there is none
        violated(protocol, events, "id 0 is ABSENT")
    else:
        assert not any(isinstance(event, Violation) for event in events)
        assert protocol.state is ConnectionState.OPEN


@pytest.mark.parametrize("kind", Type.values(), ids=Type.Name)
def test_after_a_violation_nothing_is_heard(kind: int) -> None:
    protocol = connection(ConnectionState.FAILED)
    assert protocol.receive(minimal(kind)) == []
    assert protocol.state is ConnectionState.FAILED


@pytest.mark.parametrize(("command", "state", "becomes"), cases(PRODUCERS))
def test_producer(command: str, state: str, becomes: str) -> None:
    protocol = peer("producer", PeerState[state])
    meets(protocol, command, state, becomes, protocol.change_producer)
    if becomes.islower() and becomes not in ("dropped", "violates"):
        assert protocol.producer_state(0).name == becomes.upper()
    elif becomes != "violates":
        assert protocol.producer_state(0).name == state


@pytest.mark.parametrize(("command", "state", "becomes"), cases(CONSUMERS))
def test_consumer(command: str, state: str, becomes: str) -> None:
    protocol = peer("consumer", PeerState[state])
    meets(protocol, command, state, becomes, protocol.change_consumer)
    if becomes.islower() and becomes not in ("dropped", "violates"):
        assert protocol.consumer_state(0).name == becomes.upper()
    elif becomes != "violates":
        assert protocol.consumer_state(0).name == state


def meets(
    protocol: ServerProtocol,
    command: str,
    state: str,
    becomes: str,
    turn: Callable[[int, PeerChange], object],
) -> None:
    """Give a command, or a turn of the broker's, to a peer in this state."""
    if command.islower():
        if becomes == "-":
            with pytest.raises(KeyError):
                turn(0, PeerChange[command.upper()])
        else:
            turn(0, PeerChange[command.upper()])
        return
    events = protocol.receive(minimal(Type.Value(command)))
    if becomes == "violates":
        violated(protocol, events, f"id 0 is {state}")
    elif becomes == "dropped":
        assert events == []
    elif becomes.isupper():
        [refused] = events
        assert isinstance(refused, RequestRefused)
        assert (refused.request_id, refused.code, refused.message) == (0, *ERRORS[command, becomes])
    else:
        assert len(events) == 1
        assert not isinstance(events[0], RequestRefused | Violation)


def violated(protocol: ServerProtocol, events: list[Event], why: str) -> None:
    [violation] = events
    assert isinstance(violation, Violation)
    assert why in str(violation.error)
    assert protocol.state is ConnectionState.FAILED


def test_every_command_of_a_client_is_tried_by_hypothesis() -> None:
    assert set(FIELDS) | {Type.CONNECT} == set(READERS)
    listed = {*BEFORE_CONNECT.split(), *WHEN_OPEN.split()}
    assert {Type.Name(kind) for kind in READERS} == listed


def test_who_is_not_known_yet_is_read_no_further() -> None:
    protocol = ServerProtocol(authenticates=True)
    lookup = minimal(Type.LOOKUP)
    events = protocol.receive(frames.connect() + lookup + lookup[:3])
    assert [type(each).__name__ for each in events] == ["Connect"]
    assert protocol.state is ConnectionState.CONNECTING
    assert protocol.receive(lookup[3:]) == []
    protocol.admit()
    assert protocol.waiting
    assert [type(each).__name__ for each in protocol.receive(b"")] == [
        "CommandLookupTopic",
        "CommandLookupTopic",
    ]
    assert not protocol.waiting


def test_what_was_shown_is_in_no_text_of_an_event() -> None:
    command = BaseCommand(type=Type.CONNECT)
    command.connect.client_version = "c"
    command.connect.auth_method_name = "token"
    command.connect.auth_data = b"hush"
    command.connect.original_auth_data = "hush"
    [event] = ServerProtocol().receive(frames.frame(command))
    assert isinstance(event, Connect)
    assert (event.auth_method, event.auth_data) == ("token", b"hush")
    assert "hush" not in repr(event)
    assert "hush" not in repr(AuthResponse("token", b"hush"))


def test_producers_and_consumers_do_not_share_ids() -> None:
    protocol = peer("producer", PeerState.READY)
    assert protocol.consumer_state(0) is PeerState.ABSENT
