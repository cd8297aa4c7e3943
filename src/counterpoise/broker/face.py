"""The interface of a broker for administration: all that `admin/` uses of `broker/`.

The REST API calls a `Broker`; the other names are the values that it takes and returns.
"""

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.by_turns import WorkBudget, in_pieces
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.broker import Broker
from counterpoise.broker.bundles.lookup_result import LookupRedirect, for_listener
from counterpoise.broker.config import BrokerConfig
from counterpoise.broker.connection.pause import PauseReason
from counterpoise.broker.limits.snapshot import LimitSnapshot
from counterpoise.broker.namespaces.auto_creation import PARTITIONS_MAX
from counterpoise.broker.namespaces.catalog import DOMAINS_OF_MODE
from counterpoise.broker.namespaces.policies import Policies, bundles_json
from counterpoise.broker.namespaces.policies.applied import GLOBAL, OF_NAMESPACE, PER_CLUSTER
from counterpoise.broker.namespaces.policies.records import JsonObject, TooLarge
from counterpoise.broker.peers.unloads import ORDERED_BY_LEADER
from counterpoise.broker.schemas.compatibility import find_version, why_invalid, why_refused
from counterpoise.broker.schemas.key_value import SCHEMA_TYPES
from counterpoise.broker.schemas.rules import STRATEGIES
from counterpoise.broker.server_sockets import ServerSocket
from counterpoise.broker.topic import InitialPosition, SubscriptionType
from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.broker.topic.lookback import earliest_in_backlog, first_published_at, survey
from counterpoise.broker.topic.persistent import PersistentTopic
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
from counterpoise.broker.transactions.buffer import Marker
from counterpoise.broker.transactions.coordinator import Coordinator
from counterpoise.broker.transactions.coordinator_figures import LATENCIES_MS
from counterpoise.broker.transactions.pending_acks import WHOLE as WHOLE_ENTRY
from counterpoise.broker.transactions.table import CoordinatedTransaction
from counterpoise.load.report import LocalBrokerData
from counterpoise.metadata import BadVersion, MetadataError, NotEmpty, NotFound, StoreUnavailable
from counterpoise.quota import LimitLevel, RateLimiter
from counterpoise.storage.grouplog import Log
from counterpoise.wire.values import Schema, TransactionId

__all__ = [
    "COMPACTION",
    "DOMAINS_OF_MODE",
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
    "Broker",
    "BrokerConfig",
    "BrokerError",
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
