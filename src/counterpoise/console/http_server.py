"""Runs an HTTP server until an event is set, and then shuts it down in order."""

import asyncio
import socket

import uvicorn
from starlette.types import ASGIApp


async def serve_until(stop: asyncio.Event, app: ASGIApp, listening: socket.socket) -> None:
    """Serve `app` on a bound socket until `stop` is set; returns early if uvicorn ends by itself.

    uvicorn handles SIGTERM and SIGINT itself: it ends, and then raises the signal again. So the
    caller must handle both, or the process would end before the console has cleaned up.
    """
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    waiting = asyncio.create_task(stop.wait())
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.wait((waiting, serving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        server.should_exit = True
        await serving
