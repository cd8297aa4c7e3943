"""What brokers know of each other's load, and what the leader stores of it."""

import asyncio
from collections.abc import Iterable

import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.broker.load.keeper import LoadKeeper
from counterpoise.broker.load.registry import BrokerRegistry, foreign_brokers, write_report
from counterpoise.load.fold import FoldOptions
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats
from counterpoise.metadata import MemoryTree, MetadataStore, SessionEvent
from tests.broker.misbehaving_store import MisbehavingStore
from tests.waiting import found, turns

ME, OTHER = "b1:8080", "b2:8080"
LOWER, UPPER = "t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"


class Cluster:
    """Two brokers whose reports a test writes; `load` is what one of them knows."""

    def __init__(self, bundles_in_report: int = 0) -> None:
        self.now_ms = 1_000_000
        self.leads = True
        self.background = BackgroundTasks()
        self.store: MetadataStore = MemoryTree().open()
        self.load = ClusterLoad(
            BrokerRegistry(self.store, ME),
            self.store,
            clock_ms=lambda: self.now_ms,
            options=lambda: FoldOptions(forget_after_ms=600_000),
        )
        self.keeper = LoadKeeper(
            self.store,
            self.load,
            me=ME,
            is_leader=lambda: self.leads,
            config=lambda: LoadReportConfig(bundles_in_report=bundles_in_report),
            background=self.background,
        )

    async def report(self, broker: str, bundles: Iterable[str] = ()) -> None:
        """A broker reports these bundles: of two, the second has twice the load of the first."""
        stats = {
            each: NamespaceBundleStats(msg_rate_in=10.0 * place, msg_throughput_in=100.0 * place)
            for place, each in enumerate(bundles, 1)
        }
        said = LocalBrokerData(bundles=tuple(stats), last_stats=stats)
        await self.store.put(paths.broker(broker), write_report(said))
        await asyncio.sleep(0)  # the notification comes in the next turn
        self.now_ms += 1000

    async def stored(self) -> list[str]:
        return await self.store.children(f"{paths.BUNDLE_DATA}/t/n")


@pytest.mark.parametrize(("most", "stored"), [(1, 2), (2, 3), (0, 3)])
async def test_the_leader_stores_the_averages_of_the_busiest_bundles_of_each_broker(
    most: int, stored: int
) -> None:
    """Those that were reported a moment ago; 0: all of them."""
    cluster = Cluster(bundles_in_report=most)
    await cluster.report(ME, [LOWER, UPPER])
    await cluster.report(OTHER, ["t/other/0x00000000_0xffffffff"])
    await cluster.keeper.write()
    others = await cluster.store.children(f"{paths.BUNDLE_DATA}/t/other")
    assert len(await cluster.stored()) + len(others) == stored
    assert UPPER.rpartition("/")[2] in await cluster.stored()


async def test_an_assigned_bundle_counts_for_its_new_broker_alone() -> None:
    cluster = Cluster()
    await cluster.report(ME, [LOWER, UPPER])
    await cluster.report(OTHER)
    await cluster.load.refresh()
    assert cluster.load.namespaces()[ME] == {"t/n": 2}
    assert cluster.load.view().broker.preallocated_rate.tolist() == [0.0, 0.0]
    cluster.load.assign(LOWER, OTHER)
    counts = cluster.load.namespaces()
    assert (counts[ME]["t/n"], counts[OTHER]["t/n"]) == (1, 1)
    assert cluster.load.view().broker.preallocated_rate.tolist() == [0.0, 10.0]
    cluster.load.assign(LOWER, ME)
    counts = cluster.load.namespaces()
    assert (counts[ME]["t/n"], counts[OTHER]["t/n"]) == (2, 0)
    assert cluster.load.view().broker.preallocated_rate.tolist() == [10.0, 0.0]


async def test_who_leads_again_removes_what_was_stored_meanwhile() -> None:
    cluster = Cluster()
    await cluster.report(ME, [LOWER])
    cluster.keeper.start()
    for round_, bundle in enumerate((LOWER, UPPER)):
        path = paths.bundle_data(bundle)
        await cluster.store.put(path, b"{}")
        await cluster.store.put(paths.time_average("gone:1"), b"{}")
        cluster.leads = True
        await cluster.report(ME, ["t/n/0x00000000_0xffffffff"] * (round_ + 1))
        await vanishes(cluster.store, path)
        await vanishes(cluster.store, paths.time_average("gone:1"))
        cluster.leads = False
        await cluster.report(ME, [LOWER] * round_)
        await cluster.load.refresh()
        await turns()
    await asyncio.wait(cluster.keeper.stop())


async def vanishes(store: MetadataStore, path: str) -> None:
    async def is_gone() -> bool:
        return not await store.exists(path)

    await found(is_gone, f"{path} is removed")


