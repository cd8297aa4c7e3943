"""``/admin/v2/broker-stats``: the measurements of this broker."""

import sys
from dataclasses import asdict

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.large_json import IN_A_TURN, encoded
from counterpoise.admin.metrics.exposition import gathered
from counterpoise.admin.packed import Packed, answer_with
from counterpoise.admin.request import answer, broker_of
from counterpoise.admin.shapes import Json
from counterpoise.admin.shared_answers import SHARED
from counterpoise.admin.topic_json import broker_topic_json
from counterpoise.broker.face import WorkBudget

BASE = "/admin/v2/broker-stats"


routes = route.Routes()


@routes.get(f"{BASE}/load-report", access.SUPER_USER)
@routes.get(f"{BASE}/load-report/", access.SUPER_USER)
async def load_report(request: web.Request) -> web.Response:
    """``LocalBrokerData``: the load by bundle and resource, as it was measured last."""
    return answer(broker_of(request).load_report().to_json())


@routes.get(f"{BASE}/topics", access.SUPER_USER)
@routes.get(f"{BASE}/destinations", access.SUPER_USER)
async def topics(request: web.Request) -> web.StreamResponse:
    """The statistics of every loaded topic, nested by namespace, bundle, domain and topic."""
    broker = broker_of(request)

    async def make() -> Packed:
        figures: dict[str, dict[str, dict[str, dict[str, Json]]]] = {}
        turns = WorkBudget(IN_A_TURN)
        for name, topic in sorted(broker.topics.loaded.items()):
            found = await broker.namespaces.bundles(name.namespace_name)
            bundles = figures.setdefault(str(name.namespace_name), {})
            domains = bundles.setdefault(str(found.bundle_of(name).range), {})
            found_of_topic = await broker_topic_json(topic, broker.id)
            domains.setdefault(name.domain, {})[str(name)] = found_of_topic
            await turns.did()
        return await encoded(figures)

    return answer_with(await request.app[SHARED].get("figures of topics", make))


@routes.get(f"{BASE}/throttling", access.SUPER_USER)
async def throttling(request: web.Request) -> web.Response:
    """Every rate limit of this broker: how much passed it, and which producers and subscriptions
    wait at it now.
    """
    return answer([asdict(each) for each in broker_of(request).limits()])


@routes.get(f"{BASE}/shedding", access.SUPER_USER)
async def shedding(request: web.Request) -> web.Response:
    """The latest rounds of shedding by this broker as the leader: the moves, and why other brokers
    and bundles were left alone.
    """
    return answer([made.to_json() for made in list(broker_of(request).shedding.rounds)])


@routes.get(f"{BASE}/metrics", access.SUPER_USER)
async def metrics(request: web.Request) -> web.StreamResponse:
    """The figures of ``/metrics`` as JSON: a list of dimensions and values."""
    broker = broker_of(request)

    async def make() -> Packed:
        grouped: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
        async for figure in gathered(broker):
            # One object for all topics' figures of this name.
            name = sys.intern(figure.name.replace("pulsar_", "brk_", 1))
            grouped.setdefault(figure.labels, {})[name] = figure.value
        return await encoded(
            [{"dimensions": dict(labels), "metrics": found} for labels, found in grouped.items()]
        )

    return answer_with(await request.app[SHARED].get("metrics as JSON", make))


@routes.get(f"{BASE}/mbeans", access.SUPER_USER)
async def mbeans(request: web.Request) -> web.Response:
    """The MBeans of the broker: an empty list, since there is no JVM."""
    return answer([])


@routes.get(f"{BASE}/bookieops", access.SUPER_USER)
async def bookie_ops(request: web.Request) -> web.Response:
    """The operations that wait at bookies: always none."""
    return answer({})
