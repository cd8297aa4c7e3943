"""Where bundles go: by policies, by evenness, by load, and what was just decided."""

import asyncio
import json
from dataclasses import replace
from random import Random

import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.bundles.placement import LoadPlacer
from counterpoise.broker.bundles.placement_policies import PlacementPolicyReader
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.broker.load.registry import BrokerRegistry, write_report
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.load.average import BundleData, TimeAverageMessageData
from counterpoise.load.fold import FoldOptions
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats
from counterpoise.load.usage import ResourceUsage
from counterpoise.metadata import MemoryTree, MetadataStore
from counterpoise.names.bundle import BundleName

PLACEMENT_OPTIONS = PlacementOptions()
BROKERS = ["b1:8080", "b2:8080", "b3:8080"]
MODULAR = FilterOptions().load_manager_class


def bundle(namespace: str, lower: int) -> BundleName:
    return BundleName.parse(f"{namespace}/0x{lower:08x}_0x{lower + 1:08x}")


def report(bundles: list[BundleName], *, rate: float = 100.0, cpu: float = 10.0) -> LocalBrokerData:
    return LocalBrokerData(
        cpu=ResourceUsage(cpu, 100.0),
        bundles=tuple(map(str, bundles)),
        last_stats={str(each): NamespaceBundleStats(rate, 1e4, rate, 1e4) for each in bundles},
        num_bundles=len(bundles),
        load_manager_class_name=MODULAR,
        broker_version_string="4.0.7",
    )


class Cluster:
    """Reports in a metadata tree, and a placer that reads them."""

    def __init__(self, placement: PlacementOptions = PLACEMENT_OPTIONS, **filters: object) -> None:
        self.store: MetadataStore = MemoryTree().open()
        self.policies = Policies(self.store)
        self.now_ms = 1_000_000
        self.load = ClusterLoad(
            BrokerRegistry(self.store, BROKERS[0]),
            self.store,
            clock_ms=lambda: self.now_ms,
            options=lambda: FoldOptions(forget_after_ms=60_000),
        )
        self.placer = LoadPlacer(
            self.load,
            PlacementPolicyReader(
                self.policies,
                "c",
                lambda: FilterOptions(**filters),  # type: ignore[arg-type]
            ),
            placement=lambda: placement,
            rng=Random(1),
        )

    async def say(self, broker: str, said: LocalBrokerData) -> None:
        await self.store.put(paths.broker(broker), write_report(said))
        await self.heard()

    async def heard(self) -> None:
        """The store's notifications come in the loop's next turn."""
        for _ in range(2):
            await asyncio.sleep(0)

    async def local_policies(self, namespace: str, **policies: object) -> None:
        await self.store.put(f"{paths.LOCAL_POLICIES}/{namespace}", json.dumps(policies).encode())


@pytest.fixture
async def cluster() -> Cluster:
    made = Cluster()
    for broker in BROKERS:
        await made.say(broker, report([]))
    return made


async def test_without_brokers_none_is_chosen() -> None:
    assert await Cluster().placer.choose(bundle("t/n", 0)) is None


async def test_a_namespace_is_spread_before_load_is_looked_at(cluster: Cluster) -> None:
    await cluster.say(BROKERS[0], report([bundle("t/n", 1)], rate=1.0))
    await cluster.say(BROKERS[1], report([bundle("t/n", 2)], rate=1.0))
    await cluster.say(BROKERS[2], report([bundle("t/other", 1)], rate=9000.0))
    assert await cluster.placer.choose(bundle("t/n", 3)) == BROKERS[2]


async def test_then_the_least_long_term_rate_decides(cluster: Cluster) -> None:
    for broker, rate in zip(BROKERS, (300.0, 100.0, 200.0), strict=True):
        await cluster.say(broker, report([bundle("t/other", BROKERS.index(broker))], rate=rate))
    assert await cluster.placer.choose(bundle("t/n", 0)) == BROKERS[1]


