"""``/admin/v2/namespaces``: create, list, delete and unload namespaces."""

from functools import partial

from aiohttp import web

from counterpoise.admin import access, errors, route
from counterpoise.admin.backlog_quota import whole_quota
from counterpoise.admin.many import Patience, try_all
from counterpoise.admin.policies import ALL_POLICIES, NEW_POLICIES
from counterpoise.admin.redirect import ask, ask_if_found
from counterpoise.admin.request import answer, broker_of, flag, namespace_of, object_of_body
from counterpoise.admin.rest.clusters import require_allowed_clusters
from counterpoise.admin.shapes import FLAG, Json, text
from counterpoise.broker.face import DOMAINS_OF_MODE, BadVersion, NotEmpty, NotFound, bundles_json
from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName

BASE = "/admin/v2/namespaces"
NAMESPACE = f"{BASE}/{{tenant}}/{{namespace}}"
BUNDLES_MAX = 16_384
"""The most bundles that a namespace can be created with: their boundaries fill one metadata
node."""


routes = route.Routes()


@routes.get(f"{BASE}/{{tenant}}", access.tenant("LIST_NAMESPACES"))
async def names(request: web.Request) -> web.Response:
    """The namespaces of a tenant."""
    tenant, policies = request.match_info["tenant"], broker_of(request).policies
    if await policies.tenant(tenant) is None:
        raise errors.not_found("Tenant not found")
    return answer([str(each) for each in await policies.namespaces(tenant)])


@routes.get(NAMESPACE, access.NAMESPACE_POLICY)
async def get(request: web.Request) -> web.Response:
    """A namespace's policies, with the bundles it has now."""
    namespace = namespace_of(request)
    policies = await require_namespace(request, namespace)
    bundles = await broker_of(request).namespaces.bundles(namespace)
    return answer({**policies, "bundles": bundles_json(bundles)})


@routes.put(NAMESPACE, access.tenant("CREATE_NAMESPACE"), ALL_POLICIES)
async def create(request: web.Request) -> None:
    """Create a namespace; the body may hold policies and bundles."""
    namespace, broker = namespace_of(request), broker_of(request)
    requested = object_of_body(request)
    if await broker.policies.tenant(namespace.tenant) is None:
        raise errors.not_found("Tenant does not exist")
    clusters = requested.get("replication_clusters") or [broker.config.cluster_name]
    await require_allowed_clusters(request, clusters)
    most = broker.config.creation_limits.namespaces
    if 0 < most <= len(await broker.policies.namespaces(namespace.tenant)):
        raise errors.precondition_failed(
            f"Exceed the maximum number of namespace in tenant :{namespace.tenant}"
        )
    count = broker.config.default_number_of_namespace_bundles
    bundles = wanted_bundles(namespace, requested.get("bundles"), count)
    policies = {
        **NEW_POLICIES,
        **{name: value for name, value in requested.items() if value is not None},
        "bundles": bundles_json(bundles),
        "replication_clusters": clusters,
    }
    quotas = policies["backlog_quota_map"]
    policies["backlog_quota_map"] = {kind: whole_quota(each) for kind, each in quotas.items()}
    with errors.refused(BadVersion, errors.conflict("Namespace already exists")):
        await broker.policies.shared_policies(namespace).create(policies)


@routes.delete(NAMESPACE, access.tenant("DELETE_NAMESPACE"), query=route.FORCE)
async def delete(request: web.Request) -> None:
    """Remove a namespace; with ``force=true`` its topics too."""
    namespace, broker = namespace_of(request), broker_of(request)
    force = flag(request, "force")
    if force and not broker.config.forced_deletion.namespaces:
        raise errors.not_allowed("Broker doesn't allow forced deletion of namespaces")
    if await broker.policies.namespace(namespace) is None:
        raise errors.not_found(f"Namespace {namespace} does not exist.")
    if force:
        # Clients that connect again must not create the topics again.
        await broker.policies.shared_policies(namespace).change(lambda it: {**it, "deleted": True})
    found = await all_topics(request, namespace)
    if found and not force:
        raise errors.conflict("Cannot delete non empty namespace")
    patience = Patience()
    for topic in found:
        path = f"/admin/v2/{TopicName.parse(topic).rest_path}?force=true"
        await patience.repeat(partial(ask_if_found, request, "DELETE", path))
    for domain in ("persistent", "non-persistent"):
        for name in await broker.policies.partitioned_topics(namespace, domain):
            await broker.policies.partitioned_topic(name).delete(missing_ok=True)
    # Bundles are deleted, since unloading them would find each a new owner.
    await _of_bundles(request, "DELETE", namespace, "", "released")
    try:
        await broker.policies.delete_namespace(namespace)
    except NotFound:
        raise errors.not_found("Namespace does not exist") from None
    except NotEmpty:
        raise errors.conflict("Cannot delete non empty namespace") from None


