"""What a connection needs of the rest of the broker, and its limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from counterpoise.broker.base.cluster_key import SystemTopicGuard
from counterpoise.broker.bundles.service import NamespaceService
from counterpoise.broker.namespaces.catalog import TopicCatalog
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.broker.transactions.coordinator import Coordinator, not_here
from counterpoise.broker.transactions.ports import ParticipantOwner
from counterpoise.names.callbacks import Notify, StopListening
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.options import option
from counterpoise.names.topic import TopicName
from counterpoise.security.gate import OPEN_TO_ALL, Security
from counterpoise.wire.constants import DEFAULT_MAX_MESSAGE_SIZE
from counterpoise.wire.events import EndOnParticipant
from counterpoise.wire.values import Schema

Handlers = dict[type[Any], Callable[[Any], None]]
"""What serves each kind of event of a connection."""


class Schemas(Protocol):
    """The schema registry, as connections use it."""

    async def get(self, topic: TopicName, version: bytes | None) -> tuple[Schema, bytes] | None:
        """A topic's schema of this version (None: the latest), with its version; None if
        missing.
        """

    async def put(self, topic: TopicName, schema: Schema) -> bytes:
        """Store a schema unless the topic has it already; returns its version.

        Raises `BrokerError` IncompatibleSchema unless it is compatible with the latest one.
        """

    async def admit_without(self, topic: TopicName) -> None:
        """Raise `BrokerError` IncompatibleSchema unless a producer may have no schema."""

    async def attach(self, topic: TopicName, schema: Schema, *, in_use: bool = False) -> None:
        """Check a consumer's schema, add it if new; raises `BrokerError` IncompatibleSchema."""


class OnTopicsChanged(Protocol):
    """A function that subscribes a listener to changes of a namespace's topics."""

    def __call__(self, namespace: NamespaceName, listener: Notify) -> StopListening:
        """Notify a listener after every creation or deletion of a persistent topic."""


def _unsubscribed() -> None:
    pass


def _never(namespace: NamespaceName, listener: Notify) -> StopListening:
    del namespace, listener
    return _unsubscribed


class Transactions(Protocol):
    """The transaction coordinators of this broker."""

    @property
    def enabled(self) -> bool:
        """Whether transactions are enabled."""

    @property
    def open_max(self) -> int:
        """How many transactions of a coordinator may be open; 0 means unlimited."""

    def find(self, number: int) -> Coordinator:
        """A coordinator open here; raises `BrokerError` TransactionCoordinatorNotFound."""

    async def connect(self, number: int) -> Coordinator:
        """Open a coordinator that this broker owns; raises `BrokerError` if it does not own it."""


class NoTransactions:
    """Stands in for the coordinators if ``transactionCoordinatorEnabled`` is false."""

    enabled = False
    open_max = 0

    def find(self, number: int) -> Coordinator:
        """Always raises `BrokerError`."""
        raise not_here(number)

    async def connect(self, number: int) -> Coordinator:
        """Always raises `BrokerError`."""
        raise not_here(number)

    async def end(self, request: EndOnParticipant) -> None:
        """Does nothing, as a topic that does not know the transaction."""


NO_TRANSACTIONS = NoTransactions()


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of the broker that its connections use."""

    topics: TopicRegistry
    namespaces: NamespaceService
    catalog: TopicCatalog
    schemas: Schemas
    on_topics_changed: OnTopicsChanged = _never
    security: Security = OPEN_TO_ALL
    """Authentication and authorization of clients."""
    transactions: Transactions = NO_TRANSACTIONS
    participants: ParticipantOwner = NO_TRANSACTIONS
    """Ends transactions on the topics of this broker for the coordinators of all brokers."""
    system_topics: SystemTopicGuard | None = None
    """Decides which clients may write to the brokers' own topics; None: all may."""


@dataclass(frozen=True, slots=True)
class ConnectionConfig:
    """The limits of a connection, under Pulsar's own names."""

    max_message_size: int = option(DEFAULT_MAX_MESSAGE_SIZE, "maxMessageSize", "bytes", low=1)
    """The largest message a client may send; frames may be 10 KiB larger."""
    keep_alive_interval_s: float = option(30, "keepAliveIntervalSeconds", "s")
    """How often a client is pinged; silent until the next ping, it is disconnected."""
    max_pending_publish_requests: int = option(
        1000, "maxPendingPublishRequestsPerConnection", "messages", low=1
    )
    """Messages of one connection that may wait to be stored; beyond it nothing more is read until
    half are stored."""
    connections_max: int = option(0, "brokerMaxConnections", "connections", low=0)
    """How many clients may be connected at once; 0: no limit."""
    connections_max_per_ip: int = option(0, "brokerMaxConnectionsPerIp", "connections", low=0)
    """How many clients may be connected from one address; 0: no limit."""
    lookups_max: int = option(50_000, "maxConcurrentLookupRequest", "requests", low=1)
    """Lookups that may be in progress; further ones are refused, and clients try again."""
    publish_buffer_mb: int = option(
        64, "maxMessagePublishBufferSizeInMB", "MiB", low=-1, dynamic=True
    )
    """Messages, in MiB, that may wait for storage; beyond it connections that publish are not read;
    -1: no limit."""
    held_entries_max: int = option(
        50_000, "maxThrottledPublishRequestsPerConnection", "entries", low=1
    )
    """How many entries may wait for a publish rate limit before their connection is read no more;
    until then it is read, so that its other producers lose nothing."""
    held_bytes_max: int = option(
        16 * 1024 * 1024, "maxThrottledPublishBytesPerConnection", "bytes", low=1
    )
    """How many bytes may wait for a publish rate limit before their connection is read no more."""
    refresh_check_s: float = 60.0
    """``authenticationRefreshCheckSeconds``."""
    authenticate_original: bool = False
    """``authenticateOriginalAuthData``."""
    pattern_evaluation: bool = option(True, "enableBrokerSideSubscriptionPatternEvaluation")
    """Whether a pattern subscription's topics are matched here, and may be watched."""
    pattern_length_max: int = option(50, "subscriptionPatternMaxLength", "characters", low=0)
    """A longer pattern is left to the client, since matching it costs this broker."""
