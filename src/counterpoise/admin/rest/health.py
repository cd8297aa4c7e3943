"""``/status.html``: whether this broker is in service, for load balancers in front of it."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from counterpoise.admin import route
from counterpoise.admin.request import plain


def routes() -> Iterable[route.Route]:
    """The paths of this resource."""
    return [route.get("/status.html", status)]


async def status(request: web.Request) -> web.Response:
    """``OK`` while the broker serves."""
    return plain("OK")
