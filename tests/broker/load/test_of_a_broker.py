"""The report of a running broker, written where the others read it."""

import asyncio
import json
import threading
from dataclasses import replace
from pathlib import Path

import pulsar

from counterpoise.broker.base import paths
from counterpoise.broker.broker import Broker
from counterpoise.broker.load import LoadReportConfig
from counterpoise.load.average import BundleData
from counterpoise.load.report import LocalBrokerData
from counterpoise.storage.files.store import FileLedgerStore
from tests.broker.conftest import (
    NAMESPACE,
    BrokersOfTest,
    client_of,
    holds,
    in_thread,
    topic_in,
    vanished,
)
from tests.waiting import found, until


async def stored_report(broker: Broker) -> LocalBrokerData:
    stored = await broker.metadata.get(paths.broker(broker.id))
    assert stored.mine
    return LocalBrokerData.from_json(json.loads(stored.value))


async def appeared(broker: Broker, path: str) -> None:
    """Wait until a node is there."""
    await found(lambda: broker.metadata.exists(path), path)


async def test_a_broker_says_who_it_is_before_anything_happened(any_brokers: BrokersOfTest) -> None:
    broker = await any_brokers.start()
    report = await stored_report(broker)
    assert report.pulsar_service_url == broker.service_url
    assert report.web_service_url == broker.web_url
    assert report.start_timestamp > 0
    assert report.load_manager_class_name == any_brokers.filters.load_manager_class


async def test_a_registration_that_is_deleted_is_made_again(any_brokers: BrokersOfTest) -> None:
    """Another process under the same id has ended, or an administrator has deleted the node."""
    broker = await any_brokers.start()
    for path in (paths.broker(broker.id), paths.own_broker(broker.id)):
        await broker.metadata.delete(path)
        await appeared(broker, path)
    assert (await stored_report(broker)).pulsar_service_url == broker.service_url


async def test_counts_and_rates_of_real_clients(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    bundle = (await broker.namespaces.bundles(NAMESPACE)).bundles[1]
    topic, seen = str(topic_in(bundle)), threading.Event()

    def work() -> pulsar.Client:
        # Until it is seen: the report after the last message says nothing of messages.
        client = client_of(broker)
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic)
        while not seen.is_set():
            producer.send(b"x" * 100)
            consumer.acknowledge(consumer.receive(60_000))
        return client

    async def of_both() -> LocalBrokerData | None:
        report = broker.load_report()
        return report if report.msg_rate_in > 0 and report.msg_rate_out > 0 else None

    working = asyncio.create_task(in_thread(work))
    try:
        report = await found(of_both, "messages in and out are counted in one report")
    finally:
        seen.set()
    stats = report.last_stats[str(bundle)]
    assert stats.msg_throughput_in >= 100 * stats.msg_rate_in
    assert (stats.topics, stats.producer_count, stats.consumer_count) == (1, 1, 1)
    assert report.bandwidth_in.usage > 0
    assert report.bandwidth_out.usage > 0
    assert report.cpu.limit > 0
    assert (report.num_topics, report.num_producers, report.num_consumers) == (1, 1, 1)
    assert report.bundles == (str(bundle),)
    await in_thread((await working).close)
    await until(lambda: broker.load_report().num_producers == 0, "the client has left")


async def test_003_l453_the_cache_size_of_a_bundle_is_what_memory_has_of_its_topics(
    brokers: BrokersOfTest, tmp_path: Path
) -> None:
    brokers.ledgers = FileLedgerStore(tmp_path)  # type: ignore[assignment]
    broker = await brokers.start()
    bundle, idle, *_ = (await broker.namespaces.bundles(NAMESPACE)).bundles
    await broker.parts.ownership.bundles.acquire(idle)

    def work() -> pulsar.Client:
        client = client_of(broker)
        producer = client.create_producer(str(topic_in(bundle)))
        for _ in range(20):
            producer.send(b"x" * 1000)
        return client

    client = await in_thread(work)
    stats = (await broker.parts.balancing.reporter.measure()).last_stats
    assert 20 * 1000 <= stats[str(bundle)].cache_size < 20 * 2000
    assert stats[str(idle)].cache_size == 0
    await in_thread(client.close)


async def test_a_change_is_published_and_no_change_is_not(brokers: BrokersOfTest) -> None:
    broker = await brokers.start(load_report=LoadReportConfig(min_interval_ms=600_000))
    bundle = (await broker.namespaces.bundles(NAMESPACE)).bundles[0]
    first = await broker.metadata.get(paths.broker(broker.id))
    await broker.parts.ownership.bundles.acquire(bundle)
    await broker.parts.balancing.reporter.refresh()
    report = await stored_report(broker)
    assert report.bundles == (str(bundle),)
    assert report.last_bundle_gains == (str(bundle),)
    assert broker.load_report().last_bundle_gains == (), "reported once"
    second = await broker.metadata.get(paths.broker(broker.id))
    assert second.version == first.version + 1


async def test_the_report_comes_back_after_a_lost_session(brokers: BrokersOfTest) -> None:
    broker, other = await brokers.start_many(2)
    broker.metadata.expire()  # type: ignore[attr-defined] - a session in memory
    await holds(broker, paths.broker(broker.id))
    assert broker.id in await other.active_brokers()


