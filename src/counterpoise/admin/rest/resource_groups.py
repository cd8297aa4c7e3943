"""``/admin/v2/resourcegroups``: rate limits that the namespaces of a group share on all brokers."""

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import not_found, precondition_failed, refused
from counterpoise.admin.request import answer, broker_of, object_of_body
from counterpoise.admin.shapes import INT64, Shape, object_of, whole
from counterpoise.broker.face import NotFound

BASE = "/admin/v2/resourcegroups"
GROUP = f"{BASE}/{{resourcegroup}}"
_LIMITS = {
    "publishRateInMsgs": whole(),
    "publishRateInBytes": whole(INT64),
    "dispatchRateInMsgs": whole(),
    "dispatchRateInBytes": whole(INT64),
}
RESOURCE_GROUP = Shape(object_of(_LIMITS))
UNLIMITED = dict.fromkeys(_LIMITS, -1)
"""The response for a group without limits: -1, which means unlimited, for each limit."""


routes = route.Routes()


@routes.get(BASE, access.SUPER_USER)
async def names(request: web.Request) -> web.Response:
    """The names of all resource groups."""
    return answer(await broker_of(request).policies.resource_groups())


@routes.get(GROUP, access.SUPER_USER)
async def get(request: web.Request) -> web.Response:
    """The limits of a resource group, -1 for those that were never set."""
    found = await broker_of(request).policies.resource_group(request.match_info["resourcegroup"])
    if found is None:
        raise not_found("ResourceGroup does not exist")
    return answer({**UNLIMITED, **found})


@routes.put(GROUP, access.SUPER_USER, RESOURCE_GROUP)
async def put(request: web.Request) -> None:
    """Create a resource group, or change those of its limits that the body holds."""
    given = {name: value for name, value in object_of_body(request).items() if value is not None}
    name = request.match_info["resourcegroup"]
    node = broker_of(request).policies.resource_group_node(name)
    await node.change(lambda before: {**before, **given}, create=True)


@routes.delete(GROUP, access.SUPER_USER)
async def delete(request: web.Request) -> None:
    """Remove a resource group that no namespace belongs to."""
    name, policies = request.match_info["resourcegroup"], broker_of(request).policies
    for namespace in await policies.all_namespaces():
        found = await policies.namespace(namespace) or {}
        if found.get("resource_group_name") == name:
            raise precondition_failed(f"ResourceGroup {name} is in use by {namespace}")
    with refused(NotFound, not_found("ResourceGroup does not exist")):
        await policies.delete_resource_group(name)
