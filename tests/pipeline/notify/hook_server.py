"""A webhook on loopback that keeps what it gets, and answers as it is asked to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class HookServer:
    """What came, and what is answered: a status for each request, then 200."""

    statuses: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    url: str = ""

    async def take(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        self.headers.append(dict(request.headers))
        self.paths.append(request.path)
        status = self.statuses.pop(0) if self.statuses else 200
        headers = {"Location": "/elsewhere"} if 300 <= status < 400 else None
        text = "no thanks" if status >= 300 else "ok"
        return web.Response(status=status, text=text, headers=headers)


@asynccontextmanager
async def hooked(*statuses: int) -> AsyncIterator[HookServer]:
    """Serve one."""
    server = HookServer([*statuses])
    app = web.Application()
    app.router.add_post("/{path:.*}", server.take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()
