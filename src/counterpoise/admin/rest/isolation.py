"""Isolation policies (brokers for certain namespaces), and failure domains (brokers that fail
together).

Below ``/admin/v2/clusters/{cluster}``: ``namespaceIsolationPolicies`` and ``failureDomains``.
"""

from collections.abc import Callable, Mapping

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import bad_request, conflict, not_found, precondition_failed, refused
from counterpoise.admin.many import ask_each
from counterpoise.admin.parameters import whole_number
from counterpoise.admin.request import answer, broker_of, nothing, object_of_body
from counterpoise.admin.rest.clusters import CLUSTER
from counterpoise.admin.shapes import Json, Shape, list_of, map_of, object_of, text
from counterpoise.broker.face import NotFound
from counterpoise.names.patterns import compile_pattern, matches_any

POLICIES = f"{CLUSTER}/namespaceIsolationPolicies"
DOMAINS = f"{CLUSTER}/failureDomains"
FAILURE_DOMAIN = Shape(object_of({"brokers": list_of(text())}))
ISOLATION_POLICY = Shape(
    object_of(
        {
            "namespaces": list_of(text()),
            "primary": list_of(text()),
            "secondary": list_of(text()),
            "auto_failover_policy": object_of(
                {"policy_type": text("min_available"), "parameters": map_of(text())}
            ),
            "unload_scope": text("all_matching", "none", "changed"),
        }
    )
)


routes = route.Routes()


@routes.get(POLICIES, access.CLUSTER_POLICY)
async def isolation_policies(request: web.Request) -> web.Response:
    """The isolation policies of a cluster, by name."""
    await _require_cluster(request, not_found)
    return answer(await _require_policies(request))


@routes.get(f"{POLICIES}/brokers", access.CLUSTER_POLICY)
async def isolated_brokers(request: web.Request) -> web.Response:
    """For each active broker, the namespaces that isolation policies assign to it."""
    found = await _require_policies(request)
    return answer([_isolation(each, found) for each in await broker_of(request).active_brokers()])


@routes.get(f"{POLICIES}/brokers/{{broker}}", access.CLUSTER_POLICY)
async def isolated_broker(request: web.Request) -> web.Response:
    """The namespaces that isolation policies assign to one broker."""
    found = await _require_policies(request)
    return answer(_isolation(request.match_info["broker"], found))


@routes.get(f"{POLICIES}/{{policy}}", access.CLUSTER_POLICY)
async def isolation_policy(request: web.Request) -> web.Response:
    """The isolation policy of this name; 404 if there is none."""
    found = await _require_policies(request)
    name = request.match_info["policy"]
    if name not in found:
        raise not_found(
            f"Cannot find NamespaceIsolationPolicy {name} for cluster "
            f"{request.match_info['cluster']}"
        )
    return answer(found[name])


@routes.post(f"{POLICIES}/{{policy}}", access.CLUSTER_POLICY, ISOLATION_POLICY)
async def put_isolation_policy(request: web.Request) -> None:
    """Create or replace an isolation policy; the namespaces that it concerns move at once."""
    await _require_cluster(request)
    policy = object_of_body(request)
    for required in ("namespaces", "primary", "auto_failover_policy"):
        if not policy.get(required):
            raise bad_request(f"Invalid json of isolation policy: {required} is missing")
    for patterns in ("namespaces", "primary", "secondary"):
        for each in policy.get(patterns) or ():
            compile_pattern(each)
    for name, value in (policy["auto_failover_policy"].get("parameters") or {}).items():
        if name in ("min_limit", "usage_threshold"):
            whole_number(value)
    name, cluster = request.match_info["policy"], request.match_info["cluster"]
    node = broker_of(request).policies.isolation_policies(cluster)
    former = (await node.get() or {}).get(name)
    await node.change(lambda found: {**found, name: policy}, create=True)
    await _unload_affected(request, policy, former)


async def _unload_affected(
    request: web.Request, policy: Mapping[str, Json], former: Mapping[str, Json] | None
) -> None:
    """Unload the namespaces that a policy concerns, as its ``unload_scope`` says.

    Without ``all_matching`` only those which are new to the policy or have left it, or all of them
    if the primary brokers changed.
    """
    scope, affected = policy.get("unload_scope"), set(policy["namespaces"])
    if scope == "none":
        return
    if former is not None:
        before = set(former["namespaces"])
        is_moved = sorted(former["primary"]) != sorted(policy["primary"])
        affected = affected | before if is_moved or scope == "all_matching" else affected ^ before
    names = map(str, await broker_of(request).policies.all_namespaces())
    found = [each for each in names if matches_any([*affected], each)]
    await ask_each(request, "PUT", [f"/admin/v2/namespaces/{each}/unload" for each in found])


