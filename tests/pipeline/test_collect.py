"""The collector: what it sees, what it cannot see, and what it has seen already."""

import json

import aiohttp
import pytest

from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.collect.admin import Admin, AdminOptions
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.settings import sheds_by_itself
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
