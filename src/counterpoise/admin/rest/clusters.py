"""``/admin/v2/clusters``: the clusters of this instance."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus

from aiohttp import web

from counterpoise.admin import access, errors, route
from counterpoise.admin.request import answer, body_of, broker_of, nothing, object_of_body
from counterpoise.admin.shapes import FLAG, Json, Shape, list_of, nullable, object_of, text
from counterpoise.broker.face import BadVersion, NotFound

BASE = "/admin/v2/clusters"
CLUSTER = f"{BASE}/{{cluster}}"
CLUSTER_DEFAULTS: Mapping[str, Json] = {
    "brokerClientTlsEnabled": False,
    "tlsAllowInsecureConnection": False,
    "brokerClientTlsEnabledWithKeyStore": False,
}
"""The fields of ``ClusterData`` that are answered even if they were never set."""
CLUSTER_DATA = Shape(
    object_of(
        {
            **{
                name: text()
                for name in (
                    "serviceUrl",
                    "serviceUrlTls",
                    "brokerServiceUrl",
                    "brokerServiceUrlTls",
                    "proxyServiceUrl",
                    "authenticationPlugin",
                    "authenticationParameters",
                    "brokerClientTrustCertsFilePath",
                    "listenerName",
                )
            },
            "brokerClientTlsEnabled": FLAG,
            "tlsAllowInsecureConnection": FLAG,
            "peerClusterNames": list_of(text()),
        }
    )
)
SCHEMES: Mapping[str, tuple[str, str]] = {
    "serviceUrl": ("service", "http://pulsar.example.com:8080"),
    "serviceUrlTls": ("service tls", "https://pulsar.example.com:8443"),
    "brokerServiceUrl": ("broker service", "pulsar://pulsar.example.com:6650"),
    "brokerServiceUrlTls": ("broker service tls", "pulsar+ssl://pulsar.example.com:6651"),
}
"""What Pulsar calls an address of a cluster, and an example of one with the scheme it must have."""
PEERS = Shape(nullable(list_of(text())))


routes = route.Routes()


def _checked(data: dict[str, Json]) -> dict[str, Json]:
    """Return a cluster's data as it is; raises `RestError` if an address has a wrong scheme."""
    for field, (kind, example) in SCHEMES.items():
        address = data.get(field)
        if address and str(address).partition(":")[0] != example.partition(":")[0]:
            raise errors.bad_request(f"Illegal {kind} url, example: {example}")
    return data


@routes.get(BASE, access.KNOWN)
async def names(request: web.Request) -> web.Response:
    """The names of all clusters, without ``global`` of Pulsar 1."""
    found = await broker_of(request).policies.clusters()
    return answer([each for each in found if each != "global"])


@routes.get(CLUSTER, access.cluster("GET_CLUSTER"))
async def get(request: web.Request) -> web.Response:
    """The addresses of a cluster; 404 if it is not registered."""
    return answer({**CLUSTER_DEFAULTS, **await require_cluster(request)})


@routes.put(CLUSTER, access.cluster("CREATE_CLUSTER"), CLUSTER_DATA)
async def create(request: web.Request) -> web.Response:
    """Register a cluster with its addresses; 409 if it exists already."""
    name, data = request.match_info["cluster"], _checked(object_of_body(request))
    with errors.refused(BadVersion, errors.conflict("Cluster already exists")):
        await broker_of(request).policies.cluster(name).create(data)
    return nothing()


@routes.post(CLUSTER, access.cluster("UPDATE_CLUSTER"), CLUSTER_DATA)
async def update(request: web.Request) -> web.Response:
    """Change a cluster's addresses; 404 if it is not registered."""
    name, data = request.match_info["cluster"], _checked(object_of_body(request))
    with errors.refused(NotFound, errors.not_found("Cluster does not exist")):
        await broker_of(request).policies.cluster(name).replace(data)
    return nothing()


@routes.delete(CLUSTER, access.cluster("DELETE_CLUSTER"))
async def delete(request: web.Request) -> None:
    """Remove a cluster that no namespace uses, and that has no isolation policies."""
    await require_cluster(request)
    name, policies = request.match_info["cluster"], broker_of(request).policies
    if await policies.isolation_policies(name).get():
        raise errors.precondition_failed("Cluster not empty")
    for namespace in await policies.all_namespaces():
        found = await policies.namespace(namespace) or {}
        if name in found.get("replication_clusters", []):
            raise errors.precondition_failed("Cluster not empty")
    with errors.refused(NotFound, errors.not_found("Cluster does not exist")):
        await policies.delete_cluster(name)


@routes.get(f"{CLUSTER}/peers", access.cluster("GET_PEER_CLUSTER"))
async def peers(request: web.Request) -> web.Response:
    """The peer clusters of a cluster, which may take over its namespaces."""
    found = (await require_cluster(request)).get("peerClusterNames")
    return nothing() if found is None else answer(found)


@routes.post(f"{CLUSTER}/peers", access.cluster("UPDATE_PEER_CLUSTER"), PEERS)
async def set_peers(request: web.Request) -> None:
    """Set a cluster's peer clusters, which have to be registered, and other than itself."""
    name, given = request.match_info["cluster"], body_of(request)
    peers = None if given is None else list(dict.fromkeys(given))
    data, policies = await require_cluster(request), broker_of(request).policies
    for peer in peers or ():
        if peer == name:
            raise errors.precondition_failed(f"{name} itself can't be part of peer-list")
        if await policies.cluster(peer).get() is None:
            raise errors.precondition_failed(f"Peer cluster {peer} does not exist")
    await policies.cluster(name).replace({**data, "peerClusterNames": peers})


async def require_known_clusters(request: web.Request, names: Iterable[str]) -> None:
    """Raise 403 if one of the clusters that a request names is not registered."""
    known = set(await broker_of(request).policies.clusters())
    for name in names:
        if name not in known:
            raise errors.RestError(HTTPStatus.FORBIDDEN, f"Invalid cluster id: {name}")


async def require_allowed_clusters(request: web.Request, names: Iterable[str]) -> None:
    """Raise 403 if the tenant in the path may not use one of the clusters that a request names."""
    tenant = request.match_info["tenant"]
    allowed = (await broker_of(request).policies.tenant(tenant) or {}).get("allowedClusters") or ()
    for name in names:
        if name not in allowed:
            raise errors.RestError(
                HTTPStatus.FORBIDDEN,
                f"Cluster [{name}] is not in the list of allowed clusters list for tenant "
                f"[{tenant}]",
            )


async def require_cluster(request: web.Request) -> dict[str, Json]:
    """The cluster in the path; 404 if it is not registered."""
    found = await broker_of(request).policies.cluster(request.match_info["cluster"]).get()
    if found is None:
        raise errors.not_found("Cluster does not exist")
    return found