async def test_a_namespace_that_was_deleted_is_forgotten_once() -> None:
    """Its successor's bundles keep their averages while they are on their way, as others do."""

    async def rate_where_it_goes(*, deleted: bool) -> float:
        cluster = Cluster()
        for number, bundles in enumerate(([LOWER], [], [LOWER], [])):
            await cluster.report(ME, bundles)
            await cluster.load.refresh()
            if deleted and number == 0:
                cluster.load.forget("t/n")
        cluster.load.assign(LOWER, OTHER)
        return cluster.load.assigned.rate(OTHER)

    assert await rate_where_it_goes(deleted=True) == await rate_where_it_goes(deleted=False) == 10.0


async def test_a_list_of_brokers_that_changed_while_it_was_read_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    registry, children = BrokerRegistry(cluster.store, ME), cluster.store.children
    await cluster.report(ME)

    async def comes_meanwhile(path: str) -> list[str]:
        before = await children(path)
        await cluster.report(OTHER)
        await asyncio.sleep(0)
        return before

    monkeypatch.setattr(cluster.store, "children", comes_meanwhile)
    assert await registry.active() == [ME]
    assert await registry.active() == [ME, OTHER]


async def test_another_process_under_the_same_id_is_reported_and_leaves_the_broker_registered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tree = MemoryTree()
    stores = [tree.open() for _ in range(2)]
    registries = [BrokerRegistry(store, ME, with_load=False) for store in stores]
    deleted = [asyncio.Event() for _ in registries]
    for registry, event in zip(registries, deleted, strict=True):
        registry.when_deleted(event.set)
    reports = [LocalBrokerData(web_service_url=f"http://h:{number}") for number in range(2)]

    async def registered() -> str | None:
        found = await BrokerRegistry(tree.open(), OTHER).report(ME)
        return found and found.web_service_url

    await registries[0].register(reports[0])
    for times in (1, 2):
        await registries[1].register(reports[1])
        async with asyncio.timeout(30):
            await deleted[0].wait()
        for _ in range(2):
            await registries[0].register(reports[0])
        assert await registered() == "http://h:1"
        assert caplog.text.count(f"has registered under this one's id, {ME}") == times
        deleted[0].clear()
        await registries[1].unregister()
        async with asyncio.timeout(30):
            await deleted[0].wait()
        await registries[0].register(reports[0])
        assert await registered() == "http://h:0"
        deleted[0].clear()
    assert await foreign_brokers(tree.open()) == []


@pytest.mark.parametrize("announces", [False, True])
async def test_a_broker_that_leaves_keeps_the_registration_of_another_under_its_id(
    announces: bool,
) -> None:
    tree = MemoryTree()
    first, second = (BrokerRegistry(tree.open(), ME, with_load=False) for _ in range(2))
    reports = [LocalBrokerData(web_service_url=f"http://h:{number}") for number in range(2)]
    await first.register(reports[0])
    await second.register(reports[1])
    await first.register(reports[0])
    observer = tree.open()
    before = await observer.get(paths.broker(ME))
    if announces:
        await first.announce_leaving(reports[0])
    await first.unregister()
    assert await observer.get(paths.broker(ME)) == before is not None
    assert await foreign_brokers(observer) == []


@pytest.mark.parametrize("left", [False, True])
async def test_a_broker_that_registers_again_is_one_of_ours(left: bool) -> None:
    """After a lost session, or after it had left."""
    tree = MemoryTree()
    store, back = MisbehavingStore(tree), asyncio.Event()
    registry = BrokerRegistry(store, ME)
    await registry.register(LocalBrokerData())
    store.subscribe_session(
        lambda event: back.set() if event is SessionEvent.SESSION_REESTABLISHED else None
    )
    if left:
        await registry.unregister()
        assert await store.children(paths.OWN_BROKERS) == []
    else:
        store.lose_session()
        store.come_back()
        async with asyncio.timeout(30):
            await back.wait()
    await registry.register(LocalBrokerData())
    assert await foreign_brokers(tree.open()) == []
    assert await registry.active() == [ME]


async def test_a_view_of_now_has_the_time_of_now_and_never_one_before_its_reports() -> None:
    cluster = Cluster()
    await cluster.report(ME, [LOWER, UPPER])
    await cluster.load.refresh()
    cluster.now_ms = reported_ms = cluster.load.view().now_ms
    for passed_ms, expected_ms in ((5000, reported_ms + 5000), (-5000, reported_ms)):
        cluster.now_ms = reported_ms + passed_ms
        view = cluster.load.view_now([UPPER])
        assert view.now_ms == expected_ms
        assert view.bundle.recently_unloaded.tolist() == [False, True]
    assert not cluster.load.view().bundle.recently_unloaded.any()