@routes.delete(f"{POLICIES}/{{policy}}", access.CLUSTER_POLICY)
async def delete_isolation_policy(request: web.Request) -> None:
    """Remove an isolation policy from a cluster."""
    await _require_cluster(request)
    name, cluster = request.match_info["policy"], request.match_info["cluster"]
    node = broker_of(request).policies.isolation_policies(cluster)
    await node.change(lambda found: {k: v for k, v in found.items() if k != name}, create=True)


@routes.get(DOMAINS, access.cluster("GET_FAILURE_DOMAIN"))
async def failure_domains(request: web.Request) -> web.Response:
    """The failure domains of a cluster, by name, with their brokers."""
    policies, cluster = broker_of(request).policies, request.match_info["cluster"]
    found = {}
    for name in await policies.failure_domain_names(cluster):
        domain = await policies.failure_domain(cluster, name).get()
        if domain is not None:
            found[name] = _brokers_of(domain)
    return answer(found)


@routes.get(f"{DOMAINS}/{{failureDomain}}", access.cluster("GET_FAILURE_DOMAIN"))
async def failure_domain(request: web.Request) -> web.Response:
    """The brokers of a failure domain; 404 if there is no such domain."""
    await _require_cluster(request)
    name, cluster = request.match_info["failureDomain"], request.match_info["cluster"]
    domain = await broker_of(request).policies.failure_domain(cluster, name).get()
    if domain is None:
        raise not_found(f"Domain {name} for cluster {cluster} does not exist")
    return answer(_brokers_of(domain))


@routes.post(
    f"{DOMAINS}/{{failureDomain}}", access.cluster("UPDATE_FAILURE_DOMAIN"), FAILURE_DOMAIN
)
async def put_failure_domain(request: web.Request) -> None:
    """Create or replace a failure domain; a broker belongs to one domain at most."""
    await _require_cluster(request)
    name, cluster = request.match_info["failureDomain"], request.match_info["cluster"]
    requested = set(object_of_body(request).get("brokers") or [])
    policies = broker_of(request).policies
    for broker, other in (await policies.failure_domains(cluster)).items():
        if other != name and broker in requested:
            raise conflict(f"[{broker}] already exists in {other}")
    domain = {"brokers": sorted(requested)}
    await policies.failure_domain(cluster, name).replace(domain, create=True)


@routes.delete(f"{DOMAINS}/{{failureDomain}}", access.cluster("DELETE_FAILURE_DOMAIN"))
async def delete_failure_domain(request: web.Request) -> web.Response:
    """Remove a failure domain."""
    await _require_cluster(request)
    name, cluster = request.match_info["failureDomain"], request.match_info["cluster"]
    missing = not_found(f"Domain-name {name} or cluster {cluster} does not exist")
    with refused(NotFound, missing):
        await broker_of(request).policies.failure_domain(cluster, name).delete()
    return nothing()


def _brokers_of(domain: dict[str, Json]) -> dict[str, Json]:
    return {"brokers": [str(each) for each in domain.get("brokers") or ()]}


async def _require_policies(request: web.Request) -> dict[str, Json]:
    """The isolation policies of a registered cluster; 404 if none was ever set."""
    await _require_cluster(request)
    cluster = request.match_info["cluster"]
    found = await broker_of(request).policies.isolation_policies(cluster).get()
    if found is None:
        raise not_found(f"NamespaceIsolationPolicies for cluster {cluster} does not exist")
    return found


async def _require_cluster(
    request: web.Request, refusal: Callable[[str], Exception] = precondition_failed
) -> None:
    """Raise 412, or what ``refusal`` makes, if the cluster in the path is not registered."""
    cluster = request.match_info["cluster"]
    if await broker_of(request).policies.cluster(cluster).get() is None:
        raise refusal(f"Cluster {cluster} does not exist.")


def _isolation(broker: str, policies: dict[str, Json]) -> dict[str, Json]:
    """``BrokerNamespaceIsolationData`` of a broker; the policies' expressions match its host
    alone.
    """
    host = broker.rpartition(":")[0]
    found: dict[str, Json] = {"brokerName": broker, "namespaceRegex": [], "primary": False}
    for name, policy in sorted(policies.items()):
        primary = matches_any(policy.get("primary") or [], host)
        secondary = matches_any(policy.get("secondary") or [], host)
        if primary or secondary:
            found["policyName"] = name
            found["namespaceRegex"] += policy.get("namespaces") or []
            found["primary"] = found["primary"] or primary
    return found