async def test_what_was_just_placed_counts_before_it_is_reported(cluster: Cluster) -> None:
    chosen = [await cluster.placer.choose(bundle("t/n", each)) for each in range(6)]
    assert sorted(map(str, chosen)) == sorted(BROKERS * 2)
    assert cluster.load.namespaces()[BROKERS[0]] == {"t/n": 2}
    assert cluster.load.view().broker.preallocated_rate.tolist() == [200.0] * 3


async def test_a_report_confirms_an_assignment(cluster: Cluster) -> None:
    placed = bundle("t/n", 0)
    chosen = await cluster.placer.choose(placed)
    assert chosen is not None
    await cluster.say(chosen, report([placed]))
    await cluster.load.refresh()
    assert cluster.load.assigned.broker_of(str(placed)) is None
    assert cluster.load.namespaces() == {chosen: {"t/n": 1}}
    assert cluster.load.view().broker.preallocated_rate.tolist() == [0.0] * 3


async def test_an_assignment_to_a_broker_that_died_is_forgotten(cluster: Cluster) -> None:
    placed = bundle("t/n", 0)
    chosen = await cluster.placer.choose(placed)
    assert chosen is not None
    await cluster.store.delete(paths.broker(chosen))
    await cluster.heard()
    await cluster.load.refresh()
    assert cluster.load.namespaces() == {}
    assert cluster.load.assigned.broker_of(str(placed)) is None
    assert chosen not in cluster.load.view().brokers


async def test_an_assignment_that_no_client_came_for_is_forgotten(cluster: Cluster) -> None:
    placed = bundle("t/n", 0)
    chosen = await cluster.placer.choose(placed)
    for later_ms, still in ((60_000, chosen), (1, None)):
        cluster.now_ms += later_ms
        await cluster.say(BROKERS[0], report([]))
        await cluster.load.refresh()
        assert cluster.load.assigned.broker_of(str(placed)) == still


async def test_a_moved_bundle_is_counted_at_its_new_broker_only(cluster: Cluster) -> None:
    moved = bundle("t/n", 0)
    await cluster.say(BROKERS[0], report([moved]))
    chosen = await cluster.placer.choose(moved, without={BROKERS[0]})
    assert chosen in BROKERS[1:]
    assert cluster.load.namespaces()[BROKERS[0]]["t/n"] == 0
    assert cluster.load.namespaces()[str(chosen)] == {"t/n": 1}


async def test_a_bundle_on_the_move_is_placed_by_what_is_known_of_it(cluster: Cluster) -> None:
    """Pulsar drops its averages as soon as no broker reports it, and assumes a default."""
    moved = bundle("t/n", 0)
    await cluster.say(BROKERS[0], report([moved], rate=700.0))
    await cluster.load.refresh()
    await cluster.say(BROKERS[0], report([]))
    chosen = await cluster.placer.choose(moved, without={BROKERS[0]})
    view = cluster.load.view()
    assert view.bundles == ()
    assert view.broker.preallocated_rate[view.row_of[str(chosen)]] == 1400.0
    await cluster.say(str(chosen), report([moved], rate=100.0))
    await cluster.load.refresh()
    data = cluster.load.bundles()[str(moved)].long_term_data
    assert (data.num_samples, data.msg_rate_in) == (2, 400.0)


async def test_bundles_are_placed_again_and_again_without_a_new_view(cluster: Cluster) -> None:
    """However often a bundle is assigned, it is counted once, where it was assigned last."""
    placed = bundle("t/n", 0)
    for _ in range(4):
        await cluster.placer.choose(placed)
        counted = {
            broker: bundles["t/n"]
            for broker, bundles in cluster.load.namespaces().items()
            if bundles["t/n"]
        }
        assert counted == {cluster.load.assigned.broker_of(str(placed)): 1}
        assert sum(cluster.load.view().broker.preallocated_rate) == 100.0


