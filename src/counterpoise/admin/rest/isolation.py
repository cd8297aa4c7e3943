"""Which brokers may serve which namespaces, and which brokers fail together.

Below ``/admin/v2/clusters/{cluster}``: ``namespaceIsolationPolicies`` and ``failureDomains``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from http import HTTPStatus

from aiohttp import web

from counterpoise.admin.errors import RestError, conflict, not_found
from counterpoise.admin.request import Json, answer, broker_of, json_object, no_content
from counterpoise.admin.rest.clusters import CLUSTER, require_cluster

POLICIES = f"{CLUSTER}/namespaceIsolationPolicies"
DOMAINS = f"{CLUSTER}/failureDomains"
STORED_POLICIES = "namespaceIsolationPolicies"
STORED_DOMAINS = "failureDomain"


def routes() -> Iterable[web.AbstractRouteDef]:
    """The paths of this resource."""
    return [
        web.get(POLICIES, isolation_policies),
        web.get(f"{POLICIES}/brokers", isolated_brokers),
        web.get(f"{POLICIES}/brokers/{{broker}}", isolated_broker),
        web.get(f"{POLICIES}/{{policy}}", isolation_policy),
        web.post(f"{POLICIES}/{{policy}}", put_isolation_policy),
        web.delete(f"{POLICIES}/{{policy}}", delete_isolation_policy),
        web.get(DOMAINS, failure_domains),
        web.get(f"{DOMAINS}/{{domain}}", failure_domain),
        web.post(f"{DOMAINS}/{{domain}}", put_failure_domain),
        web.delete(f"{DOMAINS}/{{domain}}", delete_failure_domain),
    ]


async def isolation_policies(request: web.Request) -> web.Response:
    """Which brokers may serve which namespaces, by policy name."""
    await require_cluster(request)
    found = await _read(request, STORED_POLICIES)
    if found is None:
        cluster = request.match_info["cluster"]
        raise not_found(f"NamespaceIsolationPolicies for cluster {cluster} does not exist")
    return answer(found)


async def isolation_policy(request: web.Request) -> web.Response:
    """One isolation policy."""
    await require_cluster(request)
    found = await _read(request, STORED_POLICIES) or {}
    name = request.match_info["policy"]
    if name not in found:
        raise not_found(
            f"Cannot find NamespaceIsolationPolicy {name} for cluster "
            f"{request.match_info['cluster']}"
        )
    return answer(found[name])


async def put_isolation_policy(request: web.Request) -> web.Response:
    """Create or replace an isolation policy."""
    await require_cluster(request)
    policy = await json_object(request)
    for required in ("namespaces", "primary", "auto_failover_policy"):
        if not policy.get(required):
            raise RestError(
                HTTPStatus.BAD_REQUEST,
                f"Invalid json of isolation policy: {required} is missing",
            )
    found = await _read(request, STORED_POLICIES) or {}
    found[request.match_info["policy"]] = policy
    await _write(request, STORED_POLICIES, found)
    return no_content()


async def delete_isolation_policy(request: web.Request) -> web.Response:
    """Remove an isolation policy."""
    await require_cluster(request)
    found = await _read(request, STORED_POLICIES) or {}
    found.pop(request.match_info["policy"], None)
    await _write(request, STORED_POLICIES, found)
    return no_content()


async def isolated_brokers(request: web.Request) -> web.Response:
    """For every active broker, the namespaces that isolation policies give it."""
    await require_cluster(request)
    found = await _read(request, STORED_POLICIES) or {}
    return answer([_isolation(each, found) for each in await broker_of(request).active_brokers()])


async def isolated_broker(request: web.Request) -> web.Response:
    """The namespaces that isolation policies give to one broker."""
    await require_cluster(request)
    found = await _read(request, STORED_POLICIES) or {}
    return answer(_isolation(request.match_info["broker"], found))


async def failure_domains(request: web.Request) -> web.Response:
    """Which brokers fail together, by domain name."""
    await require_cluster(request)
    metadata = broker_of(request).metadata
    found = {}
    for name in await metadata.children(_path(request, STORED_DOMAINS)):
        found[name] = await _read(request, f"{STORED_DOMAINS}/{name}")
    return answer(found)


async def failure_domain(request: web.Request) -> web.Response:
    """One failure domain."""
    name = request.match_info["domain"]
    found = await _read(request, f"{STORED_DOMAINS}/{name}")
    if found is None:
        raise not_found(f"Domain-name {name} or cluster {request.match_info['cluster']} not found")
    return answer(found)


async def put_failure_domain(request: web.Request) -> web.Response:
    """Create or replace a failure domain; a broker belongs to one domain at most."""
    await require_cluster(request)
    name, domain = request.match_info["domain"], await json_object(request)
    wanted = set(domain.get("brokers") or [])
    for other in await broker_of(request).metadata.children(_path(request, STORED_DOMAINS)):
        taken = wanted & set((await _read(request, f"{STORED_DOMAINS}/{other}") or {})["brokers"])
        if other != name and taken:
            raise conflict(f"{sorted(taken)} already exist in domain {other}")
    await _write(request, f"{STORED_DOMAINS}/{name}", {"brokers": sorted(wanted)})
    return no_content()


async def delete_failure_domain(request: web.Request) -> web.Response:
    """Remove a failure domain."""
    await failure_domain(request)
    await broker_of(request).metadata.delete(
        _path(request, f"{STORED_DOMAINS}/{request.match_info['domain']}")
    )
    return no_content()


def _isolation(broker: str, policies: dict[str, Json]) -> dict[str, Json]:
    """``BrokerNamespaceIsolationData``: expressions are matched on the host alone."""
    host = broker.rpartition(":")[0]
    told: dict[str, Json] = {"brokerName": broker, "namespaceRegex": [], "primary": False}
    for name, policy in sorted(policies.items()):
        primary = any(re.fullmatch(each, host) for each in policy.get("primary") or [])
        secondary = any(re.fullmatch(each, host) for each in policy.get("secondary") or [])
        if primary or secondary:
            told["policyName"] = name
            told["namespaceRegex"] += policy.get("namespaces") or []
            told["primary"] = told["primary"] or primary
    return told


def _path(request: web.Request, tail: str) -> str:
    return f"/admin/clusters/{request.match_info['cluster']}/{tail}"


async def _read(request: web.Request, tail: str) -> Json:
    stored = await broker_of(request).metadata.get(_path(request, tail))
    return None if stored is None or not stored.value else json.loads(stored.value)


async def _write(request: web.Request, tail: str, value: Json) -> None:
    await broker_of(request).metadata.put(_path(request, tail), json.dumps(value).encode())
