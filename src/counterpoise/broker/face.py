"""The interface of a broker for administration: all that `admin/` uses of `broker/`.

`BrokerFace` is what the REST API calls; the other names are the values that it takes and
returns.
"""

from typing import Protocol

from counterpoise.broker.base.addresses import Addresses
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.by_turns import WorkBudget, in_pieces
from counterpoise.broker.base.cluster_key import SystemTopicGuard
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.lookup_result import LookupRedirect, for_listener
from counterpoise.broker.bundles.service import NamespaceService
from counterpoise.broker.bundles.shedding import LeaderShedding
from counterpoise.broker.bundles.tally import BundleTally
from counterpoise.broker.config import BrokerConfig
from counterpoise.broker.connection.client_listener import ClientListener
from counterpoise.broker.connection.pause import PauseReason
from counterpoise.broker.limits.snapshot import LimitSnapshot
from counterpoise.broker.live import LiveSettings
from counterpoise.broker.load.load_data import LoadDataExchange
from counterpoise.broker.namespaces.auto_creation import PARTITIONS_MAX
from counterpoise.broker.namespaces.catalog import DOMAINS_OF_MODE, TopicCatalog
from counterpoise.broker.namespaces.policies import Policies, bundles_json
from counterpoise.broker.namespaces.policies.applied import GLOBAL, OF_NAMESPACE, PER_CLUSTER
from counterpoise.broker.namespaces.policies.records import JsonObject, TooLarge
from counterpoise.broker.peers.unloads import ORDERED_BY_LEADER
from counterpoise.broker.schemas.compatibility import find_version, why_invalid, why_refused
from counterpoise.broker.schemas.key_value import SCHEMA_TYPES
from counterpoise.broker.schemas.registry import SchemaRegistry
from counterpoise.broker.schemas.rules import STRATEGIES
from counterpoise.broker.server_sockets import ServerSocket
from counterpoise.broker.topic import InitialPosition, SubscriptionType
from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.broker.topic.lookback import earliest_in_backlog, first_published_at, survey
from counterpoise.broker.topic.persistent import PersistentTopic
from counterpoise.broker.topic.ports import EARLIEST
from counterpoise.broker.topic.producer import Producer
from counterpoise.broker.topic.stored_message import (
    StoredMessage,
    batch_from,
    last_message_id,
    stored_message,
)
from counterpoise.broker.topic.subscription import Subscription
from counterpoise.broker.topic.topic import Topic
from counterpoise.broker.topic.topic_compaction import COMPACTION
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.broker.topic.upkeep import TopicUpkeep
from counterpoise.broker.transactions.buffer import Marker
from counterpoise.broker.transactions.coordinator import Coordinator
from counterpoise.broker.transactions.coordinator_figures import LATENCIES_MS
from counterpoise.broker.transactions.coordinators import Coordinators
from counterpoise.broker.transactions.pending_acks import WHOLE as WHOLE_ENTRY
from counterpoise.broker.transactions.table import CoordinatedTransaction
from counterpoise.load.report import LocalBrokerData
from counterpoise.metadata import BadVersion, MetadataError, NotEmpty, NotFound, StoreUnavailable
from counterpoise.ownership.records import LeaderBroker
from counterpoise.quota import LimitLevel, RateLimiter
from counterpoise.security.client import ClientSecurity
from counterpoise.security.gate import Security
from counterpoise.storage.grouplog import Log
from counterpoise.wire.values import Schema, TransactionId