async def test_the_leader_writes_averages_down_and_the_next_starts_from_them(
    brokers: BrokersOfTest,
) -> None:
    leader, other = await brokers.start_many(2)
    bundle = (await leader.namespaces.bundles(NAMESPACE)).bundles[0]
    await leader.parts.ownership.bundles.acquire(bundle)
    await leader.parts.balancing.reporter.refresh(force=True)
    await until(
        lambda: str(bundle) in leader.parts.load.cluster.bundles(), "the report is averaged"
    )
    await leader.metadata.put(paths.time_average("gone:1"), b"{}")
    await leader.parts.balancing.keeper.write()
    written = await other.metadata.get(paths.bundle_data(str(bundle)))
    samples = json.loads(written.value)["shortTermData"]["numSamples"]
    assert samples >= 1
    assert sorted(await other.metadata.children(paths.BROKER_TIME_AVERAGE)) == sorted(
        [leader.id, other.id]
    )
    newcomer = await brokers.start()
    await newcomer.parts.load.cluster.refresh()
    assert newcomer.parts.load.cluster.bundles()[str(bundle)].short_term_data.num_samples > samples


async def test_001_l111_l132_l136_a_brokers_time_average_appears_at_its_start_and_goes_with_it(
    brokers: BrokersOfTest,
) -> None:
    leader, other = await brokers.start_many(2)
    node = paths.time_average(other.id)
    await appeared(leader, node)
    stored = await leader.metadata.get(node)
    assert json.loads(stored.value)["shortTermMsgRateIn"] == 0.0
    await brokers.kill(other)
    await vanished(leader, node)
    assert await leader.metadata.exists(paths.time_average(leader.id))


async def test_001_l154_l268_the_leader_removes_the_data_of_bundles_that_no_broker_reports(
    brokers: BrokersOfTest,
) -> None:
    leader, other = await brokers.start_many(2)
    bundles = (await leader.namespaces.bundles(NAMESPACE)).bundles
    kept, left, former = (paths.bundle_data(str(bundle)) for bundle in bundles[:3])
    # A leader before this one stored data of a bundle that is not loaded any more.
    await leader.metadata.put(former, json.dumps(BundleData.unseen().to_json()).encode())
    for bundle in bundles[:2]:
        await other.parts.ownership.bundles.acquire(bundle)
    await other.parts.balancing.reporter.refresh(force=True)
    await until(
        lambda: str(bundles[1]) in leader.parts.load.cluster.bundles(), "the report is averaged"
    )
    await leader.parts.balancing.keeper.write()
    assert await leader.metadata.exists(left)
    await vanished(leader, former)
    await other.parts.ownership.bundles.release(bundles[1], None)
    await other.parts.balancing.reporter.refresh(force=True)
    await vanished(leader, left)
    assert await leader.metadata.exists(kept)


async def test_001_l310_l522_a_split_removes_the_data_of_its_parent(brokers: BrokersOfTest) -> None:
    (leader,) = await brokers.start_many(1)
    bundle = (await leader.namespaces.bundles(NAMESPACE)).bundles[0]
    await leader.parts.ownership.bundles.acquire(bundle)
    await leader.parts.balancing.reporter.refresh(force=True)
    await until(
        lambda: str(bundle) in leader.parts.load.cluster.bundles(), "the report is averaged"
    )
    await leader.parts.balancing.keeper.write()
    assert await leader.metadata.exists(paths.bundle_data(str(bundle)))
    await leader.namespaces.moves.split(bundle, unload=False)
    await leader.parts.balancing.reporter.refresh(force=True)
    await vanished(leader, paths.bundle_data(str(bundle)))


async def test_a_namespace_that_is_created_again_starts_without_the_load_of_the_former(
    brokers: BrokersOfTest,
) -> None:
    leader, other = await brokers.start_many(2)
    bundle = (await leader.namespaces.bundles(NAMESPACE)).bundles[0]
    busy = BundleData.unseen().short_term_data
    busy = replace(busy, num_samples=10, msg_rate_in=2974.0)
    data = replace(BundleData.unseen(), short_term_data=busy, long_term_data=busy)
    await leader.metadata.put(paths.bundle_data(str(bundle)), json.dumps(data.to_json()).encode())
    await other.parts.ownership.bundles.acquire(bundle)
    await other.parts.balancing.reporter.refresh(force=True)
    await until(
        lambda: str(bundle) in leader.parts.load.cluster.bundles(), "the report is averaged"
    )
    assert leader.parts.load.cluster.bundles()[str(bundle)].short_term_data.msg_rate_in > 1000
    await leader.metadata.put(paths.local_policies(NAMESPACE), b"{}")
    await leader.metadata.delete(paths.local_policies(NAMESPACE))
    await other.parts.ownership.bundles.release(bundle, None)
    await other.parts.balancing.reporter.refresh(force=True)
    await vanished(leader, paths.bundle_data(str(bundle)))
    await other.parts.ownership.bundles.acquire(bundle)
    await other.parts.balancing.reporter.refresh(force=True)
    await until(
        lambda: str(bundle) in leader.parts.load.cluster.bundles(), "the report is averaged"
    )
    assert leader.parts.load.cluster.bundles()[str(bundle)].short_term_data.msg_rate_in < 1000


async def test_001_l612_without_load_balancing_no_load_task_runs(
    any_brokers: BrokersOfTest,
) -> None:
    broker = await any_brokers.start(load_balancer_enabled=False)
    bundle = (await broker.namespaces.bundles(NAMESPACE)).bundles[0]
    before = await stored_report(broker)
    await broker.parts.ownership.bundles.acquire(bundle)
    await broker.parts.balancing.reporter.refresh()
    assert str(bundle) in broker.load_report().last_stats, "its admin API still measures"
    assert await stored_report(broker) == before, "a report was published"
    running = " ".join(broker.background.running)
    for task in ("average", "shedding", "split", "load's", "load data"):
        assert task not in running
    assert not await broker.metadata.exists(paths.BROKER_TIME_AVERAGE)
