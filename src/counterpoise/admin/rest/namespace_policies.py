"""The policies of a namespace that are one value each: a table of paths and names.

Most of ``/admin/v2/namespaces/{tenant}/{namespace}/…`` reads, sets or removes one member of the
``Policies`` JSON, so the resource is that table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aiohttp import web

from counterpoise.admin import route
from counterpoise.admin.errors import precondition_failed
from counterpoise.admin.policies import POLICIES, Policy
from counterpoise.admin.request import (
    answer,
    broker_of,
    namespace_of,
)
from counterpoise.admin.rest.namespaces import BASE, NAMESPACE, require_namespace
from counterpoise.admin.rest.policy_routes import PolicyHolder, in_place
from counterpoise.admin.route import body_of
from counterpoise.admin.shapes import Json, Shape, map_of, nullable, text
from counterpoise.broker.face import PER_CLUSTER
from counterpoise.names.namespace import check_entity

ANTI_AFFINITY = "namespaceAntiAffinityGroup"
RESOURCE_GROUP = Policy("resourcegroup", "resource_group_name", text(), method="")


def routes() -> Iterable[route.Route]:
    """The paths of this resource."""
    for policy in POLICIES:
        yield from NAMESPACES.routes(policy)
        if policy.path == "offloadPolicies":
            yield route.delete(f"{NAMESPACE}/removeOffloadPolicies", NAMESPACES.remover(policy))
    yield from NAMESPACES.quota_routes("backlog_quota_map")
    yield route.put(f"{NAMESPACE}/properties", add_properties, Shape(map_of(text())))
    yield route.get(f"{NAMESPACE}/antiAffinity", anti_affinity)
    yield route.post(f"{NAMESPACE}/antiAffinity", set_anti_affinity, Shape(nullable(text())))
    yield route.delete(f"{NAMESPACE}/antiAffinity", remove_anti_affinity)
    # The second is where pulsar-admin asks, to this day.
    for base in (BASE, "/admin/namespaces"):
        yield route.get(f"{base}/{{cluster}}/antiAffinity/{{group}}", of_anti_affinity_group)
    yield from NAMESPACES.routes(RESOURCE_GROUP)
    yield route.post(f"{NAMESPACE}/resourcegroup/{{resourcegroup}}", set_resource_group)


async def add_properties(request: web.Request) -> None:
    """Note more of a namespace; what has another name stays."""
    given = body_of(request)
    await update(
        request, lambda it: it.update(properties={**(it.get("properties") or {}), **given})
    )


async def anti_affinity(request: web.Request) -> web.Response:
    """The group of namespaces that shall be kept on different brokers."""
    namespace = namespace_of(request)
    found = await broker_of(request).policies.local_policies(namespace) or {}
    return answer(found.get(ANTI_AFFINITY))


async def set_anti_affinity(request: web.Request) -> None:
    """Put the namespace in such a group."""
    namespace, group = namespace_of(request), body_of(request)
    if not isinstance(group, str) or not group.strip():
        raise precondition_failed("antiAffinityGroup can't be empty")
    # Asking for the bundles writes them to the local policies, where the group is kept too.
    await broker_of(request).namespaces.bundles(namespace)
    await broker_of(request).policies.update_local_policies(
        namespace, lambda local: {**local, ANTI_AFFINITY: group}
    )


async def remove_anti_affinity(request: web.Request) -> None:
    """Take the namespace out of its group."""
    namespace = namespace_of(request)
    await require_namespace(request, namespace)
    await broker_of(request).namespaces.bundles(namespace)
    await broker_of(request).policies.update_local_policies(
        namespace,
        lambda local: {name: value for name, value in local.items() if name != ANTI_AFFINITY},
    )


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


async def set_resource_group(request: web.Request) -> None:
    """Put the namespace in a resource group."""
    group = request.match_info["resourcegroup"]
    if await broker_of(request).policies.resource_group(group) is None:
        raise precondition_failed("ResourceGroup does not exist")
    await update(request, lambda it: it.update({RESOURCE_GROUP.name: group}))


class _Namespaces(PolicyHolder):
    """Namespaces, with the policies of each."""

    async def value(self, request: web.Request, name: str) -> Json:
        return (await require_namespace(request, namespace_of(request))).get(name)

    async def update(
        self, request: web.Request, change: Callable[[dict[str, Json]], object]
    ) -> None:
        await update(request, change)


NAMESPACES = _Namespaces(NAMESPACE, {}, PER_CLUSTER)


async def update(request: web.Request, change: Callable[[dict[str, Json]], object]) -> None:
    """Change the policies of the namespace in the path; 404 without it."""
    namespace = namespace_of(request)
    await require_namespace(request, namespace)
    await broker_of(request).policies.update_namespace(namespace, in_place(change))
