"""The policies of one topic that are one value each: a table of paths and names.

``/admin/v2/persistent/{tenant}/{namespace}/{topic}/…`` reads, sets or removes one member of
``TopicPolicies``; ``applied=true`` answers what holds, the namespace's policy included.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from aiohttp import web

from counterpoise.admin import policies as shapes_of
from counterpoise.admin import route
from counterpoise.admin.applied import applied_by_broker
from counterpoise.admin.errors import not_found, precondition_failed
from counterpoise.admin.parameters import whole_number
from counterpoise.admin.request import answer, broker_of, flag, no_content, nothing, topic_of
from counterpoise.admin.rest.namespaces import require_namespace
from counterpoise.admin.rest.topics import TOPIC
from counterpoise.admin.route import Handler, body_of
from counterpoise.admin.shapes import FLAG, INT64, Json, Schema, Shape, list_of, nullable, text
from counterpoise.admin.shapes import whole as number
from counterpoise.names.topic import TopicName

log = logging.getLogger(__name__)

READ_POLICIES = frozenset(
    {"publishRate", "dispatchRate", "subscriptionDispatchRate", "subscribeRate"}
)
"""Names of those that brokers act upon; ``docs/UNREAD.md`` names the rest."""
QUERY = {"applied": FLAG, "isGlobal": FLAG, **route.AUTHORITATIVE}


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """One member: its path, its JSON name, what it may be, and its namespace's counterpart."""

    path: str
    name: str
    shape: Schema
    of_namespace: str
    method: str = "POST"
    low: int | None = None
    by_query: str | None = None
    """The value stands in this query parameter instead of the body."""
    unset: Json = None
    """What a topic that never set it answers; None is an empty body."""
    value_by_path: Json = None
    """The value that a request without a body sets."""


POLICIES: tuple[TopicPolicy, ...] = (
    TopicPolicy("publishRate", "publishRate", shapes_of.PUBLISH_RATE, "publishMaxMessageRate"),
    TopicPolicy("dispatchRate", "dispatchRate", shapes_of.DISPATCH_RATE, "topicDispatchRate"),
    TopicPolicy(
        "subscriptionDispatchRate",
        "subscriptionDispatchRate",
        shapes_of.DISPATCH_RATE,
        "subscriptionDispatchRate",
    ),
    TopicPolicy(
        "replicatorDispatchRate",
        "replicatorDispatchRate",
        shapes_of.DISPATCH_RATE,
        "replicatorDispatchRate",
    ),
    TopicPolicy("subscribeRate", "subscribeRate", shapes_of.SUBSCRIBE_RATE, "clusterSubscribeRate"),
    TopicPolicy(
        "messageTTL",
        "messageTTLInSeconds",
        number(),
        "message_ttl_in_seconds",
        low=0,
        by_query="messageTTL",
    ),
    TopicPolicy("maxProducers", "maxProducerPerTopic", number(), "max_producers_per_topic", low=0),
    TopicPolicy("maxConsumers", "maxConsumerPerTopic", number(), "max_consumers_per_topic", low=0),
    TopicPolicy(
        "maxConsumersPerSubscription",
        "maxConsumersPerSubscription",
        number(),
        "max_consumers_per_subscription",
        low=0,
    ),
    TopicPolicy(
        "maxUnackedMessagesOnConsumer",
        "maxUnackedMessagesOnConsumer",
        number(),
        "max_unacked_messages_per_consumer",
        low=0,
    ),
    TopicPolicy(
        "maxUnackedMessagesOnSubscription",
        "maxUnackedMessagesOnSubscription",
        number(),
        "max_unacked_messages_per_subscription",
        low=0,
    ),
    TopicPolicy(
        "maxSubscriptionsPerTopic",
        "maxSubscriptionsPerTopic",
        number(),
        "max_subscriptions_per_topic",
        low=0,
    ),
    TopicPolicy("maxMessageSize", "maxMessageSize", number(), "", low=0),
    TopicPolicy("retention", "retentionPolicies", shapes_of.RETENTION, "retention_policies"),
    TopicPolicy("persistence", "persistence", shapes_of.PERSISTENCE, "persistence"),
    TopicPolicy(
        "inactiveTopicPolicies",
        "inactiveTopicPolicies",
        shapes_of.INACTIVE_TOPICS,
        "inactive_topic_policies",
    ),
    TopicPolicy(
        "delayedDelivery",
        "delayedDeliveryPolicies",
        shapes_of.DELAYED_DELIVERY,
        "delayed_delivery_policies",
    ),
    TopicPolicy("deduplicationEnabled", "deduplicationEnabled", FLAG, "deduplicationEnabled"),
    TopicPolicy(
        "deduplicationSnapshotInterval",
        "deduplicationSnapshotIntervalSeconds",
        number(),
        "deduplicationSnapshotIntervalSeconds",
        low=0,
    ),
    TopicPolicy(
        "compactionThreshold", "compactionThreshold", number(INT64), "compaction_threshold", low=0
    ),
    TopicPolicy(
        "schemaCompatibilityStrategy",
        "schemaCompatibilityStrategy",
        shapes_of.COMPATIBILITY,
        "schema_compatibility_strategy",
        method="PUT",
    ),
    TopicPolicy(
        "subscriptionTypesEnabled",
        "subscriptionTypesEnabled",
        shapes_of.SUBSCRIPTION_TYPES,
        "subscription_types_enabled",
        unset=[],
    ),
    TopicPolicy("entryFilters", "entryFilters", shapes_of.ENTRY_FILTERS, "entryFilters"),
    TopicPolicy(
        "autoSubscriptionCreation",
        "autoSubscriptionCreationOverride",
        shapes_of.AUTO_SUBSCRIPTION_CREATION,
        "autoSubscriptionCreationOverride",
    ),
    TopicPolicy(
        "dispatcherPauseOnAckStatePersistent",
        "dispatcherPauseOnAckStatePersistentEnabled",
        FLAG,
        "dispatcherPauseOnAckStatePersistentEnabled",
        value_by_path=True,
    ),
    TopicPolicy(
        "schemaValidationEnforced",
        "schemaValidationEnforced",
        FLAG,
        "schema_validation_enforced",
        unset=False,
    ),
    TopicPolicy("replication", "replicationClusters", list_of(text()), "replication_clusters"),
)


