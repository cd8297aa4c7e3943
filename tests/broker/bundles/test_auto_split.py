"""Bundles that grow too big are split by their owner, unasked."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.broker import Broker
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.state import RECORDS
from tests.broker.conftest import NAMESPACE, BrokersOfTest, owned, records_of, topic_in
from tests.waiting import WITHIN_S

LIMITS = SplitOptions(max_topics=1, auto_unload_enabled=False, hit_count_threshold=0)


async def first_bundle(broker: Broker) -> BundleName:
    bundle = (await broker.namespaces.bundles(NAMESPACE)).bundles[0]
    await broker.parts.ownership.bundles.acquire(bundle)
    return bundle


async def report(broker: Broker, stats: Mapping[str, NamespaceBundleStats]) -> None:
    """Let a broker report these bundles, whatever it has measured."""
    said: LocalBrokerData = replace(
        broker.load_report(), last_stats=stats, bundles=tuple(stats), num_bundles=len(stats)
    )
    broker.parts.balancing.reporter.report = said
    await broker.parts.load.registry.register(said)
    await heard(broker, broker.id, stats)


async def heard(broker: Broker, reporter: str, stats: Mapping[str, NamespaceBundleStats]) -> None:
    """Wait until a broker knows what another, or itself, has reported."""
    if broker.load_data is not None:
        return  # No broker's load is in its registration, and owners split by their own.
    seen = asyncio.Event()

    def look() -> bool:
        report = broker.parts.load.cluster.reports.get(reporter)
        return report is not None and dict(report.last_stats) == dict(stats)

    leave = broker.metadata.subscribe(lambda _: seen.set())
    try:
        async with asyncio.timeout(WITHIN_S):
            while True:
                seen.clear()
                await broker.parts.load.cluster.refresh()
                if look():
                    return
                await seen.wait()
    finally:
        leave()


BIG = NamespaceBundleStats(topics=2, producer_count=1)


async def quiet(
    brokers: BrokersOfTest, splitting: SplitOptions
) -> tuple[Broker, Broker, BundleName]:
    """Two brokers that report no load by themselves, and the first bundle."""
    load_report = replace(brokers.load_report, min_interval_ms=600_000)
    broker, other = await brokers.start_many(2, splitting=splitting, load_report=load_report)
    return broker, other, await first_bundle(broker)


async def test_the_owner_splits_a_bundle_above_a_limit(any_brokers: BrokersOfTest) -> None:
    broker, other, bundle = await quiet(any_brokers, LIMITS)
    await report(broker, {str(bundle): BIG})
    await heard(other, broker.id, {str(bundle): BIG})
    assert await other.parts.balancing.auto_split.check() == [], "it is not the other's bundle"
    assert await broker.parts.balancing.auto_split.check() == [bundle]
    parts = (await broker.namespaces.bundles(NAMESPACE)).bundles[:2]
    assert [part.range.lower for part in parts] == [bundle.range.lower, 0x20000000]
    assert set(parts) <= set(owned(broker))
    assert topic_in(bundle) in parts[0] or topic_in(bundle) in parts[1]


async def test_parts_are_unloaded_where_that_is_wanted(brokers: BrokersOfTest) -> None:
    broker, other, bundle = await quiet(brokers, replace(LIMITS, auto_unload_enabled=True))
    await report(broker, {str(bundle): BIG})
    await broker.parts.balancing.auto_split.check()
    assert owned(broker) == []
    assert len(owned(other)) == 2


# "Principles", sections 2.2.2 and 2.5: the number of brokers is greater than 1.
async def test_001_l284_l496_a_cluster_of_one_broker_splits_nothing(brokers: BrokersOfTest) -> None:
    quiet = replace(brokers.load_report, min_interval_ms=600_000)
    broker = await brokers.start(splitting=LIMITS, load_report=quiet)
    bundle = await first_bundle(broker)
    await report(broker, {str(bundle): BIG})
    assert await broker.parts.balancing.auto_split.check() == []
    assert owned(broker) == [bundle]
    await brokers.start(splitting=LIMITS, load_report=quiet)
    assert await broker.parts.balancing.auto_split.check() == [bundle]


# "Principles", sections 2.2.2 and 2.5: read-only policies forbid a split.
async def test_001_l322_l539_nothing_is_split_while_policies_are_read_only(
    any_brokers: BrokersOfTest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "counterpoise.broker.bundles.auto_split")
    broker, _, bundle = await quiet(any_brokers, LIMITS)
    await report(broker, {str(bundle): BIG})
    await broker.metadata.put(paths.POLICIES_READ_ONLY, b"")
    for _ in range(2):
        assert await broker.parts.balancing.auto_split.check() == []
    assert owned(broker) == [bundle]
    assert [paths.POLICIES_READ_ONLY in each.message for each in caplog.records] == [True]
    await broker.metadata.delete(paths.POLICIES_READ_ONLY)
    assert await broker.parts.balancing.auto_split.check() == [bundle]


@pytest.mark.parametrize(
    ("options", "stats"),
    [
        (replace(LIMITS, auto_split_enabled=False), BIG),
        (replace(LIMITS, maximum_bundles=4), BIG),
        (LIMITS, replace(BIG, topics=1)),
    ],
)
async def test_it_stays_whole_below_the_limits_or_when_switched_off(
    brokers: BrokersOfTest, options: SplitOptions, stats: NamespaceBundleStats
) -> None:
    broker, _, bundle = await quiet(brokers, options)
    await report(broker, {str(bundle): stats})
    assert await broker.parts.balancing.auto_split.check() == []
    assert len((await broker.namespaces.bundles(NAMESPACE)).bundles) == 4


@pytest.mark.parametrize(
    ("reported", "times"),
    [([BIG, BIG, BIG], 1), ([BIG, replace(BIG, topics=1), BIG], 2)],
    ids=["said once", "said again when it comes back"],
)
async def test_why_a_bundle_stays_whole_is_logged(
    brokers: BrokersOfTest,
    caplog: pytest.LogCaptureFixture,
    reported: list[NamespaceBundleStats],
    times: int,
) -> None:
    caplog.set_level(logging.INFO, "counterpoise.broker.bundles.auto_split")
    broker, _, bundle = await quiet(brokers, replace(LIMITS, maximum_bundles=4))
    for stats in reported:
        await report(broker, {str(bundle): stats})
        await broker.parts.balancing.auto_split.check()
    assert [str(bundle) in each.message for each in caplog.records] == [True] * times


async def test_a_bundle_that_moved_meanwhile_is_left_alone(
    brokers: BrokersOfTest, caplog: pytest.LogCaptureFixture
) -> None:
    broker, other, bundle = await quiet(brokers, LIMITS)
    await report(broker, {str(bundle): BIG})
    await broker.namespaces.moves.unload(bundle, other.id)
    assert await broker.parts.balancing.auto_split.check() == []
    assert "was not split" in caplog.text


# Under the extensible load manager.


@pytest.fixture
async def extensible() -> AsyncIterator[BrokersOfTest]:
    async with BrokersOfTest("memory:", EXTENSIBLE) as made:
        yield made


async def test_a_broker_splits_what_was_too_big_four_times_in_a_row(
    extensible: BrokersOfTest, caplog: pytest.LogCaptureFixture
) -> None:
    quiet = replace(extensible.load_report, min_interval_ms=600_000)
    broker, other = await extensible.start_many(
        2,
        splitting=replace(LIMITS, hit_count_threshold=3, auto_unload_enabled=True),
        load_report=quiet,
    )
    bundle = await first_bundle(broker)
    await report(broker, {str(bundle): BIG})
    for _ in range(2):
        assert await broker.parts.balancing.auto_split.check() == []
    await report(broker, {str(bundle): replace(BIG, topics=1)})
    assert await broker.parts.balancing.auto_split.check() == []
    await report(broker, {str(bundle): BIG})
    # A bundle with a single topic is not looked at: what it was found before still counts.
    assert await broker.parts.balancing.auto_split.check() == []
    assert await broker.parts.balancing.auto_split.check() == [bundle]
    assert broker.tally.split_for == {"Topics": 1}
    parts = (await broker.namespaces.bundles(NAMESPACE)).bundles[:2]
    assert set(parts) <= set(owned(broker)), "its parts stay where they are"
    assert not owned(other)


async def test_no_two_neighbours_are_split_at_once(extensible: BrokersOfTest) -> None:
    quiet = replace(extensible.load_report, min_interval_ms=600_000)
    broker = await extensible.start(splitting=LIMITS, load_report=quiet)
    first, second = (await broker.namespaces.bundles(NAMESPACE)).bundles[:2]
    await broker.parts.ownership.bundles.acquire(first)
    splitting = ServiceUnitStateData(
        ServiceUnitState.SPLITTING, None, "b9:8080", timestamp_ms=2**50, version=7
    )
    whole = BundleName.parse(f"{NAMESPACE}/0x00000000_0x80000000")
    await records_of(broker).put(f"{RECORDS}/{whole}", splitting.to_json())
    await report(broker, {str(first): BIG})
    assert await broker.parts.balancing.auto_split.check() == []
    await records_of(broker).delete(f"{RECORDS}/{whole}")
    await broker.parts.ownership.bundles.acquire(second)
    assert await broker.parts.balancing.auto_split.check() == [first]
