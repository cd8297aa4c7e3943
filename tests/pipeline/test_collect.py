"""The collector: what it sees, what it cannot see, and what it has seen already."""

import json
from typing import cast
from urllib.parse import urlsplit

import aiohttp
import pytest

from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.collect.admin import Admin, AdminOptions, RefusedError, Reply
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.owned import Ownership, Whose
from counterpoise.pipeline.collect.serving import (
    CHANNEL_NOT_STARTED,
    SERVES_NO_LOOKUPS,
    lookup_fault,
)
from counterpoise.pipeline.collect.settings import leader_by, sheds_by_itself
from counterpoise.pipeline.collect.where import web_address
from tests.pipeline.fake_cluster import FakeCluster, bundle_name

NOW = 1_700_000_000_000


def collector(http: aiohttp.ClientSession, cluster: FakeCluster, after: int = 0) -> Collector:
    return Collector(http, [cluster.admin_url], lambda: NOW, after_poll=after)


def kinds(rows: ReportRows) -> list[str]:
    return [str(kind) for kind in rows["kind"]]


async def test_a_poll_has_every_broker_and_every_bundle(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    one, two = await cluster.add_broker(), await cluster.add_broker()
    cluster.carry(one, bundle_name(1), 500.0)
    cluster.carry(one, bundle_name(2), 700.0)
    cluster.report_time = NOW - 1234
    rows = await collector(http, cluster).poll()
    assert sorted(kinds(rows)) == ["broker", "broker", "bundle", "bundle", "poll"]
    assert set(rows["broker"][rows["kind"] == "broker"]) == {one.name, two.name}
    bundles = rows.take(rows["kind"] == "bundle")
    assert set(bundles["broker"]) == {one.name}
    assert list(bundles["msg_throughput_in"]) == [500.0, 700.0]
    assert set(bundles["age_ms"]) == {1234}
    assert set(rows["poll_id"]) == {NOW}
    assert list(rows["seq"]) == [0, 1, 2, 3, 4]


async def test_a_report_read_again_is_not_fresh_and_brings_no_bundles(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = await cluster.add_broker()
    cluster.carry(broker, bundle_name(1), 500.0)
    collect = collector(http, cluster)
    assert kinds(await collect.poll()) == ["poll", "broker", "bundle"]
    again = await collect.poll()
    assert kinds(again) == ["poll", "broker"]
    assert not again["fresh"][1]
    cluster.carry(broker, bundle_name(1), 501.0)
    assert kinds(await collect.poll()) == ["poll", "broker", "bundle"]


async def test_a_broker_that_does_not_answer_is_a_gap_with_its_reason(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    await cluster.add_broker()
    broken = await cluster.add_broker()
    collect = collector(http, cluster)
    broken.silent = True
    rows = await collect.poll()
    gap = rows.take(rows["kind"] == "gap")
    assert list(gap["broker"]) == [broken.name]
    assert "503" in gap["note"][0]
    assert "not now" in gap["note"][0]


async def test_a_cluster_of_which_no_broker_answers_is_a_poll_with_a_note(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = await cluster.add_broker()
    collect = collector(http, cluster)
    await cluster.remove_broker(broker)
    rows = await collect.poll()
    assert kinds(rows) == ["poll"]
    assert broker.name in rows["note"][0]


async def test_another_broker_is_asked_when_the_first_address_is_gone(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    first, second = await cluster.add_broker(), await cluster.add_broker()
    collect = collector(http, cluster)
    await collect.poll()
    await cluster.remove_broker(first)
    rows = await collect.poll()
    assert rows["note"][0] == ""
    assert set(rows["broker"][1:]) == {second.name}


async def test_a_report_is_fresh_again_after_its_broker_had_left(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    await cluster.add_broker()
    leaver = await cluster.add_broker()
    cluster.carry(leaver, bundle_name(1), 5.0)
    collect = collector(http, cluster)
    await collect.poll()
    cluster.brokers.remove(leaver)
    await collect.poll()
    cluster.brokers.append(leaver)
    rows = await collect.poll()
    assert "bundle" in kinds(rows)


async def test_polls_are_numbered_upwards_even_when_the_clock_is_not(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    await cluster.add_broker()
    collect = collector(http, cluster, after=NOW + 50)
    ids = [int((await collect.poll())["poll_id"][0]) for _ in range(3)]
    assert ids == [NOW + 51, NOW + 52, NOW + 53]


@pytest.mark.parametrize(
    ("settings", "changed", "sheds"),
    [
        ({}, {}, True),
        ({"loadBalancerSheddingEnabled": "false"}, {}, False),
        ({"loadBalancerEnabled": "false"}, {}, False),
        ({}, {"loadBalancerSheddingEnabled": "false"}, False),
        ({"loadBalancerSheddingEnabled": "false"}, {"loadBalancerSheddingEnabled": "true"}, True),
    ],
)
async def test_a_cluster_that_sheds_by_itself_is_seen(
    cluster: FakeCluster,
    http: aiohttp.ClientSession,
    settings: dict[str, str],
    changed: dict[str, str],
    sheds: bool,
) -> None:
    broker = await cluster.add_broker()
    base = "/admin/v2/brokers"
    broker.answers[f"{base}/configuration/runtime"] = (200, json.dumps(settings).encode())
    broker.answers[f"{base}/configuration/values"] = (200, json.dumps(changed).encode())
    said = await sheds_by_itself(
        Admin(http, AdminOptions()), ["http://127.0.0.1:1", cluster.admin_url]
    )
    assert bool(said) is sheds
    assert not sheds or "update-dynamic-config --config loadBalancerSheddingEnabled" in said


class Answering:
    """An admin API that answers like this by broker, and keeps who was asked."""

    def __init__(self, **replies: Reply | Exception) -> None:
        self._replies = replies
        self.asked: list[str] = []

    async def get(self, url: str) -> bytes:
        reply = await self.ask(url)
        if reply.status != 200:
            raise reply.refused()
        return reply.body

    async def ask(self, url: str, **_: object) -> Reply:
        broker = urlsplit(url).netloc.partition(":")[0]
        self.asked.append(broker)
        found = self._replies[broker]
        if isinstance(found, Exception):
            raise found
        return found

    def ownership(self) -> Ownership:
        return Ownership(cast("Admin", self), "http://{}".format)


@pytest.mark.parametrize(
    ("status", "body", "to", "expected"),
    [
        (200, b"[]", "", Whose("a:80")),
        (307, b"", "http://b:80/x?authoritative=false", Whose("b:80")),
        (307, b"", "http://elsewhere:80/x", Whose("elsewhere:80")),
        (204, b"", "", Whose()),
        (404, b"not of this cluster", "", Whose()),
        (412, b"it was split", "", Whose()),
        (500, b"Namespace bundle t/n/0x0_0x1 is being unloaded", "", Whose("a:80", active=False)),
        (500, b"another fault", "", None),
        (401, b"", "", None),
    ],
)
async def test_whose_a_bundle_is_follows_from_what_one_broker_answers(
    status: int, body: bytes, to: str, expected: Whose | None
) -> None:
    asked = Answering(a=Reply(status, body, {"Location": to})).ownership()
    question = asked.whose(bundle_name(0), "a:80", ("a:80", "b:80"))
    if expected is None:
        with pytest.raises(RefusedError, match=f"HTTP {status}"):
            await question
    else:
        assert await question == expected


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (Reply(200, b"{}", {}), ""),
        (Reply(500, b"Invalid channel state:Constructed", {}), CHANNEL_NOT_STARTED),
        (Reply(404, b"Invalid channel state:Constructed", {}), ""),
        (TimeoutError(), SERVES_NO_LOOKUPS),
        (RefusedError("no address"), ""),
        (aiohttp.ClientConnectionError("reset"), ""),
    ],
)
async def test_a_broker_serves_no_lookups_where_it_lets_one_wait_or_says_so(
    reply: Reply | Exception, fault: str
) -> None:
    """Whatever else is wrong with it, its report says."""
    admin = Answering(a=reply)
    found = await lookup_fault(cast("Admin", admin), "http://a:80", "a:80", "persistent://t/n/x")
    assert found == fault
    assert len(admin.asked) == (1 if isinstance(reply, Exception) else 2)


@pytest.mark.parametrize(
    ("status", "body", "leader"),
    [
        (200, b'{"brokerId": "b:8080", "serviceUrl": "http://other:1"}', "b:8080"),
        (200, b'{"serviceUrl": "https://b:8443"}', "b:8443"),
        (200, b"{}", ""),
        (404, b'{"reason": "no leader"}', ""),
    ],
)
async def test_a_leader_is_known_by_its_id_whichever_way_it_is_named(
    status: int, body: bytes, leader: str
) -> None:
    assert (
        await leader_by(cast("Admin", Answering(a=Reply(status, body, {}))), "http://a:80")
        == leader
    )


@pytest.mark.parametrize(
    ("broker", "addresses", "url"),
    [
        ("b:8080", ["http://a:8080"], "http://b:8080"),
        ("b:8443", ["https://a:8443"], "https://b:8443"),
        ("b:8080", ["https://a:8443"], "https://b:8443"),
        ("b:8080", ["https://a:8443/"], "https://b:8443"),
        ("b:8080", ["https://a"], "https://b:443"),
        ("b:2", ["https://a:1", "https://b:2"], "https://b:2"),
    ],
)
def test_where_a_broker_is(broker: str, addresses: list[str], url: str) -> None:
    assert web_address(broker, addresses) == url


@pytest.mark.parametrize("refusing", [2, 3, 4])
async def test_three_brokers_are_asked_whose_a_bundle_is_and_first_the_one_that_reports_it(
    cluster: FakeCluster, http: aiohttp.ClientSession, refusing: int
) -> None:
    brokers = [await cluster.add_broker() for _ in range(4)]
    bundle, path = bundle_name(0), f"/admin/v2/non-persistent/{bundle_name(0)}"
    cluster.carry(brokers[0], bundle, 5.0)
    reporter, *others = reversed(brokers)
    for each in [reporter, *others[::-1]][:refusing]:
        each.answers[path] = (503, b"not now")
    asked = Ownership(Admin(http, AdminOptions()), "http://{}".format)
    question = asked.by_bundle(cluster.names, {bundle: reporter.name})
    if refusing < 3:
        owned, silent = await question
        assert set(silent) == {reporter.name, brokers[0].name}
        assert set(owned) == set(cluster.names) - set(silent), "of those nothing is known"
        assert all(not bundles for bundles in owned.values()), "its owner does not answer"
    else:
        with pytest.raises(RefusedError, match=f"no broker says who owns {bundle}: HTTP 503"):
            await question
    assert [path in each.asked for each in brokers] == [True, True, False, True]
