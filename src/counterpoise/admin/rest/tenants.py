"""``/admin/v2/tenants``: who may have namespaces, and on which clusters."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from aiohttp import web

from counterpoise.admin.errors import RestError, conflict, not_found, precondition_failed
from counterpoise.admin.redirect import ask
from counterpoise.admin.request import Json, answer, broker_of, flag, json_object, no_content
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import check_entity

BASE = "/admin/v2/tenants"
TENANT = f"{BASE}/{{tenant}}"


def routes() -> Iterable[web.AbstractRouteDef]:
    """The paths of this resource."""
    return [
        web.get(BASE, names),
        web.get(TENANT, get),
        web.put(TENANT, create),
        web.post(TENANT, update),
        web.delete(TENANT, delete),
    ]


async def names(request: web.Request) -> web.Response:
    """The names of all tenants."""
    return answer(await broker_of(request).policies.tenants())


async def get(request: web.Request) -> web.Response:
    """A tenant's clusters and administrators."""
    found = await broker_of(request).policies.tenant(request.match_info["tenant"])
    if found is None:
        raise not_found("Tenant does not exist")
    return answer(found)


async def create(request: web.Request) -> web.Response:
    """Make a tenant."""
    name, policies = request.match_info["tenant"], broker_of(request).policies
    try:
        check_entity(name, "tenant", name)
    except InvalidName:
        raise precondition_failed("Tenant name is not valid") from None
    info = await _checked(request)
    if await policies.tenant(name) is not None:
        raise conflict("Tenant already exist")
    await policies.put_tenant(name, info, create=True)
    return no_content()


async def update(request: web.Request) -> web.Response:
    """Change a tenant's clusters and administrators."""
    name, policies = request.match_info["tenant"], broker_of(request).policies
    info = await _checked(request)
    if await policies.tenant(name) is None:
        raise not_found(f"Tenant {name} not found")
    await policies.put_tenant(name, info, create=False)
    return no_content()


async def delete(request: web.Request) -> web.Response:
    """Remove a tenant; with ``force=true`` its namespaces and their topics too."""
    name, policies = request.match_info["tenant"], broker_of(request).policies
    if await policies.tenant(name) is None:
        raise not_found("Tenant doesn't exist")
    namespaces = await policies.namespaces(name)
    if namespaces and not flag(request, "force"):
        raise conflict("The tenant still has active namespaces")
    for namespace in namespaces:
        await ask(request, "DELETE", f"/admin/v2/namespaces/{namespace}?force=true")
    await policies.delete_tenant(name)
    return no_content()


async def _checked(request: web.Request) -> dict[str, Json]:
    info = await json_object(request)
    clusters = info.get("allowedClusters")
    if not clusters:
        raise precondition_failed("Clusters can not be empty")
    if not isinstance(clusters, list) or not all(isinstance(each, str) for each in clusters):
        raise RestError(HTTPStatus.BAD_REQUEST, "allowedClusters must be a list of names")
    known = set(await broker_of(request).policies.clusters())
    if not set(clusters) <= known:
        raise precondition_failed("Clusters do not exist")
    return {
        "adminRoles": sorted(set(info.get("adminRoles") or [])),
        "allowedClusters": sorted(set(clusters)),
    }
