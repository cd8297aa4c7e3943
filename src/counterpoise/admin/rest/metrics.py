"""``/metrics``: a broker's figures for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from counterpoise.admin import route
from counterpoise.admin.metrics.exposition import content_type, gathered, text_of
from counterpoise.admin.packed import Packed, answer_with
from counterpoise.admin.request import broker_of
from counterpoise.admin.shared_answers import SHARED


def routes() -> Iterable[route.Route]:
    """The paths of this resource; Prometheus is usually given the one with the slash."""
    return [route.get("/metrics", metrics), route.get("/metrics/", metrics)]


async def metrics(request: web.Request) -> web.StreamResponse:
    """Every figure of this broker."""
    broker = broker_of(request)

    async def make() -> Packed:
        return await text_of(gathered(broker))

    text = await request.app[SHARED].get("metrics", make)
    return answer_with(text, content_type())
