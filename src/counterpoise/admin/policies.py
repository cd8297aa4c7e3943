"""The policies of namespaces and topics that are one JSON value each, as a table."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from counterpoise.admin.access import SUPER_USER, TENANT_ADMIN, AccessRule
from counterpoise.admin.shapes import (
    FLAG,
    INT64,
    NUMBER,
    Json,
    Schema,
    Shape,
    defaulting,
    list_of,
    map_of,
    nullable,
    object_of,
    text,
    whole,
)
from counterpoise.broker.face import OF_NAMESPACE, PARTITIONS_MAX, PER_CLUSTER, STRATEGIES

_OFF = defaulting(FLAG, False)
_INT, _LONG = defaulting(whole(), 0), defaulting(whole(INT64), 0)
PUBLISH_RATE = object_of(
    {
        "publishThrottlingRateInMsg": defaulting(whole(), -1),
        "publishThrottlingRateInByte": defaulting(whole(INT64), -1),
    }
)
DISPATCH_RATE = object_of(
    {
        "dispatchThrottlingRateInMsg": _INT,
        "dispatchThrottlingRateInByte": _LONG,
        "relativeToPublishRate": _OFF,
        "ratePeriodInSecond": _INT,
    }
)
SUBSCRIBE_RATE = object_of(
    {
        "subscribeThrottlingRatePerConsumer": defaulting(whole(), -1),
        "ratePeriodInSecond": defaulting(whole(), 30),
    }
)
RETENTION = object_of({"retentionTimeInMinutes": _INT, "retentionSizeInMB": _LONG})
LIMIT: Schema = {"type": ["integer", "string", "null"], "pattern": "^-?[0-9]{1,18}$"}
"""The shape of a numeric policy: a number, which Pulsar accepts as a JSON string, too."""
BACKLOG_QUOTA = object_of(
    {
        "limit": LIMIT,
        "limitSize": LIMIT,
        "limitTime": defaulting(LIMIT, 0),
        "policy": text("producer_request_hold", "producer_exception", "consumer_backlog_eviction"),
    }
)
QUORUM_MAX = 5
"""The largest ensemble and quorums that a policy may set (``managedLedgerMaxEnsembleSize`` and its
likes)."""
PERSISTENCE = object_of(
    {
        "bookkeeperEnsemble": _INT,
        "bookkeeperWriteQuorum": _INT,
        "bookkeeperAckQuorum": _INT,
        "managedLedgerMaxMarkDeleteRate": defaulting(NUMBER, 0.0),
        "managedLedgerStorageClassName": text(),
    }
)
DELAYED_DELIVERY = object_of(
    {"active": _OFF, "tickTime": defaulting(NUMBER, 0), "maxDeliveryDelayInMillis": _LONG}
)
INACTIVE_TOPICS = object_of(
    {
        "inactiveTopicDeleteMode": text(
            "delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"
        ),
        "maxInactiveDurationSeconds": _INT,
        "deleteWhileInactive": _OFF,
    }
)
AUTO_TOPIC_CREATION = object_of(
    {"allowAutoTopicCreation": _OFF, "topicType": text(), "defaultNumPartitions": whole()}
)
AUTO_SUBSCRIPTION_CREATION = object_of({"allowAutoSubscriptionCreation": _OFF})
COMPATIBILITY = text(*STRATEGIES)
OFFLOAD: Schema = {"type": "object"}
"""The shape of ``OffloadPoliciesImpl``: stored as it is, because these brokers never offload."""
SUBSCRIPTION_TYPES = list_of(text("Exclusive", "Shared", "Failover", "Key_Shared"))
ENTRY_FILTERS = object_of({"entryFilterNames": text()})
BUNDLES = object_of({"boundaries": list_of(text()), "numBundles": whole()})


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy of namespaces or topics: its path, its name in the stored JSON, its shape."""

    path: str
    name: str
    shape: Schema
    method: str = "POST"
    """The HTTP method that sets it; empty if a separate route does."""
    unset: Json = None
    """The response if the policy was never set; None: an empty body."""
    null: Json = None
    """The value that a body of ``null`` sets, where Pulsar reads null as an ``int`` of Java's.

    None: such a body removes the policy."""
    member: str = ""
    """The member of the stored policy that this path reads and sets; empty: the whole policy."""
    low: int | None = None
    """The least value that is accepted, for numbers."""
    refusal: str | None = None
    """Pulsar's message when a smaller value is refused; None: a message that names ``low``."""
    applied: bool = False
    """Whether ``applied=true`` asks for the value in force not only of topics but also of
    namespaces."""
    value_by_path: Json = None
    """The value that a request sets by its path alone; None: the request has the value."""
    by_query: str | None = None
    """The query parameter that has the value; None: the body has it."""
    reads: AccessRule | None = None
    """The right that reading it requires; None: the right that most policies require."""
    writes: AccessRule | None = None
    """The right that setting and removing it requires; None: the right that most policies
    require."""

    @property
    def is_read(self) -> bool:
        """Whether anything here acts on it; ``docs/UNREAD.md`` lists the policies that nothing
        reads.
        """
        return OF_NAMESPACE.get(self.name, self.name) in READ_POLICIES


