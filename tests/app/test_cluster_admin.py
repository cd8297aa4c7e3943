"""Questions to a cluster's admin API, as Apache's brokers want them."""

import asyncio
import json
import re
from typing import cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from counterpoise.app.cluster_admin import ClusterAdmin
from counterpoise.app.errors import UserError
from counterpoise.app.main import main
from counterpoise.names.bundle import BundleName
from counterpoise.names.hashing import topic_hash
from counterpoise.pipeline.bundle_lookup import LOOK_MOST_S, name_in, pause_after
from counterpoise.quota import SECOND_NS
from tests.pipeline.fake_cluster import FakeCluster, bundle_name, wide_bundle
from tests.quota.jumping import now_ns, on_jumping_loop


@pytest.mark.parametrize("body", [None, [1, 2]])
async def test_a_change_is_called_json_though_it_has_no_body(body: list[int] | None) -> None:
    """A real 4.0.7 answers 415 to a PUT that does not say so."""
    heard = []

    async def answer(request: web.Request) -> web.Response:
        heard.append((request.content_type, await request.text()))
        return web.Response(status=204 if request.content_type == "application/json" else 415)

    app = web.Application()
    app.router.add_put("/admin/v2/namespaces/public/default/unload", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        cluster = ClusterAdmin(session, [str(server.make_url("")).rstrip("/")])
        await cluster.ask("PUT", "/admin/v2/namespaces/public/default/unload", body)
    assert heard == [("application/json", "" if body is None else "[1, 2]")]


@pytest.mark.parametrize("no_topics", [False, True])
async def test_who_waits_for_a_move_asks_no_broker_what_it_owns(no_topics: bool) -> None:
    """One of Apache's that takes bundles over would be stuck for ever."""
    async with FakeCluster() as fake, aiohttp.ClientSession() as session:
        first, second = [await fake.add_broker() for _ in range(2)]
        fake.no_topics, fake.takes_s = no_topics, 0.05
        bundles = [wide_bundle(n) for n in range(3)]
        for bundle in bundles:
            fake.carry(first, bundle, 1000.0)
        cluster = ClusterAdmin(session, [fake.admin_url])

        async def moved(bundle: str) -> str | None:
            assert await cluster.owner(bundle) == first.name
            path = f"/admin/v2/namespaces/{bundle}/unload?destinationBroker={second.name}"
            await cluster.ask("PUT", path)
            return await cluster.until_owned(bundle, second.name, 100.0)

        assert await asyncio.gather(*map(moved, bundles)) == [second.name] * 3
        assert not [path for each in fake.brokers for path in each.asked if "ownedN" in path]


async def test_a_bundle_that_no_name_may_be_looked_up_in_is_asked_for_all_the_same() -> None:
    """Its cluster lets no client create topics, and it has none."""
    async with FakeCluster() as fake, aiohttp.ClientSession() as session:
        first, second = [await fake.add_broker() for _ in range(2)]
        fake.no_topics, fake.creates = True, False
        fake.carry(second, wide_bundle(1), 1000.0)
        cluster = ClusterAdmin(session, [fake.admin_url])
        assert await cluster.owner(wide_bundle(1)) == second.name
        assert await cluster.owner(wide_bundle(1)) == second.name
        assert len(fake.lookups) == 1, "its namespace was listed since, and has no topic there"
        fake.owners[wide_bundle(1)] = ""
        assert await cluster.owner(wide_bundle(1)) is None
        assert first.asked


def test_the_pause_between_two_lookups_grows_up_to_a_limit() -> None:
    pauses = [0.0]
    for _ in range(20):
        pauses.append(pause_after(pauses[-1]))
    assert pauses == sorted(pauses)
    assert (pauses[1], pauses[-1]) == (0.1, LOOK_MOST_S)


@pytest.mark.parametrize("bundle", [wide_bundle(7), bundle_name(3), "t/n/0xffff0000_0xffffffff"])
def test_a_name_is_found_in_any_bundle(bundle: str) -> None:
    name = name_in(bundle)
    assert topic_hash(name) in BundleName.parse(bundle).range
    assert name.startswith(f"persistent://{bundle.rpartition('/')[0]}/counterpoise-asks-")


async def test_a_frozen_broker_is_waited_for_once() -> None:
    """It accepts connections, as one that was stopped does, and answers nothing."""
    asked = list[str]()
    forever = asyncio.Event()

    async def hangs(request: web.Request) -> web.Response:
        asked.append(request.path)
        await forever.wait()
        return web.Response()

    frozen = web.Application()
    frozen.router.add_route("*", "/{path:.*}", hangs)
    async with TestServer(frozen) as server, FakeCluster() as fake:
        well = await fake.add_broker()
        urls = [str(server.make_url("")).rstrip("/"), f"http://{well.name}"]
        async with aiohttp.ClientSession() as session:
            cluster = ClusterAdmin(session, urls, 1.0)
            for _ in range(3):
                assert await cluster.ask("GET", "/admin/v2/brokers") == [well.name]
            with pytest.raises(UserError, match="cannot be reached: no answer in time"):
                await cluster.reach(urls[0], "GET", "/admin/v2/broker-stats/topics")
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(1.0)) as session:
            # No broker is asked for a change that another one may carry out.
            with pytest.raises(UserError, match="may carry it out all the same: no answer in time"):
                await ClusterAdmin(session, urls).ask("PUT", "/admin/v2/unload")
        assert "/admin/v2/unload" not in well.asked
        forever.set()
    assert asked == ["/admin/v2/brokers", "/admin/v2/broker-stats/topics", "/admin/v2/unload"]


