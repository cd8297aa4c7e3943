"""The events into which a client's frames are decoded.

A command whose fields handlers can read as they are is its own event; the others become immutable
values. The frequent ones (`Send`, `Ack`, `Flow`) are named tuples, which cost a fifth of a frozen
dataclass to make; all compare by value.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from google.protobuf.message import Message

from counterpoise.wire.errors import ProtocolViolationError, ServerError
from counterpoise.wire.values import MessageId, TransactionId


@dataclass(frozen=True, slots=True)
class Connect:
    """CONNECT, a connection's first command: the client's version, features and credentials."""

    client_version: str
    protocol_version: int
    supports_partial_producer: bool = False
    supports_topic_watchers: bool = False
    proxy_version: str | None = None
    auth_method: str = "none"
    auth_data: bytes = field(default=b"", repr=False)
    supports_auth_refresh: bool = False
    original_principal: str | None = None
    """The client for which a proxy connects, and the credentials that it showed to the proxy."""
    original_auth_method: str | None = None
    original_auth_data: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class AuthResponse:
    """AUTH_RESPONSE: new credentials, which the client may also send unasked."""

    auth_method: str
    auth_data: bytes = field(repr=False)


class Send(NamedTuple):
    """SEND: publish an entry, whose checksum is correct.

    ``messages`` is counted by its metadata, as in Pulsar. ``highest_sequence_id`` is 0 if absent.
    """

    producer_id: int
    sequence_id: int
    highest_sequence_id: int
    messages: int
    is_chunk: bool
    entry: bytes


class TransactionSend(NamedTuple):
    """SEND with a transaction: publish an entry in it."""

    send: Send
    transaction: TransactionId

    @property
    def producer_id(self) -> int:
        """The id, on this connection, of the producer that sends the entry."""
        return self.send.producer_id


class SendRefused(NamedTuple):
    """A SEND whose entry must not be stored: answer with SEND_ERROR; the connection goes on."""

    producer_id: int
    sequence_id: int
    code: ServerError
    message: str


class Flow(NamedTuple):
    """FLOW: the consumer permits the broker to send ``permits`` messages more."""

    consumer_id: int
    permits: int


Acked = tuple[int, int, tuple[int, ...]]
"""An acknowledged entry: ledger id, entry id, and the words of its ack set (none: all of it)."""


class Ack(NamedTuple):
    """ACK: acknowledge messages; a cumulative one covers all up to its only position.

    It is answered if it has a ``request_id``. ``validation_error``: why the client could not read
    the message (a ``CommandAck.ValidationError``).
    """

    consumer_id: int
    cumulative: bool
    acked: tuple[Acked, ...]
    validation_error: int | None = None
    properties: tuple[tuple[str, int], ...] = ()
    request_id: int | None = None
    transaction: TransactionId | None = None


@dataclass(frozen=True, slots=True)
class Redeliver:
    """REDELIVER_UNACKNOWLEDGED_MESSAGES: redeliver these messages; without ids, all unacknowledged
    ones.
    """

    consumer_id: int
    message_ids: tuple[MessageId, ...] = ()
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class EndOnParticipant:
    """A coordinator ends its transaction on a topic, or on one ``subscription`` of it.

    All transactions of this coordinator with a number up to ``low_watermark`` have ended.
    """

    request_id: int
    transaction: TransactionId
    commit: bool
    low_watermark: int
    topic: str
    subscription: str | None = None


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """A request that is not allowed in the present state; answer it with this error."""

    request_id: int
    code: ServerError
    message: str


@dataclass(frozen=True, slots=True)
class Violation:
    """The client broke the protocol; no event of this connection follows."""

    error: ProtocolViolationError


Event = (
    Connect
    | AuthResponse
    | Send
    | TransactionSend
    | SendRefused
    | Flow
    | Ack
    | Redeliver
    | EndOnParticipant
    | RequestRefused
    | Violation
    | Message
)
"""An event, or a command as it is: a message of `commands.proto`, which handlers only read."""
