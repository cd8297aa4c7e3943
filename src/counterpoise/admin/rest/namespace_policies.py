"""The policies of a namespace that consist of one value: a table of paths and names.

Most of ``/admin/v2/namespaces/{tenant}/{namespace}/…`` reads, sets or removes one member of the
``Policies`` JSON, so the routes are made from that table, `POLICIES`.
"""

from collections.abc import Callable

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import precondition_failed
from counterpoise.admin.policies import POLICIES, Policy
from counterpoise.admin.request import answer, body_of, broker_of, flag, namespace_of, plain
from counterpoise.admin.rest.namespaces import BASE, NAMESPACE, require_namespace
from counterpoise.admin.rest.policy_routes import PolicyHolder, in_place
from counterpoise.admin.shapes import Json, Shape, map_of, nullable, text
from counterpoise.broker.face import PER_CLUSTER
from counterpoise.names.namespace import check_entity

ANTI_AFFINITY = "namespaceAntiAffinityGroup"
RESOURCE_GROUP = Policy("resourcegroup", "resource_group_name", text(), method="")
_READ = frozenset(("dispatcherPauseOnAckStatePersistent", "replicatorDispatchRate"))
_WRITTEN = frozenset(
    """
    deduplicationSnapshotInterval delayedDelivery inactiveTopicPolicies maxSubscriptionsPerTopic
    maxTopicsPerNamespace resourcegroup retention
    """.split()
)
"""The policies for which Pulsar's 404 for a missing namespace begins with "Namespace policies"
instead of "Namespace": when they are read (`_READ`), or written."""


class _Namespaces(PolicyHolder):
    """Reads and changes the policies of namespaces."""

    LEVEL, RETENTION, QUOTAS = "namespace", "retention_policies", "backlog_quota_map"
    CHECKED = ("destination_storage",)

    async def value(self, request: web.Request, name: str) -> Json:
        found = (await _policies(request)).get(name)
        if name == "schema_validation_enforced" and not found and flag(request, "applied"):
            return broker_of(request).live.config.schemas.validation_enforced
        return found

    inherited = value

    async def update(
        self, request: web.Request, change: Callable[[dict[str, Json]], object]
    ) -> None:
        await update(request, change)


NAMESPACES = _Namespaces(NAMESPACE, {}, access.NAMESPACE_POLICY, PER_CLUSTER)

routes = route.Routes()
for _each in POLICIES:
    routes.extend(NAMESPACES.routes(_each))
    if _each.path == "offloadPolicies":
        path = f"{NAMESPACE}/removeOffloadPolicies"
        routes.delete(path, access.NAMESPACE_POLICY)(NAMESPACES.remover(_each))
routes.extend(NAMESPACES.quota_routes())


@routes.put(f"{NAMESPACE}/properties", access.TENANT_ADMIN, Shape(map_of(text())))
async def add_properties(request: web.Request) -> None:
    """Add properties to a namespace, and replace those of the same name; others stay."""
    given = body_of(request)
    await update(
        request, lambda it: it.update(properties={**(it.get("properties") or {}), **given})
    )


@routes.get(f"{NAMESPACE}/antiAffinity", access.NAMESPACE_POLICY)
async def anti_affinity(request: web.Request) -> web.Response:
    """The anti-affinity group of a namespace: its namespaces are kept on different brokers."""
    namespace = namespace_of(request)
    found = await broker_of(request).policies.local_policies(namespace).get() or {}
    group = found.get(ANTI_AFFINITY)
    return answer(None) if group is None else plain(group)


@routes.post(f"{NAMESPACE}/antiAffinity", access.NAMESPACE_POLICY, Shape(nullable(text())))
async def set_anti_affinity(request: web.Request) -> None:
    """Put the namespace into an anti-affinity group."""
    namespace, group = namespace_of(request), body_of(request)
    if not isinstance(group, str) or not group.strip():
        raise precondition_failed("antiAffinityGroup can't be empty")
    # Asking for the bundles writes them to the local policies, where the group is kept too.
    await broker_of(request).namespaces.bundles(namespace)
    node = broker_of(request).policies.local_policies(namespace)
    await node.change(lambda local: {**local, ANTI_AFFINITY: group})


@routes.delete(f"{NAMESPACE}/antiAffinity", access.NAMESPACE_POLICY)
async def remove_anti_affinity(request: web.Request) -> None:
    """Take the namespace out of its anti-affinity group."""
    namespace = namespace_of(request)
    await require_namespace(request, namespace)
    await broker_of(request).namespaces.bundles(namespace)
    node = broker_of(request).policies.local_policies(namespace)
    await node.change(lambda local: {k: v for k, v in local.items() if k != ANTI_AFFINITY})


@routes.get(f"{BASE}/{{cluster}}/antiAffinity/{{group}}", access.SUPER_USER)
# The path that pulsar-admin still uses.
@routes.get("/admin/namespaces/{cluster}/antiAffinity/{group}", access.SUPER_USER)
async def of_anti_affinity_group(request: web.Request) -> web.Response:
    """The namespaces of an anti-affinity group; ``tenant`` restricts the answer to one tenant."""
    policies, group = broker_of(request).policies, request.match_info["group"]
    tenant = request.query.get("property") or request.query.get("tenant")
    if tenant:
        check_entity(tenant, "tenant", tenant)
    found = []
    for each in [tenant] if tenant else await policies.tenants():
        for namespace in await policies.namespaces(each):
            local = await policies.local_policies(namespace).get() or {}
            if str(local.get(ANTI_AFFINITY) or "").lower() == group.lower():
                found.append(str(namespace))
    return answer(found)


routes.extend(NAMESPACES.routes(RESOURCE_GROUP))


@routes.post(f"{NAMESPACE}/resourcegroup/{{resourcegroup}}", access.NAMESPACE_POLICY)
async def set_resource_group(request: web.Request) -> None:
    """Put the namespace in a resource group."""
    group = request.match_info["resourcegroup"]
    if await broker_of(request).policies.resource_group(group) is None:
        raise precondition_failed("ResourceGroup does not exist")
    await update(request, lambda it: it.update({RESOURCE_GROUP.name: group}))


async def update(request: web.Request, change: Callable[[dict[str, Json]], object]) -> None:
    """Change the policies of the namespace in the path; 404 if it does not exist."""
    await _policies(request)
    policies = broker_of(request).policies.shared_policies(namespace_of(request))
    await policies.change(in_place(change))


async def _policies(request: web.Request) -> dict[str, Json]:
    namespace = namespace_of(request)
    _, _, name = request.path.partition(f"/{namespace}/")
    of_policies = name.partition("/")[0] in (_READ if request.method == "GET" else _WRITTEN)
    subject = "Namespace policies" if of_policies else "Namespace"
    return await require_namespace(request, namespace, subject)
