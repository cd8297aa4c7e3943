"""Questions to a cluster's admin API, as Apache's brokers want them."""

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from counterpoise.app.asking import Cluster


@pytest.mark.parametrize("told", [None, [1, 2]])
async def test_a_change_is_called_json_though_it_has_no_body(told: list[int] | None) -> None:
    """A real 4.0.7 answers 415 to a PUT that does not say so."""
    heard = []

    async def answer(request: web.Request) -> web.Response:
        heard.append((request.content_type, await request.text()))
        return web.Response(status=204 if request.content_type == "application/json" else 415)

    app = web.Application()
    app.router.add_put("/admin/v2/namespaces/public/default/unload", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        cluster = Cluster(session, [str(server.make_url("")).rstrip("/")])
        await cluster.ask("PUT", "/admin/v2/namespaces/public/default/unload", told)
    assert heard == [("application/json", "" if told is None else "[1, 2]")]
