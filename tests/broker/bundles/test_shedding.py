"""The leader sheds load by itself: when, as long as it leads, and with a word for what it did."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.broker import Broker
from counterpoise.broker.bundles.shedding import LeaderShedding
from counterpoise.broker.bundles.shedding_options import SheddingConfig
from counterpoise.broker.bundles.shedding_sources import LoadStoreSheddingSource
from counterpoise.broker.bundles.tally import BundleTally
from counterpoise.decide.balancing.moves import Move
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.policies import PlacementPolicies
from counterpoise.decide.balancing.round import BalancingStrategy, Shed
from counterpoise.decide.plan import Rejection, StrategyPlan
from counterpoise.decide.shedding.options import UniformOptions, UnloadLimits
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.load.extensible import BrokerLoadData, BundleLoadData, TopBundlesLoadData
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.report import NamespaceBundleStats
from counterpoise.load.view import ClusterView
from counterpoise.metadata import StoreUnavailable
from counterpoise.names.bundle import BundleName
from counterpoise.names.units import bytes_text
from counterpoise.ownership.port import BundleLocation
from counterpoise.ownership.records import NamespaceEphemeralData
from counterpoise.wire.errors import ServerError
from tests.broker.bundles.test_auto_split import heard
from tests.broker.conftest import NAMESPACE, BrokersOfTest, owned
from tests.decide.balancing.test_round import UNEVEN, seen, strategy
from tests.load.story import START
from tests.pipeline.fake_cluster import bundle_name
from tests.quota.jumping import on_jumping_loop, pass_time
from tests.waiting import WITHIN_S, until

SHEDDING = SheddingConfig(balance=BalanceOptions(report_interval_ms=0))


@dataclass
class Leader:
    """One broker's shedding, over a cluster that is as uneven as it was; tests say who leads."""

    leads: bool = True
    config: SheddingConfig = SHEDDING
    now_ms: int = START
    asked: list[Move] = field(default_factory=list)
    refuses: Callable[[Move], Exception | None] = lambda _: None
    store: Exception | None = None
    blocked: asyncio.Event | None = None
    tally: BundleTally = field(default_factory=BundleTally)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    seen_recent: list[frozenset[str]] = field(default_factory=list)
    seen_unloaded: list[dict[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.background = BackgroundTasks()
        self.shedding = LeaderShedding(
            lambda: self,
            self.unload,
            leads=lambda: self.leads,
            config=lambda: self.config,
            background=self.background,
            tally=self.tally,
            clock_ms=lambda: self.now_ms,
        )

    async def unload(self, move: Move) -> None:
        self.asked.append(move)
        self.arrived.set()
        if self.blocked is not None:
            await self.blocked.wait()
        if (error := self.refuses(move)) is not None:
            raise error

    # What it sees.

    def strategy(self, config: SheddingConfig) -> BalancingStrategy:
        return replace(strategy("ThresholdShedder"), balance=config.balance)

    async def view(self, recent: Collection[str], unloaded: Mapping[str, int]) -> ClusterView:
        self.looked.set()
        if self.store is not None:
            raise self.store
        self.seen_recent.append(frozenset(recent))
        self.seen_unloaded.append(dict(unloaded))
        return cluster_view(seen(UNEVEN), self.now_ms, recent)

    async def policies(self, made: Shed) -> PlacementPolicies | None:
        return None


async def test_what_moved_is_left_alone_for_the_grace_period() -> None:
    leader = Leader()
    first = await leader.shedding.run_round()
    moved = {move.bundle for move in first.moves}
    assert moved, "or this test says nothing"
    assert [move.bundle for move in leader.asked] == [move.bundle for move in first.moves]
    leader.now_ms += 60_000
    second = await leader.shedding.run_round()
    assert leader.seen_recent == [frozenset(), frozenset(moved)]
    assert moved.isdisjoint(move.bundle for move in second.moves)
    leader.now_ms += 31 * 60_000
    await leader.shedding.run_round()
    assert leader.seen_recent[-1] == frozenset()
    assert leader.shedding.rounds[0] is first


async def test_003_l371_unloaded_brokers_and_bundles_are_two_figures() -> None:
    leader = Leader()
    brokers = bundles = 0
    for refused in (False, True, False):
        leader.refuses = lambda _, refused=refused: (  # type: ignore[misc]
            BrokerError(ServerError.ServiceNotReady, "not now") if refused else None
        )
        made = await leader.shedding.run_round()
        assert made is not None
        if not refused:
            brokers += len({move.source for move in made.moves})
            bundles += len(made.moves)
        leader.now_ms += 60 * 60_000
    moved = sum(n for (result, _), n in leader.tally.shed.items() if result == "Success")
    assert (leader.tally.shed_brokers, moved) == (brokers, bundles)
    assert 0 < brokers < bundles, "or this test says nothing"


async def test_eight_bundles_move_side_by_side_and_the_others_after_them() -> None:
    class Crowded(Leader):
        async def view(self, recent: Collection[str], unloaded: Mapping[str, int]) -> ClusterView:
            hot = {bundle_name(number): 10_000.0 for number in range(40)}
            return cluster_view(seen({"b1:80": hot, "b2:80": {}}), self.now_ms, recent)

    leader = Crowded(blocked=asyncio.Event())
    under_way = asyncio.create_task(leader.shedding.run_round())
    await until(lambda: len(leader.asked) >= 8, "eight moves have begun")
    await asyncio.sleep(0)
    assert len(leader.asked) == 8
    leader.blocked.set()
    made = await under_way
    assert [move.bundle for move in leader.asked] == [move.bundle for move in made.moves]
    assert len(made.moves) > 8, "or this test says nothing"


async def test_what_was_refused_may_move_in_the_next_round() -> None:
    refused: list[str] = []

    def refuses(move: Move) -> Exception | None:
        if not refused:
            refused.append(move.bundle)
            return BrokerError(ServerError.ServiceNotReady, "not now")
        return None

    leader = Leader(refuses=refuses)
    made = await leader.shedding.run_round()
    assert len(made.moves) > 1, "or this test says nothing"
    leader.now_ms += 60_000
    await leader.shedding.run_round()
    assert leader.seen_recent[-1] == {move.bundle for move in made.moves} - set(refused)
    assert leader.tally.shed["Failure", "Unknown"] == 1
    assert sum(n for (result, _), n in leader.tally.shed.items() if result == "Success") >= 1


async def test_only_the_leader_decides_and_only_where_shedding_is_enabled() -> None:
    assert await Leader(leads=False).shedding.run_round() is None
    off = replace(SHEDDING, balance=BalanceOptions(shedding_enabled=False))
    assert await Leader(config=off).shedding.run_round() is None
    off = replace(SHEDDING, balance=BalanceOptions(enabled=False))
    assert await Leader(config=off).shedding.run_round() is None


async def test_no_round_before_reports_show_what_the_last_one_did() -> None:
    leader = Leader(config=replace(SHEDDING, balance=BalanceOptions(report_interval_ms=5000)))
    assert await leader.shedding.run_round() is not None
    leader.now_ms += 9_999
    assert await leader.shedding.run_round() is None
    leader.now_ms += 1
    assert await leader.shedding.run_round() is not None
    leader.now_ms -= 60_000
    assert await leader.shedding.run_round() is None
    leader.now_ms -= 1  # further than one interval: the clock was ahead
    assert await leader.shedding.run_round() is not None


async def test_reports_are_new_when_they_come_after_the_last_move() -> None:
    """Each move takes 3 s; two reports of 5 s after the last one show what the round did."""
    leader = Leader(config=replace(SHEDDING, balance=BalanceOptions(report_interval_ms=5000)))

    def takes_a_while(_: Move) -> None:
        leader.now_ms += 3_000

    leader.refuses = takes_a_while
    made = await leader.shedding.run_round()
    assert len(made.moves) > 1, "or this test says nothing"
    assert leader.now_ms == START + len(made.moves) * 3_000
    leader.now_ms += 9_999
    assert await leader.shedding.run_round() is None
    leader.now_ms += 1
    assert await leader.shedding.run_round() is not None


async def test_who_leads_no_longer_orders_nothing_more() -> None:
    leader = Leader(blocked=asyncio.Event())
    leader.config = replace(SHEDDING, balance=BalanceOptions(report_interval_ms=0, interval_ms=1))
    running = leader.background.keep("shedding", leader.shedding.run)
    try:
        async with asyncio.timeout(WITHIN_S):
            await leader.arrived.wait()
            assert len(leader.background.running) == 2
            leader.leads = False
            leader.shedding.lead(False)
            await until(lambda: len(leader.background.running) == 1, "its round has ended")
        ordered = len(leader.asked)
        leader.blocked.set()
        assert len(leader.asked) == ordered
        assert not leader.shedding.rounds
    finally:
        running.cancel()
        await leader.background.stop()


async def test_a_broker_that_stops_ends_its_round() -> None:
    leader = Leader(blocked=asyncio.Event())
    leader.config = replace(SHEDDING, balance=BalanceOptions(report_interval_ms=0, interval_ms=1))
    running = leader.background.start("shedding", leader.shedding.run())
    async with asyncio.timeout(WITHIN_S):
        await leader.arrived.wait()
        assert len(leader.background.running) == 2
        running.cancel()
    await until(lambda: not leader.background.running, "its round ends, too")
    assert not leader.shedding.rounds


async def test_what_a_round_moved_before_it_was_cancelled_is_counted() -> None:
    leader = Leader()

    def stops_after_the_first(_: Move) -> None:
        if len(leader.asked) == 2:
            leader.shedding.lead(False)
            rounds.cancel()
            leader.leads = False

    leader.refuses = stops_after_the_first
    rounds = asyncio.create_task(leader.shedding.run_round())
    await asyncio.wait([rounds])
    assert rounds.cancelled()
    assert leader.tally.shed_brokers == len({move.source for move in leader.asked})


async def test_of_several_moves_those_not_yet_ordered_wait_for_no_broker() -> None:
    """Leadership is looked at before each order, not once for all."""
    leader = Leader()

    def loses(_: Move) -> None:
        leader.leads = False

    leader.refuses = loses
    made = await leader.shedding.run_round()
    assert len(made.moves) > 1
    assert len(leader.asked) == 1


async def test_a_new_leader_begins_with_nothing_remembered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "counterpoise.broker.bundles.shedding")
    leader = Leader()
    first = await leader.shedding.run_round()
    assert first is not None
    leader.shedding.lead(False)
    leader.shedding.lead(True)
    leader.now_ms += 60_000
    caplog.clear()
    again = await leader.shedding.run_round()
    assert leader.seen_recent == [frozenset(), frozenset()]
    assert leader.seen_unloaded == [{}, {}]
    said = {each.sentence for each in again.rejections}
    assert said <= set(caplog.messages), "what the leader before it has logged is not its own word"


async def test_a_broker_counts_as_unloaded_since_its_last_move_that_succeeded() -> None:
    leader = Leader()

    def takes_a_while(move: Move) -> Exception | None:
        leader.now_ms += 1000
        last = len(leader.asked) == 3
        return BrokerError(ServerError.ServiceNotReady, "not now") if last else None

    leader.refuses = takes_a_while
    made = await leader.shedding.run_round()
    assert len(made.moves) >= 3, "or this test says nothing"
    assert len({move.source for move in made.moves}) == 1
    await leader.shedding.run_round()
    moved = len(made.moves) - (len(made.moves) == 3)
    assert leader.seen_unloaded[-1] == {made.moves[0].source: START + moved * 1000}


@on_jumping_loop
async def test_a_new_leader_looks_after_a_whole_interval_of_its_own() -> None:
    leader = Leader(leads=False)
    leader.config = replace(SHEDDING, balance=BalanceOptions(interval_minutes=60))
    loop = asyncio.get_running_loop()
    running = leader.background.keep("shedding", leader.shedding.run)
    try:
        await pass_time(90 * 60)
        assert not leader.looked.is_set()
        elected = loop.time()
        leader.leads = True
        leader.shedding.lead(True)
        await leader.looked.wait()
        assert loop.time() - elected == pytest.approx(60 * 60)
    finally:
        running.cancel()
        await leader.background.stop()


async def test_a_round_of_the_time_before_leaves_nothing_to_a_new_leader() -> None:
    leader = Leader(blocked=asyncio.Event())
    under_way = asyncio.create_task(leader.shedding.run_round())
    async with asyncio.timeout(WITHIN_S):
        await leader.arrived.wait()
    leader.shedding.lead(True)
    leader.blocked.set()
    assert await under_way is not None
    leader.now_ms += 60_000
    await leader.shedding.run_round()
    assert leader.seen_recent == [frozenset(), frozenset()]


async def test_a_shorter_interval_holds_at_once() -> None:
    leader = Leader(config=replace(SHEDDING, balance=BalanceOptions(interval_minutes=60)))
    running = leader.background.keep("shedding", leader.shedding.run)
    try:
        await asyncio.sleep(0)
        assert not leader.asked
        leader.config = replace(
            SHEDDING, balance=BalanceOptions(report_interval_ms=0, interval_ms=1)
        )
        leader.shedding.settings_changed()
        async with asyncio.timeout(WITHIN_S):
            await leader.arrived.wait()
    finally:
        running.cancel()
        await leader.background.stop()


async def test_a_store_that_does_not_answer_costs_a_round_and_no_more() -> None:
    leader = Leader(store=StoreUnavailable("/loadbalance", "it is gone"))
    leader.config = replace(SHEDDING, balance=BalanceOptions(report_interval_ms=0, interval_ms=1))
    running = leader.background.keep("shedding", leader.shedding.run)
    try:
        async with asyncio.timeout(WITHIN_S):
            await leader.looked.wait()
            leader.store = None
            await leader.arrived.wait()
        assert not leader.background.failures
    finally:
        running.cancel()
        await leader.background.stop()


async def test_the_log_says_what_moves_and_once_why_the_rest_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "counterpoise.broker.bundles.shedding")
    leader = Leader()
    made = await leader.shedding.run_round()
    said = caplog.messages
    for move in made.moves:
        [line] = [each for each in said if f"{move.bundle} moves from {move.source}" in each]
        assert f"(it carries {bytes_text(move.basis.average)} on average of" in line
        assert f"{move.source} reported {bytes_text(move.basis.source.bytes_per_s)}" in line
    rest = [each.sentence for each in made.rejections]
    assert rest
    assert set(rest) <= set(said)
    caplog.clear()
    leader.now_ms += 60_000
    await leader.shedding.run_round()
    assert not set(rest) & set(caplog.messages)


