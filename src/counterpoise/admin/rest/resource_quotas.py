"""``/admin/v2/resource-quotas``: the load that a bundle is assumed to have before any broker
reports it.

The modular load manager takes it for the bundle's averages as long as it has no other data.
"""

from typing import Final

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import not_found, refused
from counterpoise.admin.request import answer, broker_of, bundle_of, object_of_body
from counterpoise.admin.shapes import FLAG, NUMBER, Json, Shape, object_of
from counterpoise.broker.face import NotFound

BASE: Final = "/admin/v2/resource-quotas"
BUNDLE: Final = f"{BASE}/{{tenant}}/{{namespace}}/{{bundle}}"
INITIAL: Final[dict[str, Json]] = {
    "msgRateIn": 40.0,
    "msgRateOut": 120.0,
    "bandwidthIn": 100_000.0,
    "bandwidthOut": 300_000.0,
    "memory": 80.0,
    "dynamic": True,
}
"""Pulsar's default quota, in messages/s, bytes/s and MB; it applies until another default is
set."""
QUOTA: Final = Shape(object_of({**dict.fromkeys(INITIAL, NUMBER), "dynamic": FLAG}))


routes = route.Routes()


@routes.get(BASE, access.SUPER_USER)
async def get_default(request: web.Request) -> web.Response:
    """The quota of bundles that have none of their own."""
    return answer(await broker_of(request).policies.resource_quota().get() or INITIAL)


@routes.post(BASE, access.SUPER_USER, QUOTA)
async def set_default(request: web.Request) -> None:
    """Set the quota of bundles that have none of their own."""
    quota = _whole(object_of_body(request))
    await broker_of(request).policies.resource_quota().replace(quota, create=True)


@routes.get(BUNDLE, access.SUPER_USER)
async def get(request: web.Request) -> web.Response:
    """The quota of a bundle, else the default one."""
    bundle, policies = await bundle_of(request), broker_of(request).policies
    found = (
        await policies.resource_quota(str(bundle)).get() or await policies.resource_quota().get()
    )
    return answer(found or INITIAL)


@routes.post(BUNDLE, access.SUPER_USER, QUOTA)
async def put(request: web.Request) -> None:
    """Set the quota of a bundle: its assumed load until a broker reports it."""
    bundle, quota = await bundle_of(request), _whole(object_of_body(request))
    await broker_of(request).policies.resource_quota(str(bundle)).replace(quota, create=True)


@routes.delete(BUNDLE, access.SUPER_USER)
async def reset(request: web.Request) -> None:
    """Remove the quota of a bundle: the default quota applies again."""
    bundle = await bundle_of(request)
    with refused(NotFound, not_found(f"path /loadbalance/resource-quota/{bundle} not found.")):
        await broker_of(request).policies.resource_quota(str(bundle)).delete()


def _whole(given: dict[str, Json]) -> dict[str, Json]:
    """A quota with all of its fields: those that are not given are 0, as in Java."""
    blank: dict[str, Json] = {**dict.fromkeys(INITIAL, 0.0), "dynamic": False}
    return {
        name: value if given.get(name) is None else given[name] for name, value in blank.items()
    }
