"""The state tables that decide whether a command is allowed now, and which state follows.

There are three, for the connection, and for each producer and each consumer on it. A pair of state
and command that a table does not list is a violation of the protocol; no other rule exists. Some
commands arrive late without a fault of the client (the broker closed the producer while a message
was in flight): these have a row that discards or refuses them, as ServerCnx does in Pulsar.
"""

from enum import Enum, auto
from typing import NamedTuple

from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto.base_pb2 import BaseCommand

Type = BaseCommand.Type


class ConnectionState(Enum):
    """The states of a client connection."""

    AWAITING_CONNECT = auto()
    CONNECTING = auto()
    """The client is being authenticated: its further commands are not decoded meanwhile."""
    OPEN = auto()
    FAILED = auto()


class PeerState(Enum):
    """The states of a producer or consumer on a connection, as the broker knows it."""

    ABSENT = auto()
    OPENING = auto()
    READY = auto()
    DETACHED = auto()
    """The broker closed it; the client may not know yet."""


class PeerChange(Enum):
    """What the broker does to a producer or a consumer; a state table treats it like a command."""

    OPENED = auto()
    REFUSED = auto()
    DETACHED = auto()


class Refusal(NamedTuple):
    """The error with which a request is answered."""

    code: ServerError
    message: str


class Transition(NamedTuple):
    """An entry of a state table: the next state; whether the command is discarded or refused."""

    next: PeerState
    discard: bool = False
    refuse: Refusal | None = None


_ANY_TIME = (Type.PING, Type.PONG)

_WHEN_OPEN = (
    Type.PARTITIONED_METADATA,
    Type.LOOKUP,
    Type.GET_TOPICS_OF_NAMESPACE,
    Type.WATCH_TOPIC_LIST,
    Type.WATCH_TOPIC_LIST_CLOSE,
    Type.PRODUCER,
    Type.SEND,
    Type.CLOSE_PRODUCER,
    Type.SUBSCRIBE,
    Type.FLOW,
    Type.ACK,
    Type.REDELIVER_UNACKNOWLEDGED_MESSAGES,
    Type.SEEK,
    Type.GET_LAST_MESSAGE_ID,
    Type.CONSUMER_STATS,
    Type.UNSUBSCRIBE,
    Type.CLOSE_CONSUMER,
    Type.GET_SCHEMA,
    Type.GET_OR_CREATE_SCHEMA,
    Type.NEW_TXN,
    Type.ADD_PARTITION_TO_TXN,
    Type.ADD_SUBSCRIPTION_TO_TXN,
    Type.END_TXN,
    Type.END_TXN_ON_PARTITION,
    Type.END_TXN_ON_SUBSCRIPTION,
    Type.TC_CLIENT_CONNECT_REQUEST,
    Type.AUTH_RESPONSE,
)
"""The commands that a client may send once it is connected."""

CONNECTION: dict[tuple[ConnectionState, int], ConnectionState] = {
    (ConnectionState.AWAITING_CONNECT, Type.CONNECT): ConnectionState.OPEN,
    **{
        (ConnectionState.AWAITING_CONNECT, command): ConnectionState.AWAITING_CONNECT
        for command in _ANY_TIME
    },
    **{
        (ConnectionState.OPEN, command): ConnectionState.OPEN
        for command in (*_ANY_TIME, *_WHEN_OPEN)
    },
}

_ABSENT, _OPENING, _READY, _DETACHED = PeerState
_PRODUCER_PRESENT = Refusal(
    ServerError.ServiceNotReady, "Producer is already present on the connection"
)
_NO_PRODUCER = Refusal(ServerError.UnknownError, "Producer was not registered on the connection")
_CONSUMER_PRESENT = Refusal(
    ServerError.ServiceNotReady, "Consumer is already present on the connection"
)
_NO_CONSUMER = Refusal(ServerError.MetadataError, "Consumer not found")

PRODUCER: dict[tuple[PeerState, int | PeerChange], Transition] = {
    (_ABSENT, Type.PRODUCER): Transition(_OPENING),
    (_OPENING, Type.PRODUCER): Transition(_OPENING, refuse=_PRODUCER_PRESENT),
    (_READY, Type.PRODUCER): Transition(_READY),
    (_DETACHED, Type.PRODUCER): Transition(_OPENING),
    (_OPENING, PeerChange.OPENED): Transition(_READY),
    (_OPENING, PeerChange.REFUSED): Transition(_ABSENT),
    (_OPENING, PeerChange.DETACHED): Transition(_DETACHED),
    (_READY, PeerChange.DETACHED): Transition(_DETACHED),
    (_READY, Type.SEND): Transition(_READY),
    (_DETACHED, Type.SEND): Transition(_DETACHED, discard=True),
    (_ABSENT, Type.CLOSE_PRODUCER): Transition(_ABSENT, refuse=_NO_PRODUCER),
    (_OPENING, Type.CLOSE_PRODUCER): Transition(_ABSENT),
    (_READY, Type.CLOSE_PRODUCER): Transition(_ABSENT),
    (_DETACHED, Type.CLOSE_PRODUCER): Transition(_ABSENT),
}

_FIRE_AND_FORGET = (Type.FLOW, Type.ACK, Type.REDELIVER_UNACKNOWLEDGED_MESSAGES)
_REQUESTS = (Type.SEEK, Type.GET_LAST_MESSAGE_ID, Type.UNSUBSCRIBE)

CONSUMER: dict[tuple[PeerState, int | PeerChange], Transition] = {
    (_ABSENT, Type.SUBSCRIBE): Transition(_OPENING),
    (_OPENING, Type.SUBSCRIBE): Transition(_OPENING, refuse=_CONSUMER_PRESENT),
    (_READY, Type.SUBSCRIBE): Transition(_READY),
    (_DETACHED, Type.SUBSCRIBE): Transition(_OPENING),
    (_OPENING, PeerChange.OPENED): Transition(_READY),
    (_OPENING, PeerChange.REFUSED): Transition(_ABSENT),
    (_OPENING, PeerChange.DETACHED): Transition(_DETACHED),
    (_READY, PeerChange.DETACHED): Transition(_DETACHED),
    **{(_READY, command): Transition(_READY) for command in (*_FIRE_AND_FORGET, *_REQUESTS)},
    **{
        (state, command): Transition(state, discard=True)
        for state in (_ABSENT, _OPENING, _DETACHED)
        for command in _FIRE_AND_FORGET
    },
    # Acknowledgements under way when the broker asked the client to reconnect still count.
    (_DETACHED, Type.ACK): Transition(_DETACHED),
    **{
        (state, command): Transition(state, refuse=_NO_CONSUMER)
        for state in (_ABSENT, _OPENING, _DETACHED)
        for command in _REQUESTS
    },
    **{(state, Type.CONSUMER_STATS): Transition(state) for state in PeerState},
    (_ABSENT, Type.CLOSE_CONSUMER): Transition(_ABSENT, refuse=_NO_CONSUMER),
    (_OPENING, Type.CLOSE_CONSUMER): Transition(_ABSENT),
    (_READY, Type.CLOSE_CONSUMER): Transition(_ABSENT),
    (_DETACHED, Type.CLOSE_CONSUMER): Transition(_ABSENT),
}
