"""The policies of a namespace that are one value each: a table of paths and names.

Most of ``/admin/v2/namespaces/{tenant}/{namespace}/…`` reads, sets or removes one member of the
``Policies`` JSON, so the resource is that table.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from counterpoise.admin.errors import RestError, precondition_failed
from counterpoise.admin.request import (
    Json,
    answer,
    body,
    broker_of,
    namespace_of,
    no_content,
    nothing,
)
from counterpoise.admin.rest.namespaces import BASE, NAMESPACE, require_namespace

Handler = Callable[[web.Request], Awaitable[web.Response]]


@dataclass(frozen=True, slots=True)
class Policy:
    """One member of the policies: its path, its JSON name, and how it is written."""

    path: str
    name: str
    method: str = "POST"
    per_cluster: bool = False
    """Kept as a map from cluster to value; the API speaks of this cluster's."""
    unset: Json = None
    """What a namespace that never set it answers; None is an empty body."""
    low: int | None = None
    """The least value that is accepted, for numbers."""


POLICIES: tuple[Policy, ...] = (
    Policy("messageTTL", "message_ttl_in_seconds", low=0),
    Policy("subscriptionExpirationTime", "subscription_expiration_time_minutes", low=0),
    Policy("deduplication", "deduplicationEnabled"),
    Policy("deduplicationSnapshotInterval", "deduplicationSnapshotIntervalSeconds", low=0),
    Policy("autoTopicCreation", "autoTopicCreationOverride"),
    Policy("autoSubscriptionCreation", "autoSubscriptionCreationOverride"),
    Policy("publishRate", "publishMaxMessageRate", per_cluster=True),
    Policy("dispatchRate", "topicDispatchRate", per_cluster=True),
    Policy("subscriptionDispatchRate", "subscriptionDispatchRate", per_cluster=True),
    Policy("replicatorDispatchRate", "replicatorDispatchRate", per_cluster=True),
    Policy("subscribeRate", "clusterSubscribeRate", per_cluster=True),
    Policy("retention", "retention_policies"),
    Policy("persistence", "persistence"),
    Policy("subscriptionAuthMode", "subscription_auth_mode", unset="None"),
    Policy("encryptionRequired", "encryption_required", unset=False),
    Policy("delayedDelivery", "delayed_delivery_policies"),
    Policy("inactiveTopicPolicies", "inactive_topic_policies"),
    Policy("maxProducersPerTopic", "max_producers_per_topic", low=0),
    Policy("maxConsumersPerTopic", "max_consumers_per_topic", low=0),
    Policy("maxConsumersPerSubscription", "max_consumers_per_subscription", low=0),
    Policy("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer", low=0),
    Policy("maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription", low=0),
    Policy("maxSubscriptionsPerTopic", "max_subscriptions_per_topic", low=0),
    Policy("maxTopicsPerNamespace", "max_topics_per_namespace", unset=0, low=0),
    Policy("compactionThreshold", "compaction_threshold", low=0, method="PUT"),
    Policy("schemaCompatibilityStrategy", "schema_compatibility_strategy", method="PUT"),
    Policy("isAllowAutoUpdateSchema", "is_allow_auto_update_schema", unset=True),
    Policy("schemaValidationEnforced", "schema_validation_enforced", unset=False),
    Policy("subscriptionTypesEnabled", "subscription_types_enabled", unset=[]),
    Policy("replication", "replication_clusters", unset=[]),
    Policy("allowedClusters", "allowed_clusters", unset=[]),
    Policy("properties", "properties", method="PUT", unset={}),
    Policy("entryFilters", "entryFilters"),
)


def routes() -> Iterable[web.AbstractRouteDef]:
    """The paths of this resource."""
    for policy in POLICIES:
        path = f"{NAMESPACE}/{policy.path}"
        yield web.get(path, _reader(policy))
        yield web.route(policy.method, path, _writer(policy))
        yield web.delete(path, _remover(policy))
    yield web.get(f"{NAMESPACE}/permissions", permissions)
    yield web.get(f"{NAMESPACE}/backlogQuotaMap", backlog_quotas)
    yield web.post(f"{NAMESPACE}/backlogQuota", set_backlog_quota)
    yield web.delete(f"{NAMESPACE}/backlogQuota", remove_backlog_quota)
    yield web.get(f"{NAMESPACE}/antiAffinity", anti_affinity)
    yield web.post(f"{NAMESPACE}/antiAffinity", set_anti_affinity)
    yield web.delete(f"{NAMESPACE}/antiAffinity", remove_anti_affinity)
    yield web.get(f"{BASE}/{{cluster}}/antiAffinity/{{group}}", of_anti_affinity_group)
    yield web.get(f"{NAMESPACE}/resourcegroup", _reader(RESOURCE_GROUP))
    yield web.post(f"{NAMESPACE}/resourcegroup/{{group}}", set_resource_group)
    yield web.delete(f"{NAMESPACE}/resourcegroup", _remover(RESOURCE_GROUP))


ANTI_AFFINITY = "namespaceAntiAffinityGroup"
RESOURCE_GROUP = Policy("resourcegroup", "resource_group_name")


