"""What a connection needs of the rest of the broker, and the limits it is held to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from counterpoise.broker.lookup import LookupAnswer
from counterpoise.broker.topic.faces import (
    Acked,
    ConsumerSink,
    ProducerRequest,
    ProducerSink,
    SubscribeRequest,
)
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.options import option
from counterpoise.names.topic import TopicName
from counterpoise.storage.port import Position
from counterpoise.wire.constants import DEFAULT_MAX_MESSAGE_SIZE
from counterpoise.wire.encode_peers import ConsumerFigures
from counterpoise.wire.values import Schema


class Producer(Protocol):
    """A producer attached to a topic."""

    name: str
    #: False while it waits for exclusive access.
    ready: bool
    topic_epoch: int | None

    @property
    def last_sequence_id(self) -> int:
        """The last sequence id known to be stored, -1 for none."""

    def publish(
        self, sequence_id: int, highest_sequence_id: int, messages: int, entry: bytes, /
    ) -> None:
        """Store an entry; the sink hears how that went."""

    def close(self) -> None:
        """Detach; what was published is stored all the same."""


class Consumer(Protocol):
    """A consumer attached to a subscription."""

    #: Index of the topic's partition, -1 for an unpartitioned one.
    partition: int

    def flow(self, permits: int) -> None:
        """The client has room for this many more messages."""

    def resume(self) -> None:
        """The connection can be written to again."""

    def ack_individual(self, acks: Iterable[Acked]) -> None:
        """Acknowledge entries one by one."""

    def ack_cumulative(self, ledger_id: int, entry_id: int, ack_set: Sequence[int] = ()) -> None:
        """Acknowledge everything up to an entry."""

    def redeliver(self, positions: Iterable[tuple[int, int]] | None = None) -> None:
        """Send the given entries again, or everything unacknowledged."""

    async def seek_to(self, position: Position) -> None:
        """Move the subscription to a message."""

    async def seek_to_time(self, publish_time_ms: int) -> None:
        """Move the subscription to the first message published at or after this time."""

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription."""

    def last_message_id(self) -> tuple[Position, Position]:
        """The topic's last entry, and the subscription's mark-delete position."""

    def close(self) -> None:
        """Detach; what it holds unacknowledged goes to the others."""


class Topic(Protocol):
    """A topic that this broker serves."""

    def add_producer(self, request: ProducerRequest, sink: ProducerSink) -> Producer:
        """Attach a producer; raise BrokerError."""

    async def subscribe(self, request: SubscribeRequest, sink: ConsumerSink) -> Consumer:
        """Attach a consumer; raise BrokerError."""


class Topics(Protocol):
    """The topics of this broker."""

    async def get(self, name: TopicName, *, create: bool = True) -> Topic:
        """Return the topic, loading it if this broker owns it; BrokerError otherwise."""


class Namespaces(Protocol):
    """Which broker serves what."""

    async def lookup(self, topic: TopicName, *, authoritative: bool = False) -> LookupAnswer:
        """Say which broker to connect to, or to ask; BrokerError if there is none."""


class Catalog(Protocol):
    """Which topics exist, cluster-wide."""

    async def partitions(self, topic: TopicName, *, auto_create: bool = True) -> int:
        """Return the number of partitions, 0 for none; BrokerError if it is not there."""

    async def topics_of(
        self, namespace: NamespaceName, mode: str = "PERSISTENT"
    ) -> list[TopicName]:
        """Return a namespace's topics; ``mode`` is PERSISTENT, NON_PERSISTENT or ALL."""


class Schemas(Protocol):
    """The schemas of topics, by version."""

    async def get(self, topic: TopicName, version: bytes | None) -> tuple[Schema, bytes] | None:
        """Return a schema and its version, the latest if none is named; None if there is none."""

    async def put(self, topic: TopicName, schema: Schema) -> bytes:
        """Store a schema unless the topic has it already; return its version."""


@dataclass(frozen=True, slots=True)
class Services:
    """The broker, as its connections see it."""

    topics: Topics
    namespaces: Namespaces
    catalog: Catalog
    schemas: Schemas
    #: Figures of a consumer for CONSUMER_STATS; None when it is unknown.
    figures: Callable[[Consumer], ConsumerFigures | None] = lambda _consumer: None


@dataclass(slots=True)
class Traffic:
    """Bytes of the binary protocol since the broker started, all connections together."""

    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionConfig:
    """The limits of a connection, under Pulsar's own names."""

    max_message_size: int = option(
        DEFAULT_MAX_MESSAGE_SIZE,
        conf="maxMessageSize",
        unit="bytes",
        low=1,
        why="the largest message a client may send; frames may be 10 KiB larger",
    )
    keep_alive_interval_s: float = option(
        30,
        conf="keepAliveIntervalSeconds",
        unit="s",
        why="how often a client is pinged; silent until the next ping, it is disconnected",
    )
    max_pending_publish_requests: int = option(
        1000,
        conf="maxPendingPublishRequestsPerConnection",
        unit="messages",
        low=1,
        why="with so many messages not stored yet, nothing more is read until half of them are",
    )
    pattern_evaluation: bool = option(
        True,
        conf="enableBrokerSideSubscriptionPatternEvaluation",
        why="whether a pattern subscription's topics are matched here, and may be watched",
    )
    pattern_length_max: int = option(
        50,
        conf="subscriptionPatternMaxLength",
        unit="characters",
        low=0,
        why="a longer pattern is left to the client, since matching it costs this broker",
    )
