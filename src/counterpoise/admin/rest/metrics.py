"""``/metrics``: a broker's figures for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiohttp import web
from aiohttp.hdrs import CONTENT_TYPE

from counterpoise.admin import route
from counterpoise.admin.metrics.exposition import content_type, gathered, text_of
from counterpoise.admin.request import broker_of
from counterpoise.admin.shared_answers import SHARED


def routes() -> Iterable[route.Route]:
    """The paths of this resource; Prometheus is usually told the one with the slash."""
    return [route.get("/metrics", metrics), route.get("/metrics/", metrics)]


async def metrics(request: web.Request) -> web.Response:
    """Every figure of this broker."""
    broker = broker_of(request)

    async def make() -> bytes:
        figures = await gathered(broker)
        # A hundred thousand lines take a second to write, in which messages should go on.
        return await asyncio.to_thread(text_of, figures)

    text = await request.app[SHARED].get("metrics", make)
    return web.Response(body=text, headers={CONTENT_TYPE: content_type()})
