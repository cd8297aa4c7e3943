"""Load data on its topics, as brokers and an official client see it."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from unittest.mock import Mock

import pulsar
import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.cluster_key import ClusterKey
from counterpoise.broker.broker import Broker
from counterpoise.broker.load import LoadReportConfig, load_data
from counterpoise.broker.load.config import ResourceWeights
from counterpoise.load.extensible import BrokerLoadData
from counterpoise.load.fields import LoadDataError
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats, SystemResourceUsage
from counterpoise.load.usage import ResourceUsage
from tests.broker.conftest import BrokersOfTest
from tests.waiting import turns, until

CONFIG = LoadReportConfig(
    min_interval_ms=20, weights=ResourceWeights(memory=1, direct_memory=1), bundles_in_report=2
)
BUNDLES = {
    f"public/default/0x{number:08x}_0x{number + 1:08x}": NamespaceBundleStats(
        msg_rate_in=number, msg_throughput_in=1e6 * number, topics=1
    )
    for number in range(4)
}
REPORT = LocalBrokerData().updated(SystemResourceUsage(ResourceUsage(40, 100)), BUNDLES, 5)


def measured(before: BrokerLoadData, report: LocalBrokerData, now_ms: int) -> BrokerLoadData:
    weights = CONFIG.weights.extensible
    return before.updated(report, weights=weights, history=0.9, now_ms=now_ms)


def test_load_data_is_the_sum_over_bundles_and_the_first_is_taken_as_it_is() -> None:
    now = measured(BrokerLoadData(), REPORT, 5)
    assert (now.msg_rate_in, now.msg_throughput_in, now.topics) == (6, 6e6, 4)
    assert now.weighted_max_ema == pytest.approx(0.4)
    later = measured(now, replace(REPORT, cpu=ResourceUsage(80, 100)), 6)
    assert later.weighted_max_ema == pytest.approx(0.9 * 0.4 + 0.1 * 0.8)


@pytest.mark.parametrize(
    ("change", "worth"),
    [
        ({}, False),
        ({"cpu": ResourceUsage(50, 100)}, False),
        ({"cpu": ResourceUsage(51, 100)}, True),
        ({"num_bundles": 5}, True),
        ({"msg_rate_in": 3.0}, True),
        ({"msg_throughput_in": 3e6}, True),
    ],
)
def test_a_change_above_the_threshold_is_worth_publishing(
    change: dict[str, object], worth: bool
) -> None:
    first = replace(measured(BrokerLoadData(), REPORT, 5), reported_at=5)
    now = measured(first, replace(REPORT, **change), 6)  # type: ignore[arg-type]
    assert load_data.worth_publishing(first, now, CONFIG, 6) is worth


def test_old_data_is_published_again() -> None:
    first = replace(measured(BrokerLoadData(), REPORT, 5), reported_at=5)
    assert not load_data.worth_publishing(first, first, CONFIG, 5 + 15 * 60_000)
    assert load_data.worth_publishing(first, first, CONFIG, 6 + 15 * 60_000)
    assert load_data.worth_publishing(None, first, CONFIG, 5)


class Measured:
    """The last measurement of one broker."""

    def __init__(self, reports: dict[str, LocalBrokerData], broker: str) -> None:
        self._reports, self._broker = reports, broker

    def last(self) -> LocalBrokerData:
        return self._reports[self._broker]


class Exchanges:
    """An exchange at each of some brokers."""

    def __init__(self) -> None:
        self.background = BackgroundTasks()
        self.all: list[load_data.LoadDataExchange] = []
        self.buried: set[str] = set()
        self.reports: dict[str, LocalBrokerData] = {}
        self.config = CONFIG

    async def gone(self, known: Iterable[str]) -> list[str]:
        """Whom every one of them is to bury."""
        return sorted(self.buried & set(known))

    def add(self, broker: Broker) -> load_data.LoadDataExchange:
        self.reports[broker.id] = REPORT
        made = load_data.LoadDataExchange(
            broker.id,
            broker_url=broker.service_url,
            cluster_key=ClusterKey(broker.metadata),
            config=lambda: self.config,
            history=lambda: 0.9,
            gone=self.gone,
            background=self.background,
        )
        made.report_from(Measured(self.reports, broker.id))
        made.start()
        self.all.append(made)
        return made


@pytest.fixture
async def exchanges() -> AsyncIterator[Exchanges]:
    made = Exchanges()
    yield made
    for each in made.all:
        await each.stop()
    assert not made.background.failures


async def test_every_broker_hears_of_every_other(
    brokers: BrokersOfTest, exchanges: Exchanges
) -> None:
    started = await brokers.start_many(3)
    for broker in started:
        exchanges.add(broker)
    ids = {broker.id for broker in started}
    await until(lambda: all(set(each.brokers) == ids for each in exchanges.all), "the brokers know")
    await until(
        lambda: all(set(each.top_bundles) == ids for each in exchanges.all), "the brokers know"
    )
    names = [
        bundle.bundle_name
        for bundle in exchanges.all[0].top_bundles[started[1].id].top_bundles_load_data
    ]
    assert names == list(BUNDLES)[2:], "the two busiest, the least busy of them first"


async def test_a_broker_that_comes_later_hears_of_those_that_were_there(
    brokers: BrokersOfTest, exchanges: Exchanges
) -> None:
    first, second = await brokers.start_many(2)
    early = exchanges.add(first)
    await until(lambda: first.id in early.brokers, "the first broker has published")
    late = exchanges.add(second)
    await until(lambda: first.id in late.brokers, "the second knows the first")


async def test_brokers_that_cannot_read_each_other_do_not_publish_for_ever(
    brokers: BrokersOfTest, exchanges: Exchanges, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of two versions might."""
    read = Mock(side_effect=LoadDataError("cpu", "an object"))
    monkeypatch.setattr(BrokerLoadData, "from_json", read)
    monkeypatch.setattr(exchanges, "config", replace(CONFIG, min_interval_ms=3_600_000))
    for broker in await brokers.start_many(2):
        exchanges.add(broker)
    await until(lambda: read.call_count >= 4, "each has published to the other")
    await turns(500)
    heard = read.call_count
    await turns(500)
    assert read.call_count == heard