async def test_a_reason_that_comes_back_is_logged_again_and_one_that_stays_is_not(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "counterpoise.broker.bundles.shedding")
    subjects: list[str] = []

    class Refuses(type(strategy().shedder)):  # type: ignore[misc]
        def plan(self, view: ClusterView, memory: object, *more: object) -> StrategyPlan[object]:
            found = (
                Rejection(each, "rule", None, None, "", "{subject} stays") for each in subjects
            )
            return StrategyPlan((), tuple(found), memory)

    leader = Leader()
    monkeypatch.setattr(leader, "strategy", lambda _: replace(strategy(), shedder=Refuses()))
    logged = []
    for now in (["b1"], ["b1", "b2"], ["b2"], ["b2", "b1"]):
        subjects[:] = now
        caplog.clear()
        leader.now_ms += 60_000
        await leader.shedding.run_round()
        logged.append(caplog.messages)
    assert logged == [["b1 stays"], ["b2 stays"], [], ["b1 stays"]]
    assert leader.tally.shed["Skip", "rule"] == 6


# With brokers.

UNIFORM = SheddingConfig(
    strategy="UniformLoadShedder",
    balance=BalanceOptions(report_interval_ms=10),
    own=UniformOptions(limits=UnloadLimits(max_unload_percentage=0.5, min_unload_message=1)),
)


