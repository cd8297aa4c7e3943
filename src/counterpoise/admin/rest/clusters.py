"""``/admin/v2/clusters``: the clusters of this instance, isolation policies, failure domains."""

from __future__ import annotations

import json
from collections.abc import Iterable
from http import HTTPStatus

from aiohttp import web

from counterpoise.admin.errors import RestError, conflict, not_found, precondition_failed
from counterpoise.admin.request import Json, answer, broker_of, json_object, no_content

BASE = "/admin/v2/clusters"
CLUSTER = f"{BASE}/{{cluster}}"


def routes() -> Iterable[web.AbstractRouteDef]:
    """The paths of this resource."""
    return [
        web.get(BASE, names),
        web.get(CLUSTER, get),
        web.put(CLUSTER, create),
        web.post(CLUSTER, update),
        web.delete(CLUSTER, delete),
        web.get(f"{CLUSTER}/peers", peers),
        web.get(f"{CLUSTER}/namespaceIsolationPolicies", isolation_policies),
        web.get(f"{CLUSTER}/namespaceIsolationPolicies/{{policy}}", isolation_policy),
        web.post(f"{CLUSTER}/namespaceIsolationPolicies/{{policy}}", put_isolation_policy),
        web.delete(f"{CLUSTER}/namespaceIsolationPolicies/{{policy}}", delete_isolation_policy),
        web.get(f"{CLUSTER}/failureDomains", failure_domains),
        web.get(f"{CLUSTER}/failureDomains/{{domain}}", failure_domain),
        web.post(f"{CLUSTER}/failureDomains/{{domain}}", put_failure_domain),
        web.delete(f"{CLUSTER}/failureDomains/{{domain}}", delete_failure_domain),
    ]


async def names(request: web.Request) -> web.Response:
    """The names of all clusters."""
    return answer(await broker_of(request).policies.clusters())


async def get(request: web.Request) -> web.Response:
    """One cluster's addresses."""
    return answer(await _cluster(request))


async def create(request: web.Request) -> web.Response:
    """Register a cluster."""
    name, data = request.match_info["cluster"], await json_object(request)
    policies = broker_of(request).policies
    if await policies.cluster(name) is not None:
        raise conflict("Cluster already exists")
    await policies.put_cluster(name, data, create=True)
    return no_content()


async def update(request: web.Request) -> web.Response:
    """Change a cluster's addresses."""
    await _cluster(request)
    data = await json_object(request)
    await broker_of(request).policies.put_cluster(request.match_info["cluster"], data, create=False)
    return no_content()


async def delete(request: web.Request) -> web.Response:
    """Forget a cluster that no namespace uses."""
    await _cluster(request)
    name, policies = request.match_info["cluster"], broker_of(request).policies
    for tenant in await policies.tenants():
        for namespace in await policies.namespaces(tenant):
            found = await policies.namespace(namespace) or {}
            if name in found.get("replication_clusters", []):
                raise precondition_failed("Cluster not empty")
    await policies.delete_cluster(name)
    return no_content()


async def peers(request: web.Request) -> web.Response:
    """The clusters that may stand in for this one."""
    return answer((await _cluster(request)).get("peerClusterNames"))


async def isolation_policies(request: web.Request) -> web.Response:
    """Which brokers may serve which namespaces, by policy name."""
    await _cluster(request)
    return answer(await _read(request, "namespaceIsolationPolicies") or {})


async def isolation_policy(request: web.Request) -> web.Response:
    """One isolation policy."""
    await _cluster(request)
    found = await _read(request, "namespaceIsolationPolicies") or {}
    name = request.match_info["policy"]
    if name not in found:
        raise not_found(
            f"Cannot find NamespaceIsolationPolicy {name} for cluster "
            f"{request.match_info['cluster']}"
        )
    return answer(found[name])


async def put_isolation_policy(request: web.Request) -> web.Response:
    """Create or replace an isolation policy."""
    await _cluster(request)
    policy = await json_object(request)
    for required in ("namespaces", "primary", "auto_failover_policy"):
        if not policy.get(required):
            raise RestError(
                HTTPStatus.BAD_REQUEST,
                f"Invalid json of isolation policy: {required} is missing",
            )
    found = await _read(request, "namespaceIsolationPolicies") or {}
    found[request.match_info["policy"]] = policy
    await _write(request, "namespaceIsolationPolicies", found)
    return no_content()


async def delete_isolation_policy(request: web.Request) -> web.Response:
    """Remove an isolation policy."""
    await _cluster(request)
    found = await _read(request, "namespaceIsolationPolicies") or {}
    found.pop(request.match_info["policy"], None)
    await _write(request, "namespaceIsolationPolicies", found)
    return no_content()


async def failure_domains(request: web.Request) -> web.Response:
    """Which brokers fail together, by domain name."""
    await _cluster(request)
    metadata = broker_of(request).metadata
    found = {}
    for name in await metadata.children(_path(request, "failureDomain")):
        found[name] = await _read(request, f"failureDomain/{name}")
    return answer(found)


async def failure_domain(request: web.Request) -> web.Response:
    """One failure domain."""
    name = request.match_info["domain"]
    found = await _read(request, f"failureDomain/{name}")
    if found is None:
        raise not_found(f"Domain-name {name} or cluster {request.match_info['cluster']} not found")
    return answer(found)


async def put_failure_domain(request: web.Request) -> web.Response:
    """Create or replace a failure domain; a broker belongs to one domain at most."""
    await _cluster(request)
    name, domain = request.match_info["domain"], await json_object(request)
    wanted = set(domain.get("brokers") or [])
    for other in await broker_of(request).metadata.children(_path(request, "failureDomain")):
        taken = wanted & set((await _read(request, f"failureDomain/{other}") or {})["brokers"])
        if other != name and taken:
            raise conflict(f"{sorted(taken)} already exist in domain {other}")
    await _write(request, f"failureDomain/{name}", {"brokers": sorted(wanted)})
    return no_content()


async def delete_failure_domain(request: web.Request) -> web.Response:
    """Remove a failure domain."""
    await failure_domain(request)
    await broker_of(request).metadata.delete(
        _path(request, f"failureDomain/{request.match_info['domain']}")
    )
    return no_content()


async def _cluster(request: web.Request) -> dict[str, Json]:
    found = await broker_of(request).policies.cluster(request.match_info["cluster"])
    if found is None:
        raise not_found("Cluster does not exist")
    return found


def _path(request: web.Request, tail: str) -> str:
    return f"/admin/clusters/{request.match_info['cluster']}/{tail}"


async def _read(request: web.Request, tail: str) -> Json:
    stored = await broker_of(request).metadata.get(_path(request, tail))
    return None if stored is None or not stored.value else json.loads(stored.value)


async def _write(request: web.Request, tail: str, value: Json) -> None:
    await broker_of(request).metadata.put(_path(request, tail), json.dumps(value).encode())
