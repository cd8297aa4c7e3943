"""The parts of the broker that a connection uses, and its settings."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from counterpoise.broker.base.cluster_key import SystemTopicGuard
from counterpoise.broker.bundles.service import NamespaceService
from counterpoise.broker.namespaces.catalog import TopicCatalog
from counterpoise.broker.schemas.registry import SchemaRegistry
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.broker.transactions.coordinators import Coordinators
from counterpoise.broker.transactions.ports import ParticipantOwner
from counterpoise.names.options import option
from counterpoise.security.gate import Security
from counterpoise.wire.constants import DEFAULT_MAX_MESSAGE_SIZE

Handler = Callable[[Any, Any], None]
"""Serves one event: a function of the connection and the event."""


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of the broker that its connections use."""

    topics: TopicRegistry
    namespaces: NamespaceService
    catalog: TopicCatalog
    schemas: SchemaRegistry
    security: Security
    """Authentication and authorization of clients."""
    transactions: Coordinators
    participants: ParticipantOwner
    """Ends transactions on the topics of this broker for the coordinators of all brokers."""
    system_topics: SystemTopicGuard | None = None
    """Decides which clients may write to the brokers' own topics; None: all may."""


@dataclass(frozen=True, slots=True)
class ConnectionConfig:
    """The limits of a connection, under Pulsar's own names."""

    max_message_size: int = option(DEFAULT_MAX_MESSAGE_SIZE, "maxMessageSize", "bytes", low=1)
    """The largest message a client may send; frames may be 10 KiB larger."""
    keep_alive_interval_s: float = option(30, "keepAliveIntervalSeconds", "s")
    """How often a client is pinged; one that sends nothing until the next ping is disconnected."""
    max_pending_publish_requests: int = option(
        1000, "maxPendingPublishRequestsPerConnection", "messages", low=1
    )
    """Messages of one connection that may wait to be stored; beyond it nothing more is read until
    half are stored."""
    connections_max: int = option(0, "brokerMaxConnections", "connections", low=0)
    """How many clients may be connected at once; 0: no limit."""
    connections_max_per_ip: int = option(0, "brokerMaxConnectionsPerIp", "connections", low=0)
    """How many clients may be connected from one address; 0: no limit."""
    lookups_max: int = option(50_000, "maxConcurrentLookupRequest", "requests", low=1, dynamic=True)
    """Lookups that may be in progress; further ones are refused, and clients try again."""
    publish_buffer_mb: int = option(
        64, "maxMessagePublishBufferSizeInMB", "MiB", low=-1, dynamic=True
    )
    """Messages, in MiB, that may wait for storage; beyond it connections that publish are not read;
    -1: no limit."""
    throttled_entries_max: int = option(
        50_000, "maxThrottledPublishRequestsPerConnection", "entries", low=1
    )
    """How many entries may wait for a publish rate limit before their connection is read no more;
    until then it is read, so that its other producers lose nothing."""
    throttled_bytes_max: int = option(
        16 * 1024 * 1024, "maxThrottledPublishBytesPerConnection", "bytes", low=1
    )
    """How many bytes may wait for a publish rate limit before their connection is read no more."""
    refresh_check_s: float = 60.0
    """How often credentials are checked for expiry (``authenticationRefreshCheckSeconds``)."""
    authenticate_original: bool = False
    """Whether credentials of clients that a proxy forwards are verified
    (``authenticateOriginalAuthData``)."""
    pattern_evaluation: bool = option(True, "enableBrokerSideSubscriptionPatternEvaluation")
    """Whether the broker matches a pattern subscription's topics, and clients may watch them."""
    pattern_length_max: int = option(50, "subscriptionPatternMaxLength", "characters", low=0)
    """A longer pattern is left to the client, since matching it costs this broker."""
