"""When a collector for a history reads the loads of topics, and what a poll has of them."""

import asyncio
from collections.abc import Sequence

import aiohttp
import pytest

from counterpoise.load.topic_loads import BundleTopicLoads
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.topic_loads import AT_ONCE
from tests.pipeline.fake_cluster import FakeBroker, FakeCluster, bundle_name, topic_of
from tests.pipeline.test_collect_managers import RUNTIME, TOPICS, as_extensible
from tests.waiting import until

HALF_AN_HOUR = 30 * 60_000
BUNDLE = bundle_name(1)
HOT = "public/default/0x50000000_0x60000000"


class Polls:
    """Polls of one broker, each of which reports more than the last."""

    def __init__(
        self, http: aiohttp.ClientSession, cluster: FakeCluster, broker: FakeBroker, *, keeps: bool
    ) -> None:
        self.now = 1_700_000_000_000
        self.broker = broker
        self._cluster = cluster
        self._carried = 0.0
        self._collector = Collector(
            http, [cluster.admin_url], lambda: self.now, keeps_topic_loads=keeps
        )

    async def next(self) -> dict[str, str]:
        """The loads of topics of the next poll by bundle, as they are in its rows."""
        self.now += 10_000
        self._carried += 100.0
        self._cluster.carry(self.broker, BUNDLE, self._carried)
        rows = await self._collector.poll()
        assert rows.silent == {}
        found = zip(rows["bundle"].tolist(), rows["topic_loads"].tolist(), strict=True)
        return {bundle: loads for bundle, loads in found if loads}

    async def until_any(self) -> dict[str, str]:
        async with asyncio.timeout(100):
            while not (found := await self.next()):
                pass
        return found

    async def rest(self, count: int) -> Sequence[dict[str, str]]:
        return [await self.next() for _ in range(count)]


def asked(broker: FakeBroker) -> int:
    return broker.asked.count(TOPICS)


async def test_under_the_modular_manager_a_later_report_has_them(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    polls = Polls(http, cluster, await cluster.add_broker(), keeps=True)
    assert await polls.next() == {}, "a poll does not wait for them"
    found = await polls.until_any()
    loads = BundleTopicLoads.from_json(found[BUNDLE])
    assert list(loads.busiest) == [topic_of(BUNDLE)]
    assert not any(await polls.rest(5))
    assert asked(polls.broker) == 1
    polls.now += HALF_AN_HOUR
    assert await polls.until_any()
    assert asked(polls.broker) == 2


async def test_under_the_extensible_manager_they_take_no_further_request(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = as_extensible(await cluster.add_broker())
    polls = Polls(http, cluster, broker, keeps=True)
    loads = BundleTopicLoads.from_json((await polls.next())[HOT])
    # By hand from the recorded answer.
    rates = {name.rpartition("/")[2]: load.msg_rate_in for name, load in loads.busiest.items()}
    assert rates == {"t2": pytest.approx(47.468, abs=1e-3), "t6": pytest.approx(21.208, abs=1e-3)}
    assert (loads.others, loads.rest) == (0, (0.0, 0.0, 0.0, 0.0))
    assert asked(broker) == 1


async def test_a_broker_that_refuses_them_is_asked_again_and_still_polled(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    broker = await cluster.add_broker()
    broker.answers[TOPICS] = (500, b"not now")
    polls = Polls(http, cluster, broker, keeps=True)
    began = polls.now
    async with asyncio.timeout(100):
        while asked(broker) < 3:
            assert await polls.next() == {}
    broker.answers[TOPICS] = (200, b'{"public/default": 7}')
    while asked(broker) < 5:
        assert await polls.next() == {}
    assert polls.now < began + HALF_AN_HOUR
    del broker.answers[TOPICS]
    assert await polls.until_any()


async def test_a_collector_without_a_history_asks_for_none(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    polls = Polls(http, cluster, await cluster.add_broker(), keeps=False)
    assert not any(await polls.rest(3))
    assert asked(polls.broker) == 0
    assert RUNTIME in polls.broker.asked


async def test_a_few_brokers_are_asked_at_once_and_each_in_its_turn(
    cluster: FakeCluster, http: aiohttp.ClientSession
) -> None:
    """Their answers are large: a hundred at once would fill the memory."""
    brokers = [await cluster.add_broker() for _ in range(AT_ONCE + 2)]
    for number, broker in enumerate(brokers):
        cluster.carry(broker, bundle_name(number), 100.0)
        broker.hangs_at[TOPICS] = asyncio.Event()
    collector = Collector(http, [cluster.admin_url], lambda: 10_000, keeps_topic_loads=True)
    try:
        await collector.poll()
        await until(lambda: sum(map(asked, brokers)) >= AT_ONCE)
        first = next(broker for broker in brokers if asked(broker))
        first.hangs_at[TOPICS].set()
        await until(lambda: sum(map(asked, brokers)) > AT_ONCE)
        assert sum(map(asked, brokers)) == AT_ONCE + 1
    finally:
        for broker in brokers:
            broker.hangs_at[TOPICS].set()
    await until(lambda: sum(map(asked, brokers)) == len(brokers))
    collector.close()
