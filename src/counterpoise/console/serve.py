"""Serve the console until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass

import aiohttp
import uvicorn
from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui

from counterpoise.console.guard import OwnSite
from counterpoise.console.page import Page
from counterpoise.console.watch import Watch, WatchOptions

HTTP_TIMEOUT_S = 60.0
FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" '
    'rx="7" fill="#1d5c94"/><path d="M16 6v20M8 26h16M6 11h20" stroke="#fff" stroke-width="2.4"/>'
    '<rect x="3" y="13" width="9" height="7" rx="1.5" fill="#deA04a"/>'
    '<rect x="21" y="13" width="8" height="6" rx="1.5" fill="#fff"/></svg>'
)


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """Where the console is served, and about what."""

    watch: WatchOptions
    names: Collection[str] = ()
    """Under which names a browser may ask for it, besides addresses and localhost."""


async def serve(
    listening: socket.socket,
    options: ConsoleOptions,
    clock_ms: Callable[[], int],
    ready: Callable[[], None],
) -> None:
    """Serve on a bound socket until SIGINT or SIGTERM; `ready` is called when pages are served."""
    timeout = aiohttp.ClientTimeout(total=HTTP_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        watch = Watch(session, options.watch, clock_ms)
        app = FastAPI(openapi_url=None)
        app.add_middleware(OwnSite, names=options.names)
        ui.run_with(
            app,
            root=lambda: Page(watch, clock_ms).build(),
            title="Counterpoise",
            favicon=FAVICON,
            dark=None,
            language="en-US",
            tailwind=False,
            reconnect_timeout=10.0,
            show_welcome_message=False,
        )
        # Who connects from now on waits in the socket's backlog for a moment, at most.
        nicegui_app.on_startup(ready)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=2
        )
        server = uvicorn.Server(config)
        looking = asyncio.create_task(watch.run())
        try:
            await server.serve(sockets=[listening])
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