async def test_a_change_is_heard_and_a_broker_that_is_buried_is_forgotten(
    brokers: BrokersOfTest, exchanges: Exchanges
) -> None:
    first, second = await brokers.start_many(2)
    one, other = exchanges.add(first), exchanges.add(second)
    await until(lambda: len(one.brokers) == len(other.brokers) == 2, "they know each other")
    exchanges.reports[first.id] = replace(REPORT, cpu=ResourceUsage(90, 100))
    await until(lambda: other.brokers[first.id].cpu.usage == 90, "the change is heard")
    exchanges.all.remove(one)
    await one.stop()
    exchanges.buried.add(first.id)
    await until(lambda: first.id not in other.brokers, "the first is forgotten")
    await until(lambda: first.id not in other.top_bundles, "and so are its bundles")


async def test_the_exchange_goes_on_when_the_topics_move(
    brokers: BrokersOfTest, exchanges: Exchanges
) -> None:
    first, second = await brokers.start_many(2)
    one, other = exchanges.add(first), exchanges.add(second)
    await until(lambda: len(one.brokers) == len(other.brokers) == 2, "the brokers know")
    for broker in (first, second):
        for bundle in broker.namespaces.owned():
            await broker.namespaces.moves.unload(bundle)
    one.brokers.clear()
    other.brokers.clear()
    usage = itertools.cycle((90, 40))

    def both_know() -> bool:
        # What one publishes while the other is on its way to the topics' new owner is lost, so
        # each has something new to say until both have heard it.
        changed = replace(REPORT, cpu=ResourceUsage(next(usage), 100))
        exchanges.reports.update({first.id: changed, second.id: changed})
        return len(one.brokers) == len(other.brokers) == 2

    await until(both_know, "the brokers know")


@pytest.mark.client
async def test_an_official_client_reads_pulsars_json(
    brokers: BrokersOfTest, exchanges: Exchanges
) -> None:
    broker = await brokers.start()
    exchange = exchanges.add(broker)
    await until(lambda: broker.id in exchange.brokers, "the brokers know")

    def read() -> tuple[str, dict[str, object]]:
        client = pulsar.Client(broker.service_url)
        try:
            consumer = client.subscribe(load_data.BROKER_LOAD_DATA, "watch")
            exchanges.reports[broker.id] = replace(REPORT, num_bundles=400)
            message = consumer.receive(60_000)
            return message.partition_key(), json.loads(message.data())
        finally:
            client.close()

    key, data = await asyncio.to_thread(read)
    assert key == broker.id
    assert data["cpu"] == {"usage": 40.0, "limit": 100.0}
    assert {"weightedMaxEMA", "msgThroughputEMA", "bundleCount", "reportedAt"} <= data.keys()


async def test_a_broker_that_comes_back_hears_of_the_others_at_once(
    brokers: BrokersOfTest, exchanges: Exchanges
) -> None:
    first, second = await brokers.start_many(2)
    one, other = exchanges.add(first), exchanges.add(second)
    await until(lambda: len(one.brokers) == len(other.brokers) == 2, "they know each other")
    exchanges.all.remove(one)
    await one.stop()
    exchanges.buried.add(first.id)
    await until(lambda: first.id not in {*other.brokers, *other.top_bundles}, "it is forgotten")
    exchanges.buried.clear()
    # From now on nothing is published because time has passed.
    exchanges.config = replace(CONFIG, min_interval_ms=3_600_000)
    back = exchanges.add(first)
    await until(lambda: second.id in back.brokers, "the other publishes for it")
