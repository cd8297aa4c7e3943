"""A single property of a namespace: read, set, remove."""

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.request import namespace_of, nothing, plain
from counterpoise.admin.rest.namespace_policies import update
from counterpoise.admin.rest.namespaces import NAMESPACE, require_namespace

PROPERTY = f"{NAMESPACE}/property/{{key}}"


routes = route.Routes()


@routes.get(PROPERTY, access.TENANT_ADMIN)
async def get(request: web.Request) -> web.Response:
    """The property's value; nothing if it is not set."""
    policies = await require_namespace(request, namespace_of(request))
    key = request.match_info["key"]
    found = (policies.get("properties") or {}).get(key)
    return nothing() if found is None else plain(found)


@routes.put(f"{PROPERTY}/{{value}}", access.TENANT_ADMIN)
async def put(request: web.Request) -> None:
    """Set one property of the namespace."""
    key, value = request.match_info["key"], request.match_info["value"]
    await update(request, lambda it: it.update(properties={**_of(it), key: value}))


@routes.delete(PROPERTY, access.TENANT_ADMIN)
async def remove(request: web.Request) -> web.Response:
    """Remove the property; answers with the value it had."""
    policies = await require_namespace(request, namespace_of(request))
    key = request.match_info["key"]
    found = _of(policies).get(key)
    await update(
        request, lambda it: it.update(properties={k: v for k, v in _of(it).items() if k != key})
    )
    return nothing() if found is None else plain(found)


def _of(policies: dict[str, object]) -> dict[str, str]:
    found = policies.get("properties")
    return found if isinstance(found, dict) else {}