def routes() -> Iterable[route.Route]:
    """The paths of this resource."""
    for policy in POLICIES:
        path = f"{TOPIC}/{policy.path}"
        yield route.get(path, _reader(policy), QUERY)
        query = {**QUERY, **({policy.by_query: policy.shape} if policy.by_query else {})}
        bare = policy.by_query or policy.value_by_path is not None
        body = None if bare else Shape(nullable(policy.shape))
        yield route.Route(policy.method, path, _writer(policy), body, query)
        yield route.delete(path, _remover(policy), query=QUERY)
    yield route.delete(f"{TOPIC}/policies", delete_all)


async def delete_all(request: web.Request) -> web.Response:
    """Remove all policies of a topic."""
    await broker_of(request).policies.delete_topic_policies(await topic_with_policies(request))
    return no_content()


def _reader(policy: TopicPolicy) -> Handler:
    async def read(request: web.Request) -> web.Response:
        topic = await topic_with_policies(request)
        broker = broker_of(request)
        value = (await broker.policies.topic_policies(topic) or {}).get(policy.name)
        if value is None and policy.of_namespace and flag(request, "applied"):
            found = await broker.policies.namespace(topic.namespace_name) or {}
            value = found.get(policy.of_namespace)
            if policy.of_namespace in PER_CLUSTER and value is not None:
                value = value.get(broker.config.cluster_name)
        if value in (None, "UNDEFINED") and flag(request, "applied"):
            value = applied_by_broker(broker.live.config, policy.name)
        value = policy.unset if value is None else value
        return nothing() if value is None else answer(value)

    read.__doc__ = f"A topic's own ``{policy.name}``, or with ``applied`` what holds."
    return read


PER_CLUSTER = frozenset(each.name for each in shapes_of.POLICIES if each.per_cluster)


def _writer(policy: TopicPolicy) -> Handler:
    async def write(request: web.Request) -> web.Response:
        topic = await topic_with_policies(request)
        value = _value(request, policy)
        refused = shapes_of.why_refused(policy.name, value)
        if refused is not None:
            raise precondition_failed(refused)
        if policy.low is not None and value is not None and value < policy.low:
            raise precondition_failed(f"{policy.path} must be {policy.low} or more")
        if policy.name not in READ_POLICIES:
            log.warning(
                "%s: the policy %s is stored, and read by nothing here (docs/UNREAD.md)",
                topic,
                policy.path,
            )
        await broker_of(request).policies.update_topic_policies(
            topic, lambda now: {**_without(now, policy.name), policy.name: value}
        )
        return no_content()

    write.__doc__ = f"Set a topic's own ``{policy.name}``."
    return write


def _value(request: web.Request, policy: TopicPolicy) -> Json:
    if policy.value_by_path is not None:
        return policy.value_by_path
    if policy.by_query is None:
        return body_of(request)
    said = request.query.get(policy.by_query)
    if said is None:
        raise precondition_failed(f"query parameter {policy.by_query} is missing")
    return Shape(policy.shape).check(whole_number(said))


def _remover(policy: TopicPolicy) -> Handler:
    async def remove(request: web.Request) -> web.Response:
        topic = await topic_with_policies(request)
        await broker_of(request).policies.update_topic_policies(
            topic, lambda now: _without(now, policy.name)
        )
        return no_content()

    remove.__doc__ = f"Remove a topic's own ``{policy.name}``."
    return remove


def _without(policies: dict[str, Json], name: str) -> dict[str, Json]:
    return {each: value for each, value in policies.items() if each != name}


async def topic_with_policies(request: web.Request) -> TopicName:
    """The topic, which must be there and be no partition: a partition has its whole's policies."""
    topic = topic_of(request)
    if topic.partition_index >= 0:
        raise precondition_failed("Not allowed to set/get topic policy for a partition")
    await require_namespace(request, topic.namespace_name)
    policies = broker_of(request).policies
    known = await policies.partitioned_topic(topic) is not None
    if not known and not (topic.is_persistent and await policies.topic_exists(topic)):
        raise not_found(f"Topic {topic} not found")
    return topic
