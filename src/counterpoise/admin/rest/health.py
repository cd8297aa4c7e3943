"""``/status.html``: whether this broker is in service, for load balancers in front of it."""

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.request import plain

routes = route.Routes()


@routes.get("/status.html", access.ANYBODY)
async def status(request: web.Request) -> web.Response:
    """``OK`` while the broker serves; for load balancers that probe it."""
    return plain("OK")