def _count(path: str, name: str, method: str = "POST", unset: Json = None) -> Policy:
    return Policy(path, name, whole(), method, unset, null=0, low=0)


def _offload(path: str, member: str) -> Policy:
    shape = whole(INT64)
    return Policy(path, "offload_policies", shape, "PUT", -1, null=0, member=member)


POLICIES: tuple[Policy, ...] = (
    _count("messageTTL", "message_ttl_in_seconds"),
    _count("subscriptionExpirationTime", "subscription_expiration_time_minutes"),
    Policy("deduplication", "deduplicationEnabled", FLAG, null=False),
    replace(
        _count("deduplicationSnapshotInterval", "deduplicationSnapshotIntervalSeconds"),
        null=None,
        refusal="interval must be greater than or equal to 0",
    ),
    Policy("autoTopicCreation", "autoTopicCreationOverride", AUTO_TOPIC_CREATION),
    Policy(
        "autoSubscriptionCreation", "autoSubscriptionCreationOverride", AUTO_SUBSCRIPTION_CREATION
    ),
    Policy("publishRate", "publishMaxMessageRate", PUBLISH_RATE),
    Policy("dispatchRate", "topicDispatchRate", DISPATCH_RATE),
    Policy("subscriptionDispatchRate", "subscriptionDispatchRate", DISPATCH_RATE),
    Policy("replicatorDispatchRate", "replicatorDispatchRate", DISPATCH_RATE),
    Policy("subscribeRate", "clusterSubscribeRate", SUBSCRIBE_RATE),
    Policy("retention", "retention_policies", RETENTION),
    Policy("persistence", "persistence", PERSISTENCE),
    Policy("subscriptionAuthMode", "subscription_auth_mode", text("None", "Prefix"), unset="None"),
    Policy("encryptionRequired", "encryption_required", FLAG, unset=False, null=False),
    Policy("delayedDelivery", "delayed_delivery_policies", DELAYED_DELIVERY, writes=SUPER_USER),
    Policy("inactiveTopicPolicies", "inactive_topic_policies", INACTIVE_TOPICS),
    _count("maxProducersPerTopic", "max_producers_per_topic"),
    _count("maxConsumersPerTopic", "max_consumers_per_topic"),
    _count("maxConsumersPerSubscription", "max_consumers_per_subscription"),
    _count("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer"),
    _count("maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription"),
    _count("maxSubscriptionsPerTopic", "max_subscriptions_per_topic"),
    _count("maxTopicsPerNamespace", "max_topics_per_namespace", unset=0),
    Policy("compactionThreshold", "compaction_threshold", whole(INT64), "PUT", null=0, low=0),
    _offload("offloadThreshold", "managedLedgerOffloadThresholdInBytes"),
    _offload("offloadThresholdInSeconds", "managedLedgerOffloadThresholdInSeconds"),
    Policy("offloadDeletionLagMs", "offload_deletion_lag_ms", whole(INT64), "PUT"),
    Policy("offloadPolicies", "offload_policies", OFFLOAD),
    Policy("schemaCompatibilityStrategy", "schema_compatibility_strategy", COMPATIBILITY, "PUT"),
    Policy(
        "schemaAutoUpdateCompatibilityStrategy",
        "schema_auto_update_compatibility_strategy",
        text(
            "AutoUpdateDisabled",
            "Backward",
            "Forward",
            "Full",
            "AlwaysCompatible",
            "BackwardTransitive",
            "ForwardTransitive",
            "FullTransitive",
        ),
        "PUT",
    ),
    Policy("isAllowAutoUpdateSchema", "is_allow_auto_update_schema", FLAG, unset=True, null=False),
    Policy(
        "schemaValidationEnforced",
        "schema_validation_enforced",
        FLAG,
        unset=False,
        null=False,
        applied=True,
    ),
    Policy("subscriptionTypesEnabled", "subscription_types_enabled", SUBSCRIPTION_TYPES, unset=[]),
    Policy("replication", "replication_clusters", list_of(text()), unset=[], null=[]),
    Policy("allowedClusters", "allowed_clusters", list_of(text()), unset=[]),
    Policy(
        "properties",
        "properties",
        map_of(text()),
        method="",
        unset={},
        reads=TENANT_ADMIN,
        writes=TENANT_ADMIN,
    ),
    Policy("entryFilters", "entryFilters", ENTRY_FILTERS),
    Policy(
        "dispatcherPauseOnAckStatePersistent",
        "dispatcherPauseOnAckStatePersistentEnabled",
        FLAG,
        value_by_path=True,
        unset=False,
    ),
)
"""The policies of namespaces that consist of a single value."""

