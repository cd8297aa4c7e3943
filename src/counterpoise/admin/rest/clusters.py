"""``/admin/v2/clusters``: the clusters of this instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiohttp import web

from counterpoise.admin.errors import conflict, not_found, precondition_failed
from counterpoise.admin.request import Json, answer, broker_of, json_object, no_content

BASE = "/admin/v2/clusters"
CLUSTER = f"{BASE}/{{cluster}}"
CLUSTER_DEFAULTS: Mapping[str, Json] = {
    "brokerClientTlsEnabled": False,
    "tlsAllowInsecureConnection": False,
    "brokerClientTlsEnabledWithKeyStore": False,
    "brokerClientTlsTrustStoreType": "JKS",
    "brokerClientTlsKeyStoreType": "JKS",
    "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
}
"""What ``ClusterData`` says where nothing was set."""


def routes() -> Iterable[web.AbstractRouteDef]:
    """The paths of this resource."""
    return [
        web.get(BASE, names),
        web.get(CLUSTER, get),
        web.put(CLUSTER, create),
        web.post(CLUSTER, update),
        web.delete(CLUSTER, delete),
        web.get(f"{CLUSTER}/peers", peers),
    ]


async def names(request: web.Request) -> web.Response:
    """The names of all clusters."""
    return answer(await broker_of(request).policies.clusters())


async def get(request: web.Request) -> web.Response:
    """One cluster's addresses."""
    return answer({**CLUSTER_DEFAULTS, **await require_cluster(request)})


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
    await require_cluster(request)
    data = await json_object(request)
    await broker_of(request).policies.put_cluster(request.match_info["cluster"], data, create=False)
    return no_content()


async def delete(request: web.Request) -> web.Response:
    """Forget a cluster that no namespace uses."""
    await require_cluster(request)
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
    return answer((await require_cluster(request)).get("peerClusterNames"))


async def require_cluster(request: web.Request) -> dict[str, Json]:
    """The cluster in the path; 404 when there is none."""
    found = await broker_of(request).policies.cluster(request.match_info["cluster"])
    if found is None:
        raise not_found("Cluster does not exist")
    return found