@routes.get(
    f"{NAMESPACE}/topics",
    access.namespace("GET_TOPICS"),
    {"mode": text(*DOMAINS_OF_MODE), "includeSystemTopic": FLAG},
)
async def topics(request: web.Request) -> web.Response:
    """The topics of a namespace; ``mode`` is PERSISTENT (the default), NON_PERSISTENT or ALL."""
    namespace = namespace_of(request)
    await require_namespace(request, namespace)
    mode = request.query.get("mode", "PERSISTENT").upper()
    if mode not in DOMAINS_OF_MODE:
        raise errors.bad_request(f"mode={mode}: no such kind of topic")
    found: set[str] = set()
    for domain in DOMAINS_OF_MODE[mode]:
        found.update(await ask(request, "GET", f"/admin/v2/{domain}/{namespace}"))
    return answer(sorted(found))


@routes.put(f"{NAMESPACE}/unload", access.SUPER_USER)
async def unload(request: web.Request) -> None:
    """Unload every bundle of a namespace, whichever broker owns it."""
    namespace = namespace_of(request)
    await require_found(request, namespace)
    await _of_bundles(request, "PUT", namespace, "/unload", "unloaded")


async def require_found(request: web.Request, namespace: NamespaceName) -> None:
    """Raise 404 if a namespace does not exist; unlike `require_namespace`, never for the tenant."""
    if await broker_of(request).policies.namespace(namespace) is None:
        raise errors.not_found("Namespace not found")


async def require_namespace(
    request: web.Request, namespace: NamespaceName, subject: str = "Namespace"
) -> dict[str, Json]:
    """The policies of a namespace; 404 if it does not exist, with ``subject`` in the reason."""
    broker = broker_of(request)
    found = await broker.policies.namespace(namespace)
    if found is None:
        # Pulsar reads the tenant only to check its administrators, so only with authorization.
        asks = broker.config.authorization.enabled
        no_tenant = asks and await broker.policies.tenant(namespace.tenant) is None
        raise errors.not_found(f"{'Tenant' if no_tenant else subject} does not exist")
    return found


async def all_topics(request: web.Request, namespace: NamespaceName) -> list[str]:
    """The names of all topics of a namespace; each partition is listed as a topic."""
    found: list[str] = await ask(request, "GET", f"{BASE}/{namespace}/topics?mode=ALL")
    return found


def wanted_bundles(namespace: NamespaceName, requested: Json, default: int) -> NamespaceBundles:
    """The bundles that a request asks for, by boundaries or by number; else the default number."""
    if requested is None:
        return NamespaceBundles.of_count(namespace, default)
    boundaries = requested.get("boundaries") or []
    count = int(requested.get("numBundles") or 0)
    try:
        if max(count, len(boundaries) - 1) > BUNDLES_MAX:
            raise errors.precondition_failed(
                f"Invalid number of bundles: at most {BUNDLES_MAX}, so that the metadata store "
                "can keep their boundaries"
            )
        if boundaries:
            return NamespaceBundles.from_text(namespace, boundaries)
        if count < 0:
            raise errors.bad_request(
                "Invalid number of bundles. Number of bundles has to be in the range of (0, 2^32]."
            )
        return NamespaceBundles.of_count(namespace, count or default)
    except InvalidName as error:
        raise errors.bad_request(f"Input bundles: {error}") from None


async def _of_bundles(
    request: web.Request, method: str, namespace: NamespaceName, tail: str, done: str
) -> None:
    """Unload, or delete, every bundle of a namespace; ``done``: the word for it in an error's
    reason.
    """
    bundles = await broker_of(request).namespaces.bundles(namespace)
    paths = [f"{BASE}/{each}{tail}" for each in bundles.bundles]
    patience = Patience()
    asks = [partial(ask, request, method, path) for path in paths]
    results = await try_all([partial(patience.repeat, each) for each in asks])
    failed = [each for each in results if isinstance(each, Exception)]
    if failed:
        some = f"{len(failed)} of the namespace's {len(paths)} bundles were not {done}"
        raise errors.precondition_failed(f"{some}: {failed[0]}")
