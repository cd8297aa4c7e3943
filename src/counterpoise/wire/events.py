"""The meaning of a client's frames: one immutable event for each command.

The frequent ones (`Send`, `Ack`, `Flow`) are named tuples, which cost a fifth of a frozen dataclass
to make; all compare by value.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from counterpoise.wire.errors import ProtocolViolationError, ServerError
from counterpoise.wire.values import (
    AccessMode,
    InitialPosition,
    KeyShared,
    MessageId,
    Schema,
    SubscriptionType,
    TopicsMode,
    TransactionId,
)


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
    """For whom a proxy connects, and what that one showed to it."""
    original_auth_method: str | None = None
    original_auth_data: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class AuthResponse:
    """AUTH_RESPONSE: new credentials, which the client may also send unasked."""

    auth_method: str
    auth_data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ping:
    """PING: the client asks for a PONG, to learn whether the connection works."""


@dataclass(frozen=True, slots=True)
class Pong:
    """PONG: the client answers the broker's PING."""


@dataclass(frozen=True, slots=True)
class PartitionedMetadata:
    """PARTITIONED_METADATA: the client asks how many partitions a topic has."""

    request_id: int
    topic: str
    auto_create: bool = True


@dataclass(frozen=True, slots=True)
class Lookup:
    """LOOKUP: which broker serves a topic? ``authoritative``: a redirect chose this broker."""

    request_id: int
    topic: str
    authoritative: bool = False
    listener: str | None = None


@dataclass(frozen=True, slots=True)
class GetTopics:
    """GET_TOPICS_OF_NAMESPACE; with ``known_hash`` the broker may answer that nothing changed."""

    request_id: int
    namespace: str
    mode: TopicsMode = TopicsMode.PERSISTENT
    pattern: str | None = None
    known_hash: str | None = None


@dataclass(frozen=True, slots=True)
class WatchTopics:
    """Subscribe to changes of the namespace's matching topics (PIP-145)."""

    request_id: int
    watcher_id: int
    namespace: str
    pattern: str
    known_hash: str | None = None


@dataclass(frozen=True, slots=True)
class CloseWatch:
    """WATCH_TOPIC_LIST_CLOSE: end a subscription to topic changes."""

    request_id: int
    watcher_id: int


@dataclass(frozen=True, slots=True)
class OpenProducer:
    """Open a producer on a topic; ``name`` is None when the broker is to choose one."""

    request_id: int
    producer_id: int
    topic: str
    name: str | None = None
    user_provided_name: bool = True
    epoch: int = 0
    access_mode: AccessMode = AccessMode.Shared
    topic_epoch: int | None = None
    encrypted: bool = False
    metadata: tuple[tuple[str, str], ...] = ()
    schema: Schema | None = None
    txn_enabled: bool = False
    initial_subscription: str | None = None


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
    """Publish an entry in a transaction."""

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


@dataclass(frozen=True, slots=True)
class CloseProducer:
    """Close a producer."""

    request_id: int
    producer_id: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Attach a consumer to a subscription of a topic; creates the subscription if it does not
    exist.
    """

    request_id: int
    consumer_id: int
    topic: str
    subscription: str
    type: SubscriptionType
    consumer_name: str | None = None
    priority_level: int = 0
    durable: bool = True
    start: MessageId | None = None
    start_rollback_s: int = 0
    initial_position: InitialPosition = InitialPosition.Latest
    read_compacted: bool = False
    replicate_state: bool = False
    create_topic: bool = True
    key_shared: KeyShared | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    schema: Schema | None = None
    epoch: int | None = None


class Flow(NamedTuple):
    """FLOW: the consumer permits the broker to send ``permits`` messages more."""

    consumer_id: int
    permits: int


#: An acknowledged entry: ledger id, entry id, and the words of its ack set (none: all of it).
Acked = tuple[int, int, tuple[int, ...]]


class Ack(NamedTuple):
    """ACK: acknowledge messages; a cumulative one covers all up to its only id. Answered if asked.

    ``validation_error``: the client could not read the message (a CommandAck.ValidationError).
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
    """REDELIVER_UNACKNOWLEDGED_MESSAGES: deliver these again; without ids, all unacknowledged."""

    consumer_id: int
    message_ids: tuple[MessageId, ...] = ()
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Seek:
    """Move a subscription to a message, or to the first one published at or after a time."""

    request_id: int
    consumer_id: int
    message_id: MessageId | None = None
    publish_time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class GetLastMessageId:
    """GET_LAST_MESSAGE_ID: ask for the id of the topic's last message."""

    request_id: int
    consumer_id: int


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """CONSUMER_STATS: ask for the broker's figures of a consumer."""

    request_id: int
    consumer_id: int


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Delete the consumer's subscription."""

    request_id: int
    consumer_id: int
    force: bool = False


@dataclass(frozen=True, slots=True)
class CloseConsumer:
    """CLOSE_CONSUMER from the client; the subscription stays."""

    request_id: int
    consumer_id: int


@dataclass(frozen=True, slots=True)
class GetSchema:
    """GET_SCHEMA: ask for a topic's schema; ``version`` None means the latest."""

    request_id: int
    topic: str
    version: bytes | None = None


@dataclass(frozen=True, slots=True)
class GetOrCreateSchema:
    """GET_OR_CREATE_SCHEMA: register a schema unless it exists, and return its version."""

    request_id: int
    topic: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class ConnectCoordinator:
    """TC_CLIENT_CONNECT_REQUEST: the client is about to use a transaction coordinator."""

    request_id: int
    coordinator: int


@dataclass(frozen=True, slots=True)
class NewTransaction:
    """Open a transaction, which is aborted after ``timeout_ms`` if it is still open."""

    request_id: int
    coordinator: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class AddToTransaction:
    """Register topics that a transaction will publish to, or subscriptions that it will acknowledge
    on.

    ``subscriptions`` are pairs of a topic's and a subscription's name; None: the command registers
    ``topics``.
    """

    request_id: int
    transaction: TransactionId
    topics: tuple[str, ...] = ()
    subscriptions: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commit a transaction, or abort it."""

    request_id: int
    transaction: TransactionId
    commit: bool


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
    | Ping
    | Pong
    | PartitionedMetadata
    | Lookup
    | GetTopics
    | WatchTopics
    | CloseWatch
    | OpenProducer
    | Send
    | TransactionSend
    | SendRefused
    | CloseProducer
    | Subscribe
    | Flow
    | Ack
    | Redeliver
    | Seek
    | GetLastMessageId
    | ConsumerStats
    | Unsubscribe
    | CloseConsumer
    | GetSchema
    | GetOrCreateSchema
    | ConnectCoordinator
    | NewTransaction
    | AddToTransaction
    | EndTransaction
    | EndOnParticipant
    | RequestRefused
    | Violation
)