_UNACKED = {"null": None, "refusal": "maxUnackedNum must be 0 or more"}
_ON_TOPICS: Mapping[str, Mapping[str, Any]] = {
    "maxProducersPerTopic": {"path": "maxProducers"},
    "maxConsumersPerTopic": {"path": "maxConsumers"},
    "maxConsumersPerSubscription": {"refusal": "Invalid value for maxConsumersPerSubscription"},
    "maxUnackedMessagesPerConsumer": {"path": "maxUnackedMessagesOnConsumer", **_UNACKED},
    "maxUnackedMessagesPerSubscription": {"path": "maxUnackedMessagesOnSubscription", **_UNACKED},
    "deduplication": {"path": "deduplicationEnabled", "null": None},
    "deduplicationSnapshotInterval": {"refusal": "interval must be 0 or more"},
    "messageTTL": {"by_query": "messageTTL", "null": None},
    "compactionThreshold": {"method": "POST", "refusal": "Invalid value for compactionThreshold"},
    "delayedDelivery": {"writes": None},
    "replication": {"unset": None},
    "dispatcherPauseOnAckStatePersistent": {"unset": None},
}
"""By path of a namespace's policy: the fields that differ in the topic policy of that name."""
_NAME_ON_TOPICS = {of_namespace: name for name, of_namespace in OF_NAMESPACE.items()}

MESSAGE_SIZE_REFUSED = (
    "topic-level maxMessageSize must be greater than or equal to 0 and must be smaller than that "
    "in the broker-level"
)
TOPIC_POLICIES: tuple[Policy, ...] = (
    *(
        replace(each, name=_NAME_ON_TOPICS[each.name], **_ON_TOPICS.get(each.path, {}))
        for each in POLICIES
        if each.name in _NAME_ON_TOPICS and not each.member
    ),
    replace(
        _count("maxMessageSize", "maxMessageSize"),
        refusal=MESSAGE_SIZE_REFUSED,
        reads=TENANT_ADMIN,
        writes=TENANT_ADMIN,
    ),
)
"""The policies of topics that consist of a single value."""

READ_POLICIES = frozenset(
    """
    autoSubscriptionCreationOverride autoTopicCreationOverride backlog_quota_map
    clusterSubscribeRate compaction_threshold inactive_topic_policies retention_policies
    subscription_expiration_time_minutes deduplicationEnabled
    deduplicationSnapshotIntervalSeconds delayed_delivery_policies encryption_required
    maxMessageSize max_consumers_per_subscription max_consumers_per_topic
    max_producers_per_topic max_subscriptions_per_topic max_topics_per_namespace
    max_unacked_messages_per_consumer max_unacked_messages_per_subscription
    message_ttl_in_seconds persistence properties publishMaxMessageRate replication_clusters
    is_allow_auto_update_schema resource_group_name schema_auto_update_compatibility_strategy
    schema_compatibility_strategy schema_validation_enforced subscriptionDispatchRate
    subscription_auth_mode subscription_types_enabled topicDispatchRate
    """.split()
)
"""The names of policies that have an effect on these brokers, or are comments for people; others
are stored only."""


