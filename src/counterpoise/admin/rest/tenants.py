"""``/admin/v2/tenants``: the tenants, their administrators and the clusters that they may use."""

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import conflict, not_allowed, not_found, precondition_failed, refused
from counterpoise.admin.redirect import ask
from counterpoise.admin.request import answer, body_of, broker_of, flag
from counterpoise.admin.shapes import Json, Shape, list_of, nullable, object_of, text
from counterpoise.broker.face import BadVersion, NotEmpty, NotFound

BASE = "/admin/v2/tenants"
TENANT = f"{BASE}/{{tenant}}"
TENANT_INFO = Shape(
    nullable(object_of({"adminRoles": list_of(text()), "allowedClusters": list_of(text())}))
)


routes = route.Routes()


@routes.get(BASE, access.tenants("LIST_TENANTS"))
async def names(request: web.Request) -> web.Response:
    """The names of all tenants."""
    return answer(await broker_of(request).policies.tenants())


@routes.get(TENANT, access.tenant_itself("GET_TENANT"))
async def get(request: web.Request) -> web.Response:
    """A tenant's clusters and administrators."""
    found = await broker_of(request).policies.tenant(request.match_info["tenant"])
    if found is None:
        raise not_found("Tenant does not exist")
    return answer(found)


@routes.put(TENANT, access.tenant_itself("CREATE_TENANT"), TENANT_INFO)
async def create(request: web.Request) -> None:
    """Create a tenant."""
    name, policies = request.match_info["tenant"], broker_of(request).policies
    info = await _checked(request)
    most = broker_of(request).config.creation_limits.tenants
    if 0 < most <= len(await policies.tenants()):
        raise precondition_failed("Exceed the maximum number of tenants")
    with refused(BadVersion, conflict("Tenant already exist")):
        await policies.tenant_node(name).create(info)


@routes.post(TENANT, access.tenant_itself("UPDATE_TENANT"), TENANT_INFO)
async def update(request: web.Request) -> None:
    """Change a tenant's clusters and administrators."""
    name, policies = request.match_info["tenant"], broker_of(request).policies
    info = await _checked(request)
    with refused(NotFound, not_found(f"Tenant {name} not found")):
        await policies.tenant_node(name).replace(info)


@routes.delete(TENANT, access.tenant_itself("DELETE_TENANT"), query=route.FORCE)
async def delete(request: web.Request) -> None:
    """Remove a tenant; with ``force=true`` its namespaces and their topics too."""
    name, policies = request.match_info["tenant"], broker_of(request).policies
    force = flag(request, "force")
    if force and not broker_of(request).config.forced_deletion.tenants:
        raise not_allowed("Broker doesn't allow forced deletion of tenants")
    if await policies.tenant(name) is None:
        raise not_found("Tenant doesn't exist")
    namespaces = await policies.namespaces(name)
    if namespaces and not force:
        raise conflict("The tenant still has active namespaces")
    for namespace in namespaces:
        await ask(request, "DELETE", f"/admin/v2/namespaces/{namespace}?force=true")
    try:
        await policies.delete_tenant(name)
    except NotFound:
        raise not_found("Tenant doesn't exist") from None
    except NotEmpty:
        raise conflict("The tenant still has active namespaces") from None


async def _checked(request: web.Request) -> dict[str, Json]:
    info = body_of(request)
    if info is None:
        raise precondition_failed("TenantInfo is null")
    clusters = info.get("allowedClusters")
    if not clusters:
        why = "null" if clusters is None else "empty or blank"
        raise precondition_failed(f"Clusters cannot be {why}")
    known = set(await broker_of(request).policies.clusters())
    if not set(clusters) <= known:
        raise precondition_failed("Clusters do not exist")
    lists = {"adminRoles": info.get("adminRoles"), "allowedClusters": clusters}
    return {name: sorted(set(each)) for name, each in lists.items() if each is not None}