async def busy(broker: Broker, count: int) -> list[BundleName]:
    """Let a broker own some bundles and report traffic on each."""
    bundles = list((await broker.namespaces.bundles(NAMESPACE)).bundles[:count])
    for bundle in bundles:
        await broker.parts.ownership.bundles.acquire(bundle)
    await said(broker, {str(each): NamespaceBundleStats(500.0, 5e7) for each in bundles})
    return bundles


async def said(broker: Broker, stats: Mapping[str, NamespaceBundleStats]) -> None:
    report = replace(
        broker.load_report(),
        last_stats=stats,
        bundles=tuple(stats),
        num_bundles=len(stats),
        msg_rate_in=sum(each.msg_rate_in for each in stats.values()),
        msg_throughput_in=sum(each.msg_throughput_in for each in stats.values()),
    )
    await broker.parts.load.registry.register(report)
    await heard(broker, broker.id, stats)


async def test_the_leader_moves_bundles_to_where_placement_wants_them(
    brokers: BrokersOfTest,
) -> None:
    quiet = replace(brokers.load_report, min_interval_ms=600_000)
    leader, other = await brokers.start_many(2, shedding=UNIFORM, load_report=quiet)
    assert SHEDDERS.find("UniformLoadShedder").name == UNIFORM.strategy
    bundles = await busy(leader, 4)
    await heard(other, leader.id, dict(leader.parts.load.cluster.reports[leader.id].last_stats))
    assert await other.shedding.run_round() is None, "it does not lead"
    made = await leader.shedding.run_round()
    assert made.moves, [each.sentence for each in made.rejections]
    moved = [BundleName.parse(move.bundle) for move in made.moves]
    assert set(owned(other)) == set(moved)
    assert set(owned(leader)) == set(bundles) - set(moved)
    assert {move.destination for move in made.moves} == {other.id}


@dataclass
class LoadStoresOfTest:
    """What brokers have published of their load."""

    brokers: Mapping[str, BrokerLoadData]
    top_bundles: Mapping[str, TopBundlesLoadData]


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_bundle_on_its_way_out_counts_as_owned_by_no_broker(
    brokers: BrokersOfTest, leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await brokers.start()
    parts, bundle = broker.parts, f"{NAMESPACE}/0x00000000_0x40000000"
    me = NamespaceEphemeralData(broker.service_url, broker.web_url)

    async def locate(_: BundleName) -> BundleLocation:
        return BundleLocation(me, changing=leaves)

    monkeypatch.setattr(parts.ownership.bundles, "locate", locate)
    top = TopBundlesLoadData((BundleLoadData(bundle, NamespaceBundleStats(500.0, 5e7)),))
    stores = LoadStoresOfTest({broker.id: BrokerLoadData()}, {broker.id: top})
    source = LoadStoreSheddingSource(
        stores, parts.load.registry, parts.bundles.placer, parts.ownership.bundles
    )
    view = await source.view((), {})
    assert view.rules.owners == ({} if leaves else {bundle: broker.id})
