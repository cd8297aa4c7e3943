"""Placement under the extensible load manager: by registrations, published load and records."""

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.bundles.placement_policies import PlacementPolicyReader
from counterpoise.broker.bundles.store_placement import StorePlacer
from counterpoise.broker.load.registry import BrokerRegistry, read_report, write_lookup_data
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.load.extensible import BrokerLoadData, TopBundlesLoadData
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats
from counterpoise.metadata import MemoryTree
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE
from counterpoise.ownership.port import BundleLocation
from counterpoise.ownership.records import NamespaceEphemeralData
from tests.broker.conftest import BrokersOfTest
from tests.waiting import until

BROKERS = ["b1:8080", "b2:8080", "b3:8080"]
BUNDLE = BundleName.parse("t/n/0x00000000_0x80000000")


@dataclass
class Channel:
    """Where bundles are."""

    found: dict[str, BundleLocation] = field(default_factory=dict)

    async def locations(self) -> dict[str, BundleLocation]:
        return self.found


@dataclass
class Stores:
    """What brokers published."""

    brokers: dict[str, BrokerLoadData] = field(default_factory=dict)
    top_bundles: dict[str, TopBundlesLoadData] = field(default_factory=dict)


class Cluster:
    def __init__(self, **filters: Any) -> None:
        self.store = MemoryTree().open()
        self.channel, self.stores = Channel(), Stores()
        options = FilterOptions(load_manager_class=EXTENSIBLE, **filters)
        self.placer = StorePlacer(
            BrokerRegistry(self.store, BROKERS[0], with_load=False),
            self.stores,
            self.channel,  # type: ignore[arg-type] - as much as a placer asks
            PlacementPolicyReader(Policies(self.store), "c", lambda: options),
            placement=PlacementOptions,
            rng=Random(1),
        )

    async def join(self, *brokers: str) -> None:
        for broker in brokers:
            said = LocalBrokerData(
                load_manager_class_name=EXTENSIBLE, broker_version_string="4.0.7", num_topics=9
            )
            await self.store.put(paths.broker(broker), write_lookup_data(said))

    async def anti_affinity(self, group: str, *namespaces: str) -> None:
        for name in namespaces:
            policies = json.dumps({"namespaceAntiAffinityGroup": group}).encode()
            await self.store.put(f"{paths.LOCAL_POLICIES}/{name}", policies)


def test_003_l536_a_registration_says_what_lookups_need_and_nothing_of_load() -> None:
    said = LocalBrokerData(
        pulsar_service_url="pulsar://b1:6650",
        broker_version_string="4.0.7",
        load_manager_class_name=EXTENSIBLE,
        start_timestamp=7,
        msg_rate_in=3.0,
        last_stats={str(BUNDLE): NamespaceBundleStats(1.0)},
        bundles=(str(BUNDLE),),
    )
    written = json.loads(write_lookup_data(said))
    assert set(written) == {
        "pulsarServiceUrl",
        "advertisedListeners",
        "protocols",
        "persistentTopicsEnabled",
        "nonPersistentTopicsEnabled",
        "loadManagerClassName",
        "startTimestamp",
        "brokerVersion",
        "properties",
    }
    read = read_report(write_lookup_data(said))
    assert read.broker_version_string == "4.0.7"
    assert (read.pulsar_service_url, read.start_timestamp) == ("pulsar://b1:6650", 7)


async def test_003_l536_the_metadata_store_has_no_load_of_an_extensible_cluster() -> None:
    brokers = BrokersOfTest("memory:", EXTENSIBLE)
    started = await brokers.start_many(2)
    for broker in started:
        exchange = broker.load_data
        await until(lambda known=exchange.brokers: len(known) == 2, "both are known")  # type: ignore[misc]
    store = started[0].metadata
    for broker in started:
        stored = await store.get(paths.broker(broker.id))
        assert "cpu" not in json.loads(stored.value)
        assert (await started[0].report_of(broker.id)) is not None
    for path in (paths.BROKER_TIME_AVERAGE, "/loadbalance/bundle-data"):
        assert await store.children(path) == []
    for broker in started:
        await brokers.stop(broker)


async def test_without_brokers_none_is_chosen() -> None:
    assert await Cluster().placer.choose(BUNDLE) is None


async def test_a_broker_that_published_its_topics_at_the_limit_gets_no_bundle() -> None:
    cluster = Cluster(max_topics=10)
    await cluster.join(*BROKERS)
    cluster.stores.brokers = {
        BROKERS[0]: BrokerLoadData(topics=10),
        BROKERS[1]: BrokerLoadData(topics=11),
        BROKERS[2]: BrokerLoadData(topics=9),
    }
    assert {await cluster.placer.choose(BUNDLE) for _ in range(20)} == {BROKERS[2]}


@pytest.mark.parametrize("on_its_way", [False, True])
async def test_bundles_of_an_anti_affinity_group_are_counted_by_their_records(
    on_its_way: bool,
) -> None:
    cluster = Cluster()
    await cluster.join(*BROKERS)
    await cluster.anti_affinity("g", "t/n", "t/other")
    held = {"t/other/0x00000000_0x80000000": BROKERS[0], "t/n/0x80000000_0xffffffff": BROKERS[2]}
    cluster.channel.found = {
        bundle: BundleLocation(None, successor=broker, changing=True)
        if on_its_way
        else BundleLocation(NamespaceEphemeralData("", f"http://{broker}"))
        for bundle, broker in held.items()
    }
    assert {await cluster.placer.choose(BUNDLE) for _ in range(20)} == {BROKERS[1]}


async def test_a_broker_that_leaves_is_not_chosen() -> None:
    cluster = Cluster()
    await cluster.join(*BROKERS)
    without = {BROKERS[0], BROKERS[2]}
    assert {await cluster.placer.choose(BUNDLE, without) for _ in range(20)} == {BROKERS[1]}


@pytest.mark.parametrize("leaves", BROKERS)
async def test_a_broker_that_is_leaving_gets_nothing_and_neither_does_one_that_is_left_out(
    leaves: str,
) -> None:
    cluster = Cluster()
    await cluster.join(*BROKERS)
    leaving = BrokerRegistry(cluster.store, leaves, with_load=False)
    await leaving.announce_leaving(
        LocalBrokerData(load_manager_class_name=EXTENSIBLE, broker_version_string="4.0.7")
    )
    staying = {*BROKERS} - {leaves}
    chosen = {await cluster.placer.choose(BUNDLE) for _ in range(30)}
    assert chosen == staying
    for without in staying:
        assert await cluster.placer.choose(BUNDLE, without={without}) in staying - {without}
    assert await cluster.placer.choose(BUNDLE, without=staying) is None


@pytest.mark.parametrize("properties", [{}, {"zone": "a"}])
async def test_what_else_a_registration_says_of_a_broker_does_not_make_it_leave(
    properties: dict[str, str],
) -> None:
    cluster = Cluster()
    said = LocalBrokerData(load_manager_class_name=EXTENSIBLE, broker_version_string="4.0.7")
    await cluster.store.put(paths.broker(BROKERS[0]), write_lookup_data(said, properties))
    assert await BrokerRegistry(cluster.store, BROKERS[1]).leaving() == set()
    assert await cluster.placer.choose(BUNDLE) == BROKERS[0]
