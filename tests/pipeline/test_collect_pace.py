"""How brokers are asked: so many at once, each with its own time, and none blamed for ours."""

import asyncio
import threading

import aiohttp
import pytest

from counterpoise.pipeline.collect.admin import AdminOptions, LoopLag
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.told import Seen, trouble
from tests.pipeline.fake_cluster import FakeCluster, bundle_name

NOW = 1_700_000_000_000


def collector(
    http: aiohttp.ClientSession, cluster: FakeCluster, options: AdminOptions
) -> Collector:
    return Collector(http, [cluster.admin_url], lambda: NOW, options=options)


async def test_a_broker_that_hangs_is_a_gap_and_those_that_wait_for_their_turn_are_not(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """With one request at a time, the others wait longer than a request may take."""
    brokers = [await cluster.add_broker() for _ in range(4)]
    never = asyncio.Event()
    hanging = min(brokers, key=lambda broker: broker.name)
    hanging.hangs = never
    rows = await collector(http, cluster, AdminOptions(at_once=1, timeout_s=0.4)).poll()
    never.set()
    gap = rows.take(rows["kind"] == "gap")
    assert list(gap["broker"]) == [hanging.name]
    assert "no answer within 0.4 s" in gap["note"][0]
    assert (rows["kind"] == "broker").sum() == 3


async def test_our_own_slowness_is_not_the_brokers() -> None:
    loop, answer = asyncio.get_running_loop(), asyncio.Event()

    async def asked() -> str:
        await answer.wait()
        return "here"

    def busy() -> None:
        threading.Event().wait(0.7)  # the loop hears nothing meanwhile
        loop.call_soon(lambda: loop.call_later(0.1, answer.set))

    loop.call_later(0.05, busy)
    assert await LoopLag().within(asked(), 0.5) == "here"


async def test_a_broker_that_takes_too_long_is_cut_off_and_its_request_ended() -> None:
    ended = asyncio.Event()

    async def asked() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError, match=r"0\.2 s"):
        await LoopLag().within(asked(), 0.2)
    assert ended.is_set()


async def test_heap_that_changes_whenever_it_is_read_is_no_news(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = await cluster.add_broker()
    cluster.carry(broker, bundle_name(1), 500.0)
    collect = collector(http, cluster, AdminOptions())
    await collect.poll()
    for heap in (10.0, 20.0):
        broker.heap = heap
        rows = await collect.poll()
        assert [str(kind) for kind in rows["kind"]] == ["poll", "broker"]
        assert rows["memory_usage"][1] == heap, "what the host uses is kept all the same"


async def test_a_report_of_no_traffic_is_news_when_its_time_is_new(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = await cluster.add_broker()
    cluster.carry(broker, bundle_name(1), 0.0)
    collect = collector(http, cluster, AdminOptions())
    for number in range(3):
        cluster.report_time = NOW + number
        rows = await collect.poll()
        assert [str(kind) for kind in rows["kind"]] == ["poll", "broker", "bundle"]


async def test_the_same_refusal_of_many_is_said_once(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    brokers = [await cluster.add_broker() for _ in range(7)]
    for broker in brokers:
        broker.silent = True
    told: list[str] = []
    seen, collect = Seen(told.append), collector(http, cluster, AdminOptions())
    for _ in range(3):
        rows = await collect.poll()
        seen.take(rows)
    assert len(told) == 1, told
    assert "and 2 more: HTTP 503 not now" in told[0]
    assert trouble(rows).startswith("none of 7 brokers gives its load")
    for broker in brokers:
        broker.silent = False
    rows = await collect.poll()
    seen.take(rows)
    assert trouble(rows) == ""
    assert any("answers again" in sentence for sentence in told)