async def permissions(request: web.Request) -> web.Response:
    """Who may do what; this broker checks no permissions, it only keeps them."""
    policies = await require_namespace(request, namespace_of(request))
    return answer(policies.get("auth_policies", {}).get("namespace_auth", {}))


async def backlog_quotas(request: web.Request) -> web.Response:
    """The backlog quotas by type."""
    policies = await require_namespace(request, namespace_of(request))
    return answer(policies.get("backlog_quota_map", {}))


async def set_backlog_quota(request: web.Request) -> web.Response:
    """Set the quota of one type."""
    kind, quota = request.query.get("backlogQuotaType", "destination_storage"), await body(request)
    if not isinstance(quota, dict):
        raise RestError(HTTPStatus.BAD_REQUEST, "the body must be a BacklogQuota object")
    await _update(request, lambda it: it.setdefault("backlog_quota_map", {}).update({kind: quota}))
    return no_content()


async def remove_backlog_quota(request: web.Request) -> web.Response:
    """Remove the quota of one type."""
    kind = request.query.get("backlogQuotaType", "destination_storage")
    await _update(request, lambda it: it.setdefault("backlog_quota_map", {}).pop(kind, None))
    return no_content()


async def anti_affinity(request: web.Request) -> web.Response:
    """The group of namespaces that shall be kept on different brokers."""
    namespace = namespace_of(request)
    found = await broker_of(request).policies.local_policies(namespace) or {}
    return answer(found.get(ANTI_AFFINITY))


async def set_anti_affinity(request: web.Request) -> web.Response:
    """Put the namespace in such a group."""
    namespace, group = namespace_of(request), await body(request)
    if not isinstance(group, str) or not group.strip():
        raise precondition_failed("antiAffinityGroup can't be empty")
    # Asking for the bundles writes them to the local policies, where the group is kept too.
    await broker_of(request).namespaces.bundles(namespace)
    await broker_of(request).policies.update_local_policies(
        namespace, lambda local: {**local, ANTI_AFFINITY: group}
    )
    return no_content()


async def remove_anti_affinity(request: web.Request) -> web.Response:
    """Take the namespace out of its group."""
    namespace = namespace_of(request)
    await require_namespace(request, namespace)
    await broker_of(request).namespaces.bundles(namespace)
    await broker_of(request).policies.update_local_policies(
        namespace,
        lambda local: {name: value for name, value in local.items() if name != ANTI_AFFINITY},
    )
    return no_content()


async def of_anti_affinity_group(request: web.Request) -> web.Response:
    """The namespaces of a group; ``tenant`` narrows it to one tenant."""
    policies, group = broker_of(request).policies, request.match_info["group"]
    tenant = request.query.get("tenant")
    found = []
    for each in [tenant] if tenant else await policies.tenants():
        for namespace in await policies.namespaces(each):
            local = await policies.local_policies(namespace) or {}
            if local.get(ANTI_AFFINITY, "").lower() == group.lower():
                found.append(str(namespace))
    return answer(found)


async def set_resource_group(request: web.Request) -> web.Response:
    """Put the namespace in a resource group."""
    group = request.match_info["group"]
    await _update(request, lambda it: it.update({RESOURCE_GROUP.name: group}))
    return no_content()


def _reader(policy: Policy) -> Handler:
    async def read(request: web.Request) -> web.Response:
        value = (await require_namespace(request, namespace_of(request))).get(policy.name)
        if policy.per_cluster:
            value = (value or {}).get(broker_of(request).config.cluster_name)
        value = policy.unset if value is None else value
        return nothing() if value is None else answer(value)

    return read


def _writer(policy: Policy) -> Handler:
    async def write(request: web.Request) -> web.Response:
        value = await body(request)
        _check(policy, value)
        if policy.per_cluster:
            cluster = broker_of(request).config.cluster_name
            await _update(
                request, lambda it: it.setdefault(policy.name, {}).update({cluster: value})
            )
        else:
            await _update(request, lambda it: it.update({policy.name: value}))
        return no_content()

    return write


def _check(policy: Policy, value: Json) -> None:
    if policy.low is None or value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise RestError(HTTPStatus.BAD_REQUEST, f"{policy.path}: {value!r} is not a whole number")
    if value < policy.low:
        raise precondition_failed(
            f"Invalid value for {policy.path}: {value} must be {policy.low} or more"
        )


def _remover(policy: Policy) -> Handler:
    async def remove(request: web.Request) -> web.Response:
        if policy.per_cluster:
            cluster = broker_of(request).config.cluster_name
            await _update(request, lambda it: it.setdefault(policy.name, {}).pop(cluster, None))
        else:
            await _update(request, lambda it: it.pop(policy.name, None))
        return no_content()

    return remove


async def _update(request: web.Request, change: Callable[[dict[str, Json]], object]) -> None:
    namespace = namespace_of(request)
    await require_namespace(request, namespace)

    def changed(policies: dict[str, Json]) -> dict[str, Json]:
        # Called again if somebody else wrote first, so it must not change what it is given.
        fresh = copy.deepcopy(policies)
        change(fresh)
        return fresh

    await broker_of(request).policies.update_namespace(namespace, changed)
