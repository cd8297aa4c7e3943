"""Serves the console's page until it is stopped."""

import asyncio
import contextlib
import socket

from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui

from counterpoise.console.actions import Actions
from counterpoise.console.balancer_rounds import BalancerRounds
from counterpoise.console.cluster_watch import ClusterWatch
from counterpoise.console.guard import OwnSite
from counterpoise.console.history_reader import HistoryReader
from counterpoise.console.http_server import serve_until
from counterpoise.console.options import ConsoleOptions
from counterpoise.console.page import Page
from counterpoise.console.page_session import Sources
from counterpoise.console.roles import Operator
from counterpoise.console.trade_files import TradeFiles
from counterpoise.names.callbacks import MillisecondClock, Notify
from counterpoise.pipeline.drive.action_trail import ActionTrail
from counterpoise.pipeline.tables.location import open_location

FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" '
    'rx="7" fill="#1d5c94"/><path d="M16 6v20M8 26h16M6 11h20" stroke="#fff" stroke-width="2.4"/>'
    '<rect x="3" y="13" width="9" height="7" rx="1.5" fill="#dea04a"/>'
    '<rect x="21" y="13" width="8" height="6" rx="1.5" fill="#fff"/></svg>'
)


async def serve(
    listening: socket.socket,
    options: ConsoleOptions,
    reader: HistoryReader | None,
    clock_ms: MillisecondClock,
    ready: Notify,
    stop: asyncio.Event,
) -> None:
    """Serve the console on a bound socket until `stop` is set; `ready` is called when pages are
    served.

    `reader` reads the history of a balancer in another process; None if there is none.
    """
    async with Operator(options.watch.security).session() as session:
        watch = ClusterWatch(session, options, clock_ms)
        trail = ActionTrail(open_location(options.history)) if options.history else None
        actions = Actions(clock_ms, watch.move_completed, trail)
        rounds = BalancerRounds(reader, clock_ms)
        sources = Sources(watch, actions, rounds, TradeFiles(options.backtests), clock_ms)
        app = FastAPI(openapi_url=None)
        app.add_middleware(OwnSite, names=options.names)
        ui.run_with(
            app,
            root=lambda: Page(sources).build(),
            title="Counterpoise",
            favicon=FAVICON,
            dark=None,
            language="en-US",
            tailwind=False,
            reconnect_timeout=10.0,
            show_welcome_message=False,
        )
        # Quasar's loading bar has no name for screen readers, and this page has nothing to load.
        nicegui_app.config.quasar_config["loadingBar"]["skipHijack"] = True
        # The socket listens already: a browser that connects now waits in its backlog briefly.
        nicegui_app.on_startup(ready)
        tasks = [asyncio.create_task(each) for each in (watch.run(), rounds.run())]
        try:
            await serve_until(stop, app, listening)
        finally:
            await actions.close()
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