def why_refused(name: str, value: Json) -> str | None:
    """Pulsar's reason for refusing a value of the right shape; None if the value is allowed."""
    match name, value:
        case ("retention_policies" | "retentionPolicies", dict()):
            minutes = value.get("retentionTimeInMinutes", 0)
            megabytes = value.get("retentionSizeInMB", 0)
            for limit, what in ((megabytes, "size"), (minutes, "time")):
                if limit < -1:
                    return f"Invalid retention policy: {what} limit must be >= -1"
            if (minutes == 0) != (megabytes == 0):
                return (
                    "Invalid retention policy: Setting a single time or size limit to 0 is invalid "
                    "when one of the limits has a non-zero value. Use the value of -1 instead of 0 "
                    "to ignore a specific limit. To disable retention both limits must be set to 0."
                )
        case ("entryFilters", dict()):
            for each in str(value.get("entryFilterNames") or "").split(","):
                if each.strip():
                    return f"Entry filter '{each}' not found"
        case ("message_ttl_in_seconds", int()) if value < 0:
            return "Invalid value for message TTL, message TTL must >= 0"
        case ("messageTTLInSeconds", int()) if value < 0:
            return "Invalid value for message TTL"
        case ("subscription_expiration_time_minutes", int()) if value < 0:
            return "Invalid value for subscription expiration time"
        case ("autoTopicCreationOverride", dict()) if value.get("allowAutoTopicCreation"):
            return _why_not_created(value.get("topicType"), value.get("defaultNumPartitions"))
        case ("persistence", dict()):
            return _why_not_kept(value)
    return None


def _why_not_created(kind: Json, partitions: Json) -> str | None:
    why = None
    if kind not in ("partitioned", "non-partitioned"):
        why = f"Unknown topic type [{'null' if kind is None else kind}]"
    elif kind == "non-partitioned" and partitions is not None:
        why = "[defaultNumPartitions] is not allowed to be set when the type is non-partition."
    elif kind == "partitioned" and partitions is None:
        why = "[defaultNumPartitions] cannot be null when the type is partitioned."
    elif kind == "partitioned" and partitions < 1:
        why = "[defaultNumPartitions] cannot be less than 1 for partition type."
    elif kind == "partitioned" and partitions > PARTITIONS_MAX:
        why = f"Number of partitions should be less than or equal to {PARTITIONS_MAX}"
    if why is None:
        return None
    return f"Invalid configuration for autoTopicCreationOverride. the detail is {why}"


def _why_not_kept(quorums: Mapping[str, Json]) -> str | None:
    names = ("Ensemble", "WriteQuorum", "AckQuorum")
    ensemble, write, ack = counts = [int(quorums.get(f"bookkeeper{it}") or 0) for it in names]
    for name, count in zip(names, counts, strict=True):
        if not 0 < count <= QUORUM_MAX:
            return f"Bookkeeper-{name} must be <= {QUORUM_MAX} and > 0."
    if not ensemble >= write >= ack:
        return f"Bookkeeper Ensemble ({ensemble}) >= WriteQuorum ({write}) >= AckQuorum ({ack})"
    return None


NEW_POLICIES: Mapping[str, Json] = {
    "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
    "replication_clusters": [],
    "allowed_clusters": [],
    "backlog_quota_map": {},
    "clusterDispatchRate": {},
    "topicDispatchRate": {},
    "subscriptionDispatchRate": {},
    "replicatorDispatchRate": {},
    "clusterSubscribeRate": {},
    "publishMaxMessageRate": {},
    "latency_stats_sample_rate": {},
    "deleted": False,
    "encryption_required": False,
    "subscription_auth_mode": "None",
    "offload_threshold": -1,
    "offload_threshold_in_seconds": -1,
    "schema_compatibility_strategy": "UNDEFINED",
    "is_allow_auto_update_schema": True,
    "schema_validation_enforced": False,
    "subscription_types_enabled": [],
    "properties": {},
    "migrated": False,
}
"""What Pulsar 4.0's ``Policies`` writes for a new namespace."""

ALL_POLICIES = Shape(
    nullable(
        object_of(
            {
                "bundles": BUNDLES,
                "backlog_quota_map": map_of(BACKLOG_QUOTA),
                "resource_group_name": text(),
                "auth_policies": object_of(
                    {
                        "namespace_auth": map_of(list_of(text())),
                        "destination_auth": map_of(map_of(list_of(text()))),
                        "subscription_auth_roles": map_of(list_of(text())),
                    }
                ),
                **{
                    each.name: map_of(each.shape) if each.name in PER_CLUSTER else each.shape
                    for each in POLICIES
                },
            }
        )
    )
)
"""The shape of the body that creates a namespace: any of its policies, and its bundles."""
