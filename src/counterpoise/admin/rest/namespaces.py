"""``/admin/v2/namespaces``: make, list and delete namespaces, and unload them as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from http import HTTPStatus

from aiohttp import web

from counterpoise.admin.errors import RestError, conflict, not_found, precondition_failed
from counterpoise.admin.redirect import ask
from counterpoise.admin.request import (
    Json,
    answer,
    broker_of,
    flag,
    json_object,
    namespace_of,
    no_content,
    whole_number,
)
from counterpoise.broker.face import DOMAINS_OF_MODE, bundles_json
from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName

BASE = "/admin/v2/namespaces"
NAMESPACE = f"{BASE}/{{tenant}}/{{namespace}}"
NEW_POLICIES: Mapping[str, Json] = {
    "auth_policies": {
        "namespace_auth": {},
        "destination_auth": {},
        "subscription_auth_roles": {},
    },
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


def routes() -> Iterable[web.AbstractRouteDef]:
    """The paths of this resource."""
    return [
        web.get(f"{BASE}/{{tenant}}", names),
        web.get(NAMESPACE, get),
        web.put(NAMESPACE, create),
        web.delete(NAMESPACE, delete),
        web.get(f"{NAMESPACE}/topics", topics),
        web.put(f"{NAMESPACE}/unload", unload),
    ]


async def names(request: web.Request) -> web.Response:
    """The namespaces of a tenant."""
    tenant, policies = request.match_info["tenant"], broker_of(request).policies
    if await policies.tenant(tenant) is None:
        raise not_found("Tenant not found")
    return answer([str(each) for each in await policies.namespaces(tenant)])


async def get(request: web.Request) -> web.Response:
    """A namespace's policies, with the bundles it has now."""
    namespace = namespace_of(request)
    policies = await require_namespace(request, namespace)
    bundles = await broker_of(request).namespaces.bundles(namespace)
    return answer({**policies, "bundles": bundles_json(bundles)})


async def create(request: web.Request) -> web.Response:
    """Make a namespace; its body may bring policies and bundles."""
    namespace, broker = namespace_of(request), broker_of(request)
    wanted = await json_object(request)
    if await broker.policies.tenant(namespace.tenant) is None:
        raise not_found(f"Tenant {namespace.tenant} does not exist")
    if await broker.policies.namespace(namespace) is not None:
        raise conflict("Namespace already exists")
    count = broker.config.default_number_of_namespace_bundles
    bundles = wanted_bundles(namespace, wanted.get("bundles"), count)
    policies = {
        **NEW_POLICIES,
        **{name: value for name, value in wanted.items() if value is not None},
        "bundles": bundles_json(bundles),
    }
    if not policies["replication_clusters"]:
        policies["replication_clusters"] = [broker.config.cluster_name]
    await broker.policies.create_namespace(namespace, policies)
    return no_content()


async def delete(request: web.Request) -> web.Response:
    """Remove a namespace; with ``force=true`` its topics too."""
    namespace, broker = namespace_of(request), broker_of(request)
    await require_namespace(request, namespace)
    found = await all_topics(request, namespace)
    if found and not flag(request, "force"):
        raise conflict("Cannot delete non empty namespace")
    for topic in found:
        path = topic.replace("://", "/")
        await ask(request, "DELETE", f"/admin/v2/{path}?force=true")
    for domain in ("persistent", "non-persistent"):
        for name in await broker.policies.partitioned_topics(namespace, domain):
            await broker.policies.delete_partitioned_topic(name)
    await _unload_bundles(request, namespace)
    await broker.policies.delete_namespace(namespace)
    return no_content()


async def topics(request: web.Request) -> web.Response:
    """The topics of a namespace; ``mode`` is PERSISTENT (the default), NON_PERSISTENT or ALL."""
    namespace = namespace_of(request)
    await require_namespace(request, namespace)
    mode = request.query.get("mode", "PERSISTENT").upper()
    if mode not in DOMAINS_OF_MODE:
        raise RestError(HTTPStatus.BAD_REQUEST, f"mode={mode}: no such kind of topic")
    found: set[str] = set()
    for domain in DOMAINS_OF_MODE[mode]:
        found.update(await ask(request, "GET", f"/admin/v2/{domain}/{namespace}"))
    return answer(sorted(found))


async def unload(request: web.Request) -> web.Response:
    """Unload every bundle of a namespace, wherever it is."""
    namespace = namespace_of(request)
    await require_namespace(request, namespace)
    await _unload_bundles(request, namespace)
    return no_content()


async def require_namespace(request: web.Request, namespace: NamespaceName) -> dict[str, Json]:
    """The policies of a namespace; 404 when there is none."""
    found = await broker_of(request).policies.namespace(namespace)
    if found is None:
        raise not_found("Namespace does not exist")
    return found


async def all_topics(request: web.Request, namespace: NamespaceName) -> list[str]:
    """The names of all topics of a namespace, partitions each by itself."""
    found: list[str] = await ask(request, "GET", f"{BASE}/{namespace}/topics?mode=ALL")
    return found


def wanted_bundles(namespace: NamespaceName, wanted: Json, default: int) -> NamespaceBundles:
    """The bundles a request asks for: its boundaries, its number, or the default number."""
    if wanted is None:
        return NamespaceBundles.of_count(namespace, default)
    boundaries = wanted.get("boundaries") or []
    count = wanted.get("numBundles", 0)
    try:
        if boundaries:
            return NamespaceBundles.from_text(namespace, boundaries)
        if count < 0:
            raise RestError(
                HTTPStatus.BAD_REQUEST,
                "Invalid number of bundles. Number of bundles has to be in the range of (0, 2^32].",
            )
        return NamespaceBundles.of_count(
            namespace, whole_number(str(count), "numBundles") or default
        )
    except InvalidName as error:
        raise RestError(HTTPStatus.BAD_REQUEST, f"Input bundles: {error}") from None


async def _unload_bundles(request: web.Request, namespace: NamespaceName) -> None:
    bundles = await broker_of(request).namespaces.bundles(namespace)
    results = await asyncio.gather(
        *(ask(request, "PUT", f"{BASE}/{each}/unload") for each in bundles.bundles),
        return_exceptions=True,
    )
    failed = [each for each in results if isinstance(each, BaseException)]
    if failed:
        raise precondition_failed(f"{len(failed)} bundles were not unloaded: {failed[0]}")
