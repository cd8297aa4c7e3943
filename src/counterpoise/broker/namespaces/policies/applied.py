"""The policies that apply to a topic: its own, or else its namespace's.

Policies have the names of ``TopicPolicies``; `OF_NAMESPACE` maps them to the names in a namespace's
``Policies``. Source: ``HierarchyTopicPolicies`` of Pulsar 4.0.7.
"""

from collections.abc import Mapping
from typing import Any, Final

from counterpoise.broker.namespaces.policies.records import JsonObject

OF_NAMESPACE: Final[Mapping[str, str]] = {
    "publishRate": "publishMaxMessageRate",
    "dispatchRate": "topicDispatchRate",
    "subscriptionDispatchRate": "subscriptionDispatchRate",
    "replicatorDispatchRate": "replicatorDispatchRate",
    "subscribeRate": "clusterSubscribeRate",
    "resourceGroupName": "resource_group_name",
    "messageTTLInSeconds": "message_ttl_in_seconds",
    "maxProducerPerTopic": "max_producers_per_topic",
    "maxConsumerPerTopic": "max_consumers_per_topic",
    "maxConsumersPerSubscription": "max_consumers_per_subscription",
    "maxUnackedMessagesOnConsumer": "max_unacked_messages_per_consumer",
    "maxUnackedMessagesOnSubscription": "max_unacked_messages_per_subscription",
    "maxSubscriptionsPerTopic": "max_subscriptions_per_topic",
    "retentionPolicies": "retention_policies",
    "persistence": "persistence",
    "inactiveTopicPolicies": "inactive_topic_policies",
    "delayedDeliveryPolicies": "delayed_delivery_policies",
    "deduplicationEnabled": "deduplicationEnabled",
    "deduplicationSnapshotIntervalSeconds": "deduplicationSnapshotIntervalSeconds",
    "compactionThreshold": "compaction_threshold",
    "schemaCompatibilityStrategy": "schema_compatibility_strategy",
    "subscriptionTypesEnabled": "subscription_types_enabled",
    "entryFilters": "entryFilters",
    "autoSubscriptionCreationOverride": "autoSubscriptionCreationOverride",
    "dispatcherPauseOnAckStatePersistentEnabled": "dispatcherPauseOnAckStatePersistentEnabled",
    "schemaValidationEnforced": "schema_validation_enforced",
    "replicationClusters": "replication_clusters",
    "backLogQuotaMap": "backlog_quota_map",
    "offloadPolicies": "offload_policies",
}
PER_CLUSTER: Final = frozenset(
    {
        "publishMaxMessageRate",
        "topicDispatchRate",
        "subscriptionDispatchRate",
        "replicatorDispatchRate",
        "clusterSubscribeRate",
    }
)
"""Policies of namespaces that are kept as a map from cluster to value."""
GLOBAL: Final = "global"
"""Where a topic's node has its global policies; its local ones of the same name override them."""


def applied_policies(
    own: Mapping[str, Any] | None, shared: Mapping[str, Any] | None, cluster: str
) -> JsonObject:
    """The policies in force for a topic, by their names in ``TopicPolicies`` or else ``Policies``.

    ``own``: its ``TopicPolicies``; ``shared``: the ``Policies`` of its namespace. An empty list, as
    of ``subscriptionTypesEnabled``, counts as not set.
    """
    found = dict(shared or {})
    for name, of_namespace in OF_NAMESPACE.items():
        value = found.get(of_namespace)
        if of_namespace in PER_CLUSTER:
            value = value.get(cluster) if isinstance(value, Mapping) else None
        found[name] = value
    quotas = dict(found["backLogQuotaMap"] or {})
    for level in ((own or {}).get(GLOBAL) or {}, own or {}):
        quotas |= level.get("backLogQuotaMap") or {}
        found |= {name: it for name, it in level.items() if it is not None and it != []}
    return {**found, "backLogQuotaMap": quotas}