async def answering(status: int, text: str) -> TestServer:
    """A broker that gives every request this answer."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    server = TestServer(app)
    await server.start_server()
    return server


async def test_the_next_address_is_asked_when_one_cannot_be_reached() -> None:
    broker = await answering(200, '["b:1"]')
    async with aiohttp.ClientSession() as session:
        urls = ["http://127.0.0.1:1", str(broker.make_url("")).rstrip("/")]
        for method in ("GET", "PUT"):
            assert await ClusterAdmin(session, urls).ask(method, "/admin/v2/brokers") == ["b:1"]
        with pytest.raises(UserError, match=r"127\.0\.0\.1:1: .*; http://127\.0\.0\.1:2: "):
            await ClusterAdmin(session, [urls[0], "http://127.0.0.1:2"]).ask("GET", "/x")
    await broker.close()


@pytest.mark.parametrize(
    ("status", "body", "advice"),
    [
        (401, "{}", "--auth-plugin"),
        (403, '{"reason": "Unauthorized: anonymous"}', "--auth-plugin"),
        (403, '{"reason": "not a superuser"}', "not a superuser; this role may not do that"),
        (404, "", "answers 404: no reason given"),
        (409, '{"reason": "taken"}', "answers 409: taken"),
    ],
)
async def test_a_refusal_is_not_tried_at_another_address(
    status: int, body: str, advice: str
) -> None:
    broker = await answering(status, body)
    async with aiohttp.ClientSession() as session:
        url = str(broker.make_url("")).rstrip("/")
        with pytest.raises(UserError, match=re.escape(advice)):
            await ClusterAdmin(session, [url, "http://127.0.0.1:1"]).ask("PUT", "/x")
    await broker.close()


SLOW = "asked for an hour"


class Moving(ClusterAdmin):
    """A cluster in which a bundle has these owners, one after the other, every second."""

    def __init__(self, *owners: str | None) -> None:
        super().__init__(cast("aiohttp.ClientSession", None), ["http://b1:80"])
        self._owners = owners

    async def owner(self, bundle: str, destination: str = "") -> str | None:
        second = int(asyncio.get_running_loop().time())
        owner = self._owners[min(second, len(self._owners) - 1)]
        if owner == SLOW:
            await asyncio.sleep(3600)
        return owner


@pytest.mark.parametrize(
    ("owners", "wait_s", "found", "after_s"),
    [
        ((None, "b1:80", "b2:80"), 10, "b2:80", 2),
        (("b2:80",), 10, "b2:80", 0),
        (("b1:80",), 3, "b1:80", 3),
        ((None,), 3, None, 3),
        (("b1:80", SLOW), 3, "b1:80", 3),
    ],
)
@on_jumping_loop
async def test_a_bundle_is_awaited_at_its_destination_for_so_long(
    owners: tuple[str | None, ...], wait_s: float, found: str | None, after_s: float
) -> None:
    assert await Moving(*owners).until_owned("a bundle", "b2:80", wait_s) == found
    assert after_s <= now_ns() / SECOND_NS < after_s + 2


async def test_a_broker_that_does_not_answer_is_listed_empty_and_ends_in_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By `counterpoise brokers`, which lists those that answer all the same."""
    async with FakeCluster() as fake:
        silent, sound = [await fake.add_broker() for _ in range(2)]
        fake.carry(sound, bundle_name(1), 1000.0)
        words = ["brokers", "--json", "--admin-url", fake.admin_url]
        assert await asyncio.to_thread(main, words) == 0
        capsys.readouterr()
        silent.answers["/admin/v2/broker-stats/topics"] = 500, b"out of memory"
        assert await asyncio.to_thread(main, words) == 1
        rows = {row["broker"]: row for row in json.loads(capsys.readouterr().out)}
        empty = rows.pop(silent.name)
        assert "out of memory" in empty.pop("error")
        del empty["broker"]
        assert not any(empty.values()), "no load of a broker that did not answer"
        assert [(row["broker"], row["topics"]) for row in rows.values()] == [(sound.name, 1)]
