"""``/admin/v2/openapi.json``: the OpenAPI description of this API."""

from collections.abc import Iterable

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.openapi import describe
from counterpoise.admin.request import answer

ROUTES: web.AppKey[Iterable[route.Route]] = web.AppKey("routes")


routes = route.Routes()


@routes.get("/admin/v2/openapi.json", access.KNOWN)
async def description(request: web.Request) -> web.Response:
    """The OpenAPI description: every route with its parameters and its body."""
    return answer(describe(request.app[ROUTES]))
