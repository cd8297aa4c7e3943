"""A replay of a strategy: the same decisions as the balancer's, and figures that add up by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from counterpoise.app.strategies import as_pulsar, strategy_from
from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from counterpoise.decide.plan import Rejection
from counterpoise.load.rates import Indices, Rates
from counterpoise.load.view import Integers, Masks
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest.measure import BacktestResult, Measure
from counterpoise.pipeline.backtest.simulate import AS_RECORDED, BacktestCandidate, simulate
from counterpoise.pipeline.backtest.simulated_brokers import Publications
from counterpoise.pipeline.backtest.synthetic import KINDS, SyntheticTrace
from counterpoise.pipeline.backtest.trace import Hosts, LoadTrace

START = 1_700_000_000_000
FLOORS = {"loadBalancerBundleUnloadMinThroughputThreshold": "0.001", "minUnloadMessage": "1",
          "minUnloadMessageThroughput": "1"}  # fmt: skip


@dataclass
class Plain:
    """A trace that is written down: bytes/s of each bundle, the same at every step."""

    through: list[float]
    first_owners: list[int]
    there: list[list[bool]]
    name: str = "plain"
    start_ms: int = START
    step_ms: int = 60_000

    @property
    def steps(self) -> int:
        return len(self.there)

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(f"b{i}:80" for i in range(len(self.there[0])))

    @property
    def bundles(self) -> tuple[str, ...]:
        return tuple(f"t/n/0x{i:08x}_0x{i + 1:08x}" for i in range(len(self.through)))

    @property
    def topics(self) -> Integers:
        return np.full(len(self.through), 3, np.int64)

    @property
    def owners(self) -> Indices:
        return np.array(self.first_owners, np.intp)

    @property
    def hosts(self) -> Hosts:
        count = len(self.brokers)
        return Hosts(np.full(count, 1e6), np.full(count, 5.0), np.zeros(count))

    def loads(self, step: int) -> Rates:
        through = np.array(self.through)
        return Rates(through / 100, through / 50, through, through * 2)

    def up(self, step: int) -> Masks:
        return np.array(self.there[step], np.bool_)

    def measured(self, step: int) -> Masks | None:
        return None

    def moved(self, step: int) -> Sequence[tuple[int, int, int]]:
        return ()


def strategy(name: str = "ThresholdShedder", placement: str = "LeastUsage") -> BalancingStrategy:
    return strategy_from(Properties(FLOORS), shedder=name, placement=placement)


def replayed(trace: LoadTrace, by: BalancingStrategy | None, **more: float) -> BacktestResult:
    return simulate(
        BacktestCandidate("c", by), trace, 0, trace.steps, move_s=more.get("move_s", 1.0), seed=1
    )


def test_the_figures_by_hand() -> None:
    """Two brokers with 30 and 10: largest ÷ mean is 1.5, the deviation half the mean."""
    trace = Plain([10.0, 20.0, 10.0], [0, 0, 1], [[True, True]] * 3)
    result = replayed(trace, None)
    assert (result.imbalance, result.worst, result.deviation) == (1.5, 1.5, 0.5)
    assert (result.uneven, result.moves, result.moved, result.hours) == (1.0, 0, 0.0, 0.05)
    assert result.score == pytest.approx(0.5)


def test_a_broker_that_is_half_as_large_counts_its_bytes_twice() -> None:
    """Fifteen each by their mean size, though one carries twice as much as the other."""
    sizes = np.array([1e6, 2e6])
    measure = Measure(1.0)
    measure.step(np.array([10.0, 20.0]), np.array([0, 1]), np.array([True, True]), sizes, 0.0)
    assert measure.result("c", Plain([1.0], [0], [[True]]), 0, 1).imbalance == pytest.approx(1.0)


def test_what_had_to_move_and_until_when_is_counted_from_a_broker_that_joins() -> None:
    """A third one joins two that are even, and has one of two bundles two minutes later; then it
    leaves, which moves nothing by itself.
    """
    through, sizes, measure = np.array([10.0, 10.0]), np.ones(3), Measure(1.0)
    two, three = np.array([True, True, False]), np.array([True] * 3)
    for owners, up, steps in (([0, 1], two, 3), ([0, 0], three, 2), ([0, 2], three, 4)):
        for _ in range(steps):
            measure.step(through, np.array(owners), up, sizes, 0.0)
    result = measure.result("c", Plain([1.0], [0], [[True]]), 0, 9)
    assert (result.converged_min, result.needed) == (2.0, pytest.approx(2 / 3))
    measure.step(through, np.array([0, 0]), two, sizes, 0.0)
    assert measure.result("c", Plain([1.0], [0], [[True]]), 0, 10).needed == result.needed


def test_what_a_move_costs_by_hand() -> None:
    """All on one of two brokers; what goes is counted, as load, as time and as messages."""
    trace = Plain([300_000.0] * 2, [0, 0], [[True, True]] * 2)
    result = replayed(trace, strategy(), move_s=2.5)
    assert result.moves == 1
    assert result.moved == pytest.approx(0.5)
    assert (result.waited_s, result.delayed) == (2.5, pytest.approx(2.5 * 3000.0))
    assert (result.imbalance, result.worst) == (1.5, 2.0)


def test_what_a_broker_uses_more_with_a_bundle_is_what_that_bundle_adds() -> None:
    hosts = Hosts(np.array([1e6, 2e6]), np.array([5.0, 5.0]), np.array([0.5, 0.25]))

    def carried(number: float) -> Rates:
        return Rates(*(np.array([0.0, each * number]) for each in (10.0, 20.0, 3e5, 6e5)))

    added = hosts.usage(carried(3.0))[1] - hosts.usage(carried(2.0))[1]
    assert hosts.more(1, carried(1.0), 1).tolist() == pytest.approx(added.tolist())
    assert added.tolist() == pytest.approx([7.5, 0, 0, 15, 30])


@pytest.mark.parametrize("kind", KINDS)
def test_a_quarter_of_the_brokers_are_half_as_large_in_one_kind_alone(kind: str) -> None:
    sizes = SyntheticTrace(kind, count_of_brokers=8).hosts.bytes_most
    half = 2 if kind == "heterogeneous" else 0
    assert sorted(sizes / 1.25e9) == [0.5] * half + [1.0] * (8 - half)


def test_a_round_waits_until_reports_show_what_the_last_one_has_moved() -> None:
    """Ten seconds after the last bundle has arrived; a report comes every minute."""
    trace = Plain([90_000.0] * 9, [0] * 9, [[True, True, True]] * 3)
    by = strategy("UniformLoadShedder")
    rounds = [replayed(trace, by, move_s=each).moves for each in (50, 51, 110, 111)]
    assert rounds == [4, 3, 3, 2], "of three, or two, or one"


def test_bundles_of_a_broker_that_leaves_are_placed_and_come_not_back_by_themselves() -> None:
    there = [[True, True, True], [True, False, True], [True, True, True]]
    trace = Plain([50_000.0] * 6, [0, 0, 1, 1, 2, 2], there)
    result = replayed(trace, None)
    assert (result.orphans, result.moves) == (2, 0)
    placed = replayed(trace, strategy("OverloadShedder"))
    assert placed.orphans == 2
    assert placed.worst == pytest.approx(1.5), "one each on those that stay, then 3, 0 and 3"


def test_a_bundle_that_is_placed_counts_for_the_next_one() -> None:
    """Four of a broker that leaves: by messages/s as reported, all would go to the idle one."""
    trace = Plain([50_000.0] * 4 + [5000.0], [0] * 4 + [1], [[True] * 3, [False, True, True]])
    by = strategy("OverloadShedder", "LeastLongTermMessageRate")
    placed = simulate(BacktestCandidate("c", by), trace, 0, 2, move_s=1.0, seed=1, followed=1)
    assert (placed.orphans, placed.moves) == (4, 0)
    assert placed.worst == pytest.approx(105 / 102.5), "two each"


SMALL = {"count_of_brokers": 9, "count_of_bundles": 120, "hours": 1.5}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_load_is_the_same_for_its_seed_and_balanced_by_a_strategy(kind: str) -> None:
    trace = SyntheticTrace(kind, **SMALL)  # type: ignore[arg-type]
    again = SyntheticTrace(kind, **SMALL)  # type: ignore[arg-type]
    other = SyntheticTrace(kind, seed=2, **SMALL)  # type: ignore[arg-type]
    late = trace.loads(77).throughput()
    trace.loads(3)
    np.testing.assert_array_equal(late, again.loads(77).throughput())
    assert not np.array_equal(late, other.loads(77).throughput())
    assert replayed(trace, strategy()) == replayed(again, strategy())
    assert replayed(trace, strategy()).imbalance < replayed(trace, None).imbalance
    assert (late >= 0).all()
    for step in range(trace.steps):
        assert trace.up(step).sum() >= 6


def test_those_who_join_and_leave() -> None:
    growing = SyntheticTrace("scale-out", **SMALL)  # type: ignore[arg-type]
    assert (growing.up(0).sum(), growing.up(growing.steps - 1).sum()) == (6, 9)
    assert set(growing.owners.tolist()) <= set(range(6))
    restarting = SyntheticTrace("rolling-restart", **SMALL)  # type: ignore[arg-type]
    gone = [tuple(np.flatnonzero(~restarting.up(step))) for step in range(restarting.steps)]
    away = [(), *((broker,) for broker in range(9))]
    assert gone[: 3 * 10] == [each for each in away for _ in range(3)], "three minutes each"
    assert set(gone[3 * 10 :]) == {()}


@dataclass
class Measured(Plain):
    """Brokers that measure every twelfth step of five seconds, the second half a minute later."""

    step_ms: int = 5000
    went: tuple[tuple[int, int, int, int], ...] = ()
    """Step, bundle, source and destination of what moved in the recording."""

    def measured(self, step: int) -> Masks | None:
        return np.array([step % 12 == 6 * index for index in range(len(self.brokers))])

    def moved(self, step: int) -> Sequence[tuple[int, int, int]]:
        return [(row, source, to) for at, row, source, to in self.went if at == step]


def seen_by(
    by: BalancingStrategy, trace: LoadTrace, steps: int, move_s: float
) -> tuple[list[dict[str, float]], list[RoundMemory]]:
    """Bytes/s by broker in each view that the strategy was asked about, and its memory then."""
    views, memories = [], []
    plan = BalancingStrategy.plan

    def spied(self: BalancingStrategy, snapshot: ClusterSnapshot, memory: RoundMemory) -> Round:
        view = snapshot.view
        views.append(
            dict(zip(view.brokers, view.broker.traffic.throughput().tolist(), strict=True))
        )
        memories.append(memory)
        return plan(self, snapshot, memory)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BalancingStrategy, "plan", spied)
        simulate(BacktestCandidate("c", by), trace, 0, steps, move_s=move_s, seed=1)
    return views, memories


@pytest.mark.parametrize("move_s", [0.0, 5.0])
def test_a_moved_bundle_is_in_its_old_brokers_report_until_that_measures_again(
    move_s: float,
) -> None:
    """All on the first of two; the leader looks every five seconds, and knows it late.

    What publishers held back while a bundle moved is in the first report of its new broker.
    """
    trace = Measured([100_000.0] * 12, [0] * 12, [[True, True]] * 40)
    by = as_pulsar(
        Properties({**FLOORS, "loadBalancerSheddingGracePeriodMinutes": "60"}),
        shedder="UniformLoadShedder",
    )
    every_step = replace(by, balance=replace(by.balance, interval_ms=5000, report_interval_ms=0))
    views, _ = seen_by(every_step, trace, 20, move_s)
    whole = 3 * 12 * 100_000.0
    assert views[0] == {"b0:80": whole, "b1:80": 0.0}
    # The second broker measures at the sixth step; until then nothing seems to have moved.
    assert views[1:6] == [views[0]] * 5
    assert views[6]["b1:80"] > 0
    # A report is of one step of five seconds to six, as the bundle came later or earlier.
    moved = whole - views[6]["b0:80"]
    least, most = (moved * (1 + move_s / (5.0 * steps)) for steps in (6, 1))
    assert least - 1 <= views[6]["b1:80"] <= most + 1


def test_a_round_remembers_only_the_moves_that_were_made() -> None:
    """A report still has the bundles that went with the first round, and the next ones ask again.

    Pulsar's leader, too, begins a grace period only for what its owner has unloaded.
    """
    trace = Measured([100_000.0] * 12, [0] * 12, [[True, True]] * 40)
    by = as_pulsar(
        Properties({**FLOORS, "loadBalancerSheddingGracePeriodMinutes": "0"}),
        shedder="UniformLoadShedder",
        thrash_span_s=3600,
    )
    every_step = replace(by, balance=replace(by.balance, interval_ms=5000, report_interval_ms=0))
    _, memories = seen_by(every_step, trace, 6, 0.0)
    first = memories[1].trails
    assert first
    assert [each.trails for each in memories[1:]] == [first] * 5


def test_what_was_recorded_is_followed_and_a_broker_that_leaves_is_no_move() -> None:
    there = [[True, True, True]] * 30 + [[True, True, False]] * 30
    went = ((10, 0, 0, 1), (28, 3, 2, 1))
    trace = Measured([100.0, 100.0, 100.0, 100.0], [0, 0, 1, 2], there, went=went)
    result = simulate(AS_RECORDED, trace, 0, 60, move_s=1.0, seed=1)
    assert (result.moves, result.orphans, result.as_recorded) == (1, 1, True)
    assert result.worst == pytest.approx(2.25), "three of four on one of three"


def test_a_span_begins_with_the_owners_that_the_recording_had_by_then() -> None:
    went = ((0, 0, 0, 1), (19, 1, 0, 1), (20, 2, 0, 1), (30, 3, 0, 1))
    trace = Measured([100.0] * 4, [0] * 4, [[True, True]] * 60, went=went)
    result = simulate(AS_RECORDED, trace, 20, 30, move_s=1.0, seed=1)
    assert (result.moves, result.imbalance) == (1, 1.5), "three of four on the second of two"


@pytest.mark.parametrize(
    ("later_ms", "figures", "publishes"),
    [
        (0, [100.0, 100.0, 10.0, 50.0], False),
        (900_000, [110.0, 90.0, 11.0, 60.0], False),
        (900_001, [100.0, 100.0, 10.0, 50.0], True),
        (0, [110.1, 100.0, 10.0, 50.0], True),
        (0, [100.0, 89.9, 10.0, 50.0], True),
        (0, [100.0, 100.0, 12.0, 50.0], True),
        (0, [100.0, 100.0, 10.0, 60.1], True),
    ],
)
def test_a_broker_publishes_changes_of_more_than_ten_percent_and_after_fifteen_minutes(
    later_ms: int, figures: list[float], publishes: bool
) -> None:
    """`needBrokerDataUpdate` of Pulsar 4.0.7: per cent used count as they are."""
    published, both = Publications(2, BalanceOptions(), np.ones(5)), np.array([True, True])
    first = np.array([[100.0, 100.0, 10.0, 50.0]] * 2)
    published.publish(START, both, first, np.array([0.1, 0.1]))
    assert published.at_ms.tolist() == [START, START]
    now_ms = START + later_ms
    published.publish(now_ms, np.array([True, False]), np.array([figures] * 2), np.full(2, 0.2))
    assert published.averages.tolist() == [0.2 if publishes else 0.1, 0.1]
    assert published.at_ms.tolist() == [now_ms if publishes else START, START]
    published.moved(np.array([1]))
    published.publish(START + 1, both, first, np.full(2, 0.3))
    assert published.averages[1] == 0.3, "what it has is other bundles"


def test_what_a_broker_left_is_placed_as_the_recordings_cluster_did() -> None:
    there = [[True, True, True]] * 30 + [[True, True, False]] * 30
    trace = Measured([100.0] * 4, [0, 0, 1, 2], there, went=((28, 3, 2, 0),))
    calm = strategy("OverloadShedder")
    placed = simulate(BacktestCandidate("c", calm), trace, 0, 60, move_s=1.0, seed=1)
    other = simulate(
        BacktestCandidate("c", calm), replace(trace, went=()), 0, 60, move_s=1.0, seed=1
    )
    assert (placed.moves, placed.orphans) == (0, 1)
    assert placed.imbalance == pytest.approx(1.5), "three of four on the first of two"
    assert other.imbalance == pytest.approx((1.5 * 30 + 1.0 * 30) / 60), "two on each"


@pytest.mark.parametrize(("evenly", "worst"), [("true", 1.4), ("false", 1.2)])
def test_a_leader_counts_what_it_has_just_placed_where_bundles_are_spread_evenly(
    evenly: str, worst: float
) -> None:
    """Four bundles of a broker that leaves, two brokers with two each, one of them much busier."""
    through = [5e3] * 4 + [30e3] * 2 + [10e3] * 2
    trace = Plain(through, [0] * 4 + [1, 1, 2, 2], [[True] * 3, [False, True, True]])
    conf = Properties({"loadBalancerDistributeBundlesEvenlyEnabled": evenly})
    by = as_pulsar(conf, shedder="OverloadShedder", placement="LeastLongTermMessageRate")
    result = simulate(BacktestCandidate("c", by), trace, 1, 2, move_s=1.0, seed=1)
    assert (result.moves, result.orphans) == (0, 4)
    assert result.worst == pytest.approx(worst)


def test_why_nothing_moved_is_the_rule_that_refused_most_at_its_highest() -> None:
    def refused(rule: str, value: float) -> Rejection:
        return Rejection(rule, rule, value, 9.0, "", "{subject} is at {value:g}")

    measure = Measure(1.0)
    measure.refused([refused("below", 1.0), refused("close", 2.0)])
    measure.refused([refused("close", 4.0)])
    measure.refused([refused("close", 3.0)])
    assert measure.result("c", Plain([1.0], [0], [[True]]), 0, 1).why_not == "close is at 4"


def test_moves_are_late_once_an_hour_has_passed_and_none_that_had_to_be_is_no_excess() -> None:
    trace = Plain([1.0], [0], [[True]])
    measure, hour = Measure(1.0), 60
    for step in (5, 5 + hour - 1, 5 + hour, 5 + hour + 1, 5 + hour + 2, 5 + 2 * hour + 2):
        measure.moved(step, 0, trace.loads(0))
    result = measure.result("c", trace, 5, 200)
    assert (result.moves, result.late_moves) == (6, 3)
    assert result.thrash == 4, "a bundle that moves again after an hour has not moved for nothing"
    assert (result.moved, result.needed, result.excess) == (6.0, 0.0, 0.0)