__all__ = [
    "COMPACTION",
    "DOMAINS_OF_MODE",
    "EARLIEST",
    "GLOBAL",
    "LATENCIES_MS",
    "OF_NAMESPACE",
    "ORDERED_BY_LEADER",
    "PARTITIONS_MAX",
    "PER_CLUSTER",
    "SCHEMA_TYPES",
    "STRATEGIES",
    "WHOLE_ENTRY",
    "BackgroundTasks",
    "BadVersion",
    "BrokerConfig",
    "BrokerError",
    "BrokerFace",
    "CoordinatedTransaction",
    "Coordinator",
    "InitialPosition",
    "JsonObject",
    "LimitLevel",
    "LimitSnapshot",
    "LocalBrokerData",
    "Log",
    "LookupRedirect",
    "Marker",
    "MetadataError",
    "NotEmpty",
    "NotFound",
    "PauseReason",
    "PersistentTopic",
    "Policies",
    "Producer",
    "RateLimiter",
    "Recipient",
    "Schema",
    "ServerSocket",
    "StoreUnavailable",
    "StoredMessage",
    "Subscription",
    "SubscriptionType",
    "TooLarge",
    "Topic",
    "TransactionId",
    "WorkBudget",
    "batch_from",
    "bundles_json",
    "earliest_in_backlog",
    "find_version",
    "first_published_at",
    "for_listener",
    "in_pieces",
    "last_message_id",
    "stored_message",
    "survey",
    "why_invalid",
    "why_refused",
]


class BrokerFace(Protocol):
    """What the admin API uses of a broker."""

    id: str
    """The broker's id, ``host:webPort``."""
    addresses: Addresses
    """The addresses at which clients and other brokers reach it."""
    security: Security
    """Checks who a caller is, and what it may do."""
    system_topics: SystemTopicGuard
    """Decides which callers may write to the brokers' system topics."""
    as_client: ClientSecurity
    """The credentials and TLS of this broker as a client of the others."""
    policies: Policies
    """Clusters, tenants, namespaces and topics as the metadata store has them."""
    namespaces: NamespaceService
    """Bundles: their owners, lookups, unloads and splits."""
    catalog: TopicCatalog
    """Finds, creates and deletes topics in the metadata store."""
    topics: TopicRegistry
    """The topics that this broker serves now."""
    upkeep: TopicUpkeep
    """The periodic work on topics, such as expiring messages."""
    schemas: SchemaRegistry
    """Stores and compares the schemas of topics."""
    transactions: Coordinators
    """The transaction coordinators that this broker runs."""
    listener: ClientListener
    """The connections of its clients."""
    shedding: LeaderShedding
    """The shedding that this broker does while it leads, with its last rounds."""
    load_data: LoadDataExchange | None
    """The load data that brokers publish under the extensible load manager; None otherwise."""

    def request_stop(self, unloads_per_s: int = 0) -> None:
        """Make the process that runs this broker stop it.

        ``unloads_per_s``: how many bundles it hands over per second before it stops; 0: all at
        once.
        """

    @property
    def tally(self) -> BundleTally:
        """Counts of what happened to bundles on this broker."""

    @property
    def background(self) -> BackgroundTasks:
        """The broker's background tasks."""

    @property
    def config(self) -> BrokerConfig:
        """The settings in use, with changes to dynamic ones."""

    @property
    def live(self) -> LiveSettings:
        """The settings, which follow the dynamic configuration."""

    @property
    def is_ready(self) -> bool:
        """Whether the broker accepts clients: it runs, and its metadata session is alive."""

    @property
    def is_leader(self) -> bool:
        """Whether the broker leads the cluster."""

    async def ask_leader(self) -> LeaderBroker | None:
        """Read the leader from the metadata store."""

    def leader(self) -> LeaderBroker | None:
        """The cluster's leader by the last notification; None if there is none."""

    async def active_brokers(self) -> list[str]:
        """The ids of live brokers, sorted."""

    async def report_of(self, broker_id: str) -> LocalBrokerData | None:
        """The last report of a broker, with its addresses; None if it has left."""

    def load_report(self) -> LocalBrokerData:
        """The broker's load by its last measurement."""

    def limits(self) -> list[LimitSnapshot]:
        """The state of every rate limit, with the producers and subscriptions that wait for it."""
