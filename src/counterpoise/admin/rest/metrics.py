"""``/metrics``: a broker's metrics for Prometheus."""

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.metrics.exposition import content_type, gathered, text_of
from counterpoise.admin.packed import Packed, answer_with
from counterpoise.admin.request import broker_of
from counterpoise.admin.shared_answers import SHARED

routes = route.Routes()


@routes.get("/metrics", access.METRICS)
@routes.get("/metrics/", access.METRICS)
async def metrics(request: web.Request) -> web.StreamResponse:
    """All metrics of this broker in Prometheus' text format."""
    broker = broker_of(request)

    async def make() -> Packed:
        return await text_of(gathered(broker))

    text = await request.app[SHARED].get("metrics", make)
    return answer_with(text, content_type())
