"""The page of a fleet, which shows several clusters side by side, and the metrics of all."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from counterpoise.console.guard import OwnSite
from counterpoise.console.http_server import serve_until
from counterpoise.names.callbacks import MillisecondClock, Notify
from counterpoise.names.units import bytes_text, lasted, times
from counterpoise.picture.figures import UNEVEN
from counterpoise.pipeline.fleet.cluster_state import BalancerState, ClusterState
from counterpoise.pipeline.fleet.fleet_watch import FleetCluster, FleetWatch, watching_fleet
from counterpoise.pipeline.page.render import render

HERE = Path(__file__).parent
ALARMING = (BalancerState.LATE, BalancerState.UNREADABLE)


@dataclass(frozen=True, slots=True)
class FleetPageOptions:
    """How the clusters are polled, and under which host names the page is served."""

    every_s: float
    """Seconds between two polls of a cluster."""
    within_s: float
    """Seconds that a poll of one cluster may take."""
    names: Collection[str]
    """Host names of the page, besides IP addresses and localhost."""


@dataclass(frozen=True, slots=True)
class Card:
    """What the fleet's page shows of one cluster."""

    name: str
    console: str
    service_url: str
    figures: Sequence[tuple[str, str, bool]]
    """For each figure its label, its value, and whether it needs attention."""
    findings: Sequence[str]


def card(state: ClusterState, now_ms: int) -> Card:
    """The figures and sentences that the fleet's page shows of a cluster."""
    polled, made, uneven = state.polled, state.last_round, state.imbalance
    figures = [("Balancer", state.balancer.value, state.balancer in ALARMING)]
    if polled is not None:
        brokers = (
            f"{polled.brokers}, {len(polled.silent)} silent"
            if polled.silent
            else f"{polled.brokers}"
        )
        figures += [("Brokers", brokers, bool(polled.silent))]
        figures += [("Traffic", bytes_text(polled.bytes_per_s), False)]
    elif state.at_ms:
        figures += [("Brokers", "out of reach", True)]
    if uneven is not None:
        figures += [("Largest \N{DIVISION SIGN} mean", times(1 + uneven), uneven > UNEVEN)]
    if made is not None:
        ago = lasted((now_ms - made.at) / 1000)
        figures += [("Last round", f"{made.moves} moves, {ago} ago", False)]
    polled_ago = f"{lasted((now_ms - state.at_ms) / 1000)} ago" if state.at_ms else "not yet"
    figures += [("Last poll", polled_ago, False)]
    return Card(state.name, state.console, state.service_url, figures, state.findings)


def page(watch: FleetWatch, options: FleetPageOptions, now_ms: int) -> str:
    """The fleet's page as HTML."""
    return render(
        HERE / "fleet_page.html",
        title="Counterpoise: fleet",
        style=Markup((HERE / "style.css").read_text(encoding="utf-8")),  # noqa: S704 - a file of ours
        cards=[card(each, now_ms) for each in watch.states],
        every_s=max(1, round(options.every_s)),
    )


async def serve_fleet(
    listening: socket.socket,
    fleet: Sequence[FleetCluster],
    options: FleetPageOptions,
    clock_ms: MillisecondClock,
    ready: Notify,
    stop: asyncio.Event,
) -> None:
    """Serve the fleet's page, its ``/metrics`` and ``/health`` on a bound socket.

    Ends when `stop` is set; `ready` is called once the page is served.
    """
    async with watching_fleet(fleet, clock_ms, options.within_s) as watch:

        async def show(_: Request) -> Response:
            return HTMLResponse(page(watch, options, clock_ms()))

        async def metrics(_: Request) -> Response:
            return Response(watch.metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST})

        async def health(_: Request) -> Response:
            if not all(each.at_ms for each in watch.states):
                return PlainTextResponse("the first look at the clusters is under way\n", 503)
            return PlainTextResponse("ok\n")

        @contextlib.asynccontextmanager
        async def living(_: Starlette) -> AsyncIterator[None]:
            looking = asyncio.create_task(watch.run(options.every_s))
            ready()
            yield
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

        app = Starlette(
            routes=[Route("/", show), Route("/metrics", metrics), Route("/health", health)],
            middleware=[Middleware(OwnSite, names=options.names)],
            lifespan=living,
        )
        await serve_until(stop, app, listening)
