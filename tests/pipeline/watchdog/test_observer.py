"""What a watchdog's questions come to when they are refused, or too many."""

from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import orjson
import pytest

from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.admin import Admin, AdminOptions, RefusedError
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.watchdog.observer import ASKED_MOST, Observer
from tests.load.story import poll as poll_of
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.quota.jumping import on_jumping_loop, pass_time

LEADER = "/admin/v2/brokers/leaderBroker"


class Namespaces:
    """An admin API that answers for namespaces with these statuses; others do not answer."""

    def __init__(self, statuses: dict[str, int]) -> None:
        self._statuses = statuses
        self.asked: list[str] = []

    async def ask(self, url: str, *, redirects: bool = False) -> Any:
        tenant, name = url.split("/")[-3:-1]
        self.asked.append(f"{tenant}/{name}")
        if (status := self._statuses.get(f"{tenant}/{name}")) is None:
            raise aiohttp.ClientConnectionError("refused")
        return SimpleNamespace(status=status)


async def test_only_a_namespace_that_a_broker_does_not_find_counts_as_deleted() -> None:
    admin = Namespaces({"t/there": 200, "t/gone": 404, "t/forbidden": 403, "t/failing": 500})
    looker = Observer(cast("Admin", admin), ("http://b1:80",))
    asked = ["t/there", "t/gone", "t/forbidden", "t/failing", "t/silent"]
    assert await looker.deleted(asked, "b1:80") == {"t/gone"}
    assert sorted(admin.asked) == sorted(asked)


async def test_a_look_asks_for_so_many_namespaces_at_most() -> None:
    many = {f"t/{number:03}": 404 for number in range(ASKED_MOST + 1)}
    admin = Namespaces(many)
    asked = dict(reversed(many.items()))
    found = await Observer(cast("Admin", admin), ("http://b1:80",)).deleted(asked, "b1:80")
    assert found == set(admin.asked) == set(sorted(many)[:ASKED_MOST])


@pytest.mark.parametrize(
    ("status", "body", "is_silent"),
    [
        (404, b"Couldn't find leader broker", False),
        (403, b"Don't have permission", True),
        (503, b"not now", True),
        (200, b"[]", True),
        (200, b"<html>", True),
    ],
)
async def test_a_broker_that_does_not_say_who_leads_is_silent(
    cluster: FakeCluster, http: aiohttp.ClientSession, status: int, body: bytes, is_silent: bool
) -> None:
    """One that says that no broker leads has answered."""
    first, second = [await cluster.add_broker() for _ in range(2)]
    cluster.carry(first, bundle_name(0), 100.0)
    cluster.carry(second, bundle_name(1), 100.0)
    second.answers[LEADER] = (status, body)
    addresses = (cluster.admin_url,)
    admin = Admin(http, AdminOptions())
    poll = await Collector(http, addresses, wall_clock_ms).poll()
    seen = await Observer(admin, addresses).observe(poll)
    assert set(seen.silent) == ({second.name} if is_silent else set())
    assert seen.leaders.get(second.name) == (None if is_silent else "")
    assert (second.name in seen.owned) is not is_silent


@pytest.mark.parametrize("sheds", [False, True])
async def test_a_look_shows_every_listed_broker_and_how_even_those_are_that_answer(
    cluster: FakeCluster, http: aiohttp.ClientSession, sheds: bool
) -> None:
    first, second, third = [await cluster.add_broker() for _ in range(3)]
    for number, load in enumerate((100.0, 100.0, 100.0)):
        cluster.carry(first, bundle_name(number), load)
    cluster.carry(second, bundle_name(3), 100.0)
    third.silent = True
    settings = {"loadBalancerSheddingEnabled": str(sheds).lower()}
    for broker in cluster.brokers:
        for path, values in (("runtime", settings), ("values", {})):
            answer = (200, orjson.dumps(values))
            broker.answers[f"/admin/v2/brokers/configuration/{path}"] = answer
    addresses = (cluster.admin_url,)
    poll = await Collector(http, addresses, wall_clock_ms).poll()
    seen = await Observer(Admin(http, AdminOptions()), addresses).observe(poll)
    assert seen.brokers == tuple(sorted(cluster.names))
    assert set(seen.silent) == {third.name}
    assert seen.without_lookups == frozenset(), "it answers nothing at all"
    assert seen.imbalance == pytest.approx(0.5)
    assert seen.sheds is sheds


@pytest.mark.parametrize("is_silent", [False, True])
async def test_the_state_channel_is_read_where_a_broker_answers(
    cluster: FakeCluster, http: aiohttp.ClientSession, is_silent: bool
) -> None:
    broker = await cluster.add_broker()
    cluster.carry(broker, bundle_name(0), 100.0)
    if is_silent:
        broker.answers[LEADER] = (503, b"not now")
    addresses, reads = (cluster.admin_url,), list[int]()

    def read() -> dict[str, Any]:
        reads.append(1)
        return {}

    poll = await Collector(http, addresses, wall_clock_ms).poll()
    seen = await Observer(Admin(http, AdminOptions()), addresses, read).observe(poll)
    assert (seen.records, len(reads)) == ((None, 0) if is_silent else ({}, 1))


class Slow:
    """An admin API that takes 40 s to name the leader, owns all and tells no settings."""

    async def get(self, url: str) -> bytes:
        if not url.endswith(LEADER):
            raise RefusedError("not now")
        await pass_time(40)
        return b'{"brokerId":"b1:80"}'

    async def ask(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(status=200)


@on_jumping_loop
async def test_how_long_a_broker_takes_to_name_its_leader_is_seen() -> None:
    """And one that tells no settings is not said to shed load."""
    rows = poll_of(0, {"b1:80": {bundle_name(0): 1.0}})
    seen = await Observer(cast("Admin", Slow()), ("http://b1:80",)).observe(rows)
    assert seen.answered_s == {"b1:80": pytest.approx(40.0)}
    assert (seen.leaders, seen.sheds) == ({"b1:80": "b1:80"}, False)
