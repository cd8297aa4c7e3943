"""The policies of a namespace that are one value each: a table of paths and names.

Most of ``/admin/v2/namespaces/{tenant}/{namespace}/…`` reads, sets or removes one member of the
``Policies`` JSON, so the resource is that table.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from counterpoise.admin import route
from counterpoise.admin.errors import precondition_failed
from counterpoise.admin.policies import BACKLOG_QUOTA, POLICIES, Policy, is_read, why_refused
from counterpoise.admin.request import (
    answer,
    broker_of,
    namespace_of,
    no_content,
    nothing,
)
from counterpoise.admin.rest.namespaces import BASE, NAMESPACE, require_namespace
from counterpoise.admin.route import body_of
from counterpoise.admin.shapes import Json, Shape, map_of, nullable, text
from counterpoise.names.namespace import check_entity

Handler = Callable[[web.Request], Awaitable[web.Response]]


log = logging.getLogger(__name__)

BACKLOG_QUOTA_TYPE = {"backlogQuotaType": text("destination_storage", "message_age")}
ANTI_AFFINITY = "namespaceAntiAffinityGroup"
RESOURCE_GROUP = Policy("resourcegroup", "resource_group_name", text())


def routes() -> Iterable[route.Route]:
    """The paths of this resource."""
    for policy in POLICIES:
        path = f"{NAMESPACE}/{policy.path}"
        yield route.get(path, _reader(policy))
        shape = None if policy.value_by_path is not None else Shape(nullable(policy.shape))
        if policy.method:
            yield route.Route(policy.method, path, _writer(policy), shape)
        yield route.delete(path, _remover(policy))
    yield route.put(f"{NAMESPACE}/properties", add_properties, Shape(map_of(text())))
    yield route.get(f"{NAMESPACE}/backlogQuotaMap", backlog_quotas)
    yield route.post(
        f"{NAMESPACE}/backlogQuota", set_backlog_quota, Shape(BACKLOG_QUOTA), BACKLOG_QUOTA_TYPE
    )
    yield route.delete(f"{NAMESPACE}/backlogQuota", remove_backlog_quota, None, BACKLOG_QUOTA_TYPE)
    yield route.get(f"{NAMESPACE}/antiAffinity", anti_affinity)
    yield route.post(f"{NAMESPACE}/antiAffinity", set_anti_affinity, Shape(nullable(text())))
    yield route.delete(f"{NAMESPACE}/antiAffinity", remove_anti_affinity)
    # The second is where pulsar-admin asks, to this day.
    for base in (BASE, "/admin/namespaces"):
        yield route.get(f"{base}/{{cluster}}/antiAffinity/{{group}}", of_anti_affinity_group)
    yield route.get(f"{NAMESPACE}/resourcegroup", _reader(RESOURCE_GROUP))
    yield route.post(f"{NAMESPACE}/resourcegroup/{{resourcegroup}}", set_resource_group)
    yield route.delete(f"{NAMESPACE}/resourcegroup", _remover(RESOURCE_GROUP))


async def add_properties(request: web.Request) -> web.Response:
    """Note more of a namespace; what has another name stays."""
    given = body_of(request)
    await update(
        request, lambda it: it.update(properties={**(it.get("properties") or {}), **given})
    )
    return no_content()


async def backlog_quotas(request: web.Request) -> web.Response:
    """The backlog quotas by type."""
    policies = await require_namespace(request, namespace_of(request))
    return answer(policies.get("backlog_quota_map", {}))


async def set_backlog_quota(request: web.Request) -> web.Response:
    """Set the quota of one type."""
    kind, quota = quota_type(request), body_of(request)
    _warn_unread(request, "backlogQuota")
    await update(request, lambda it: it.setdefault("backlog_quota_map", {}).update({kind: quota}))
    return no_content()


async def remove_backlog_quota(request: web.Request) -> web.Response:
    """Remove the quota of one type."""
    kind = quota_type(request)
    await update(request, lambda it: it.setdefault("backlog_quota_map", {}).pop(kind, None))
    return no_content()


async def anti_affinity(request: web.Request) -> web.Response:
    """The group of namespaces that shall be kept on different brokers."""
    namespace = namespace_of(request)
    found = await broker_of(request).policies.local_policies(namespace) or {}
    return answer(found.get(ANTI_AFFINITY))


async def set_anti_affinity(request: web.Request) -> web.Response:
    """Put the namespace in such a group."""
    namespace, group = namespace_of(request), body_of(request)
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
    tenant = request.query.get("property") or request.query.get("tenant")
    if tenant:
        check_entity(tenant, "tenant", tenant)
    found = []
    for each in [tenant] if tenant else await policies.tenants():
        for namespace in await policies.namespaces(each):
            local = await policies.local_policies(namespace) or {}
            if str(local.get(ANTI_AFFINITY) or "").lower() == group.lower():
                found.append(str(namespace))
    return answer(found)


async def set_resource_group(request: web.Request) -> web.Response:
    """Put the namespace in a resource group."""
    group = request.match_info["resourcegroup"]
    if await broker_of(request).policies.resource_group(group) is None:
        raise precondition_failed("ResourceGroup does not exist")
    await update(request, lambda it: it.update({RESOURCE_GROUP.name: group}))
    return no_content()


def quota_type(request: web.Request) -> str:
    """Which of the two quotas a request is about."""
    kind = request.query.get("backlogQuotaType") or "destination_storage"
    if kind not in ("destination_storage", "message_age"):
        raise precondition_failed(f"backlogQuotaType={kind[:40]!r}: no such type")
    return kind


def _warn_unread(request: web.Request, policy: str) -> None:
    log.warning(
        "%s: the policy %s is stored, and read by nothing here (docs/UNREAD.md)",
        namespace_of(request),
        policy,
    )


def _reader(policy: Policy) -> Handler:
    async def read(request: web.Request) -> web.Response:
        value = (await require_namespace(request, namespace_of(request))).get(policy.name)
        if policy.per_cluster:
            value = (value or {}).get(broker_of(request).config.cluster_name)
        value = policy.unset if value is None else value
        return nothing() if value is None else answer(value)

    return read


def _writer(policy: Policy) -> Handler:
    remove = _remover(policy)

    async def write(request: web.Request) -> web.Response:
        value = policy.value_by_path
        if value is None:
            value = body_of(request)
        if value is None:
            return await remove(request)
        _check(policy, value)
        if not is_read(policy):
            _warn_unread(request, policy.path)
        if policy.per_cluster:
            cluster = broker_of(request).config.cluster_name
            await update(
                request, lambda it: it.setdefault(policy.name, {}).update({cluster: value})
            )
        else:
            await update(request, lambda it: it.update({policy.name: value}))
        return no_content()

    return write


def _check(policy: Policy, value: Json) -> None:
    refused = why_refused(policy.name, value)
    if refused is not None:
        raise precondition_failed(refused)
    if policy.low is not None and value < policy.low:
        raise precondition_failed(f"{policy.path} must be {policy.low} or more")


def _remover(policy: Policy) -> Handler:
    async def remove(request: web.Request) -> web.Response:
        if policy.per_cluster:
            cluster = broker_of(request).config.cluster_name
            await update(request, lambda it: it.setdefault(policy.name, {}).pop(cluster, None))
        else:
            await update(request, lambda it: it.pop(policy.name, None))
        return no_content()

    return remove


async def update(request: web.Request, change: Callable[[dict[str, Json]], object]) -> None:
    """Change the policies of the namespace in the path; 404 without it."""
    namespace = namespace_of(request)
    await require_namespace(request, namespace)

    def changed(policies: dict[str, Json]) -> dict[str, Json]:
        # Called again if another request wrote first, so it must not change what it is given.
        fresh = copy.deepcopy(policies)
        change(fresh)
        return fresh

    await broker_of(request).policies.update_namespace(namespace, changed)
