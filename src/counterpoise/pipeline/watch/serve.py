"""`/metrics` and `/health` of a watcher or a balancer."""

import contextlib
from collections.abc import AsyncIterator

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from counterpoise.names.errors import ExplainedError
from counterpoise.pipeline.watch.metrics import Metrics


class CannotListenError(ExplainedError, OSError):
    """The HTTP address is in use, or not of this machine; the message is a sentence."""


@contextlib.asynccontextmanager
async def serving(metrics: Metrics, address: tuple[str, int] | None) -> AsyncIterator[int]:
    """Serve `/metrics` and `/health` at this host and port during the block; yields the port, 0
    without an address.

    Raises `CannotListenError`.
    """
    if address is None:
        yield 0
        return

    async def figures(_: web.Request) -> web.Response:
        return web.Response(body=metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def health(_: web.Request) -> web.Response:
        trouble = metrics.health()
        return web.Response(text=f"{trouble or 'ok'}\n", status=503 if trouble else 200)

    app = web.Application()
    app.add_routes([web.get("/metrics", figures), web.get("/health", health)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, *address)
        try:
            await site.start()
        except OSError as error:
            raise CannotListenError(
                f"--metrics {address[0]}:{address[1]}: {error.strerror or error}"
            ) from None
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