async def test_isolation_policies_are_heeded_and_unreadable_ones_ignored(cluster: Cluster) -> None:
    policy = {
        "namespaces": ["t/n"],
        "primary": ["b2"],
        "secondary": [],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}},
    }
    await cluster.policies.isolation_policies("c").create({"p": policy, "q": {"namespaces": ["("]}})
    assert await cluster.placer.choose(bundle("t/n", 0)) == BROKERS[1]
    assert await cluster.placer.choose(bundle("t/n", 1)) == BROKERS[1]
    assert await cluster.placer.choose(bundle("t/other", 1)) != BROKERS[1]


async def test_namespaces_of_a_group_are_kept_apart(cluster: Cluster) -> None:
    for namespace in ("t/n", "t/m", "t/o"):
        await cluster.local_policies(namespace, namespaceAntiAffinityGroup="g")
    await cluster.say(BROKERS[0], report([bundle("t/n", 1)]))
    await cluster.say(BROKERS[1], report([bundle("t/m", 1)]))
    await cluster.say(BROKERS[2], report([bundle("t/x", 1)], rate=9000.0))
    assert await cluster.placer.choose(bundle("t/o", 1)) == BROKERS[2]


async def test_an_overloaded_broker_is_not_the_first_choice(cluster: Cluster) -> None:
    for broker in BROKERS:
        cpu = 20.0 if broker == BROKERS[2] else 95.0
        await cluster.say(broker, report([], cpu=cpu))
    assert await cluster.placer.choose(bundle("t/n", 0)) == BROKERS[2]


async def test_a_report_is_one_sample_however_often_it_is_looked_at(cluster: Cluster) -> None:
    await cluster.say(BROKERS[0], report([bundle("t/n", 1)], rate=100.0))
    for _ in range(3):
        await cluster.load.refresh()
    data = cluster.load.bundles()[str(bundle("t/n", 1))]
    assert data.short_term_data.num_samples == 1
    await cluster.say(BROKERS[0], report([bundle("t/n", 1)], rate=200.0))
    await cluster.load.refresh()
    data = cluster.load.bundles()[str(bundle("t/n", 1))]
    assert (data.short_term_data.num_samples, data.short_term_data.msg_rate_in) == (2, 150.0)


async def test_averages_start_from_what_was_written_down(cluster: Cluster) -> None:
    name = str(bundle("t/n", 1))
    average = TimeAverageMessageData(10, 1, 1.0, 1.0, 10.0, 10.0)
    known = BundleData(average, replace(average, max_samples=1000))
    await cluster.store.put(paths.bundle_data(name), json.dumps(known.to_json()).encode())
    await cluster.say(BROKERS[0], report([bundle("t/n", 1)], rate=20.0))
    await cluster.load.refresh()
    assert cluster.load.bundles()[name].short_term_data.msg_rate_in == 15.0


async def test_the_view_holds_what_was_reported(cluster: Cluster) -> None:
    await cluster.say(
        BROKERS[0], replace(report([bundle("t/n", 2), bundle("t/n", 1)]), num_topics=7)
    )
    await cluster.load.refresh()
    view = cluster.load.view()
    assert view.brokers == tuple(BROKERS)
    assert view.bundles == (str(bundle("t/n", 1)), str(bundle("t/n", 2)))
    assert view.broker.bundle_count.tolist() == [2, 0, 0]
    assert view.broker.topics.tolist() == [7, 0, 0]
    assert view.reported_by(0).tolist() == [0, 1]
    assert view.broker.usage[0][0] == 10.0
    assert view.broker.long_average.rate_in[0] == 200.0


async def test_an_empty_cluster_has_an_empty_view() -> None:
    assert Cluster().load.view().brokers == ()


async def test_brokers_take_turns_where_the_strategy_says_so() -> None:
    cluster = Cluster(placement=PlacementOptions(strategy="RoundRobinBrokerSelector"))
    for broker in BROKERS:
        await cluster.say(broker, report([]))
    chosen = [await cluster.placer.choose(bundle(f"t/n{each}", 0)) for each in range(6)]
    assert chosen[3:] == chosen[:3]
    assert sorted(map(str, chosen[:3])) == BROKERS
