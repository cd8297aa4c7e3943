"""Counterpoise over views in a row: what it moves, what it leaves, and what it remembers."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
import pytest

from counterpoise.decide.plan import StrategyPlan
from counterpoise.decide.shedding.counterpoise.columns import capacities
from counterpoise.decide.shedding.counterpoise.search import objective
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.load.rates import Floats, Rates
from counterpoise.load.store_view import BundleRules
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView

MINUTE = 60_000
START = 1_700_000_000_000
SIZE = 1e9
GRACE_MS = 30 * MINUTE
COUNTERPOISE = SHEDDERS["Counterpoise"]

Load = Callable[[int], Floats]


@dataclass
class Cluster:
    """Brokers whose bundles carry bytes/s in; moves are carried out at once."""

    owners: list[int]
    load: Load
    brokers: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    rules: BundleRules = field(default_factory=BundleRules)
    memory: Any = field(default_factory=COUNTERPOISE.initial_memory)
    minute: int = 0
    gone: frozenset[int] = frozenset()
    moved: list[tuple[int, int]] = field(default_factory=list)
    """Minute and bundle of every move."""

    @property
    def names(self) -> list[str]:
        return [f"b{row:02}:8080" for row in range(self.brokers)]

    def view(self) -> ClusterView:
        load = self.load(self.minute)
        there = [row for row in range(self.brokers) if row not in self.gone]
        place = {row: number for number, row in enumerate(there)}
        owners = np.array([place[owner] for owner in self.owners], np.intp)
        carried = np.bincount(owners, load, len(there)).astype(np.float64)
        nothing = np.zeros(len(there))
        usage = np.zeros((len(there), 5), np.float32)
        usage[:, 3] = 100.0 * carried / SIZE
        bundles = [f"t/ns/0x{row:08x}_0x{row + 1:08x}" for row in range(len(load))]
        sample = Rates(np.zeros(len(load)), np.zeros(len(load)), load, np.zeros(len(load)))
        return replace(
            ClusterView.from_columns(
                now_ms=START + self.minute * MINUTE,
                brokers=[self.names[row] for row in there],
                broker=BrokerColumns.of(
                    usage,
                    Rates(nothing, nothing, carried, nothing),
                    np.bincount(owners, minlength=len(there)),
                ),
                bundles=bundles,
                bundle=BundleColumns.of(bundles, sample, sample),
                reported=(owners, np.arange(len(load))),
            ),
            rules=self.rules,
        )

    def round(self) -> StrategyPlan[Any]:
        view = self.view()
        options = COUNTERPOISE.options(**self.settings)
        plan = COUNTERPOISE.plan(view, self.memory, options, view.now_ms, Random(0))
        for each in plan.decisions:
            row = view.bundle_index(each.bundle)
            assert row is not None
            self.owners[row] = self.names.index(each.destination or "")
            self.moved.append((self.minute, row))
        self.memory = COUNTERPOISE.memory_from_json(json.loads(json.dumps(plan.memory.to_json())))
        assert self.memory.to_json() == plan.memory.to_json()
        self.minute += 1
        return plan

    def ratio(self, minute: int = 0) -> float:
        carried = np.bincount(self.owners, self.load(minute), self.brokers)
        return float(carried.max() / carried.mean())


@dataclass
class OneHost(Cluster):
    """Brokers that share a processor, half of it in use; each may report its own part of that."""

    each_its_own: bool = False

    @property
    def names(self) -> list[str]:
        return [f"b.example.com:{8080 + row}" for row in range(self.brokers)]

    def view(self) -> ClusterView:
        view = super().view()
        usage = np.zeros_like(view.broker.usage)
        usage[:, 0] = 50.0
        if self.each_its_own:
            carried = view.broker.traffic.throughput()
            usage[:, 0] *= (carried / carried.sum()).astype(np.float32)
        traffic, sample = (
            replace(each, rate_in=each.throughput_in / 1000)
            for each in (view.broker.traffic, view.bundle.short)
        )
        return replace(
            view,
            broker=replace(view.broker, usage=usage, traffic=traffic),
            bundle=replace(view.bundle, short=sample, long=sample),
        )


def constant(loads: Floats, noise: float = 0.0) -> Load:
    def at(minute: int) -> Floats:
        rng = np.random.default_rng(minute)
        made: Floats = loads * (1 + rng.uniform(-noise, noise, len(loads)))
        return made

    return at


def random_cluster(seed: int, *, noise: float = 0.0, brokers: int = 6, each: int = 15) -> Cluster:
    rng = np.random.default_rng(seed)
    loads = rng.lognormal(0, 0.7, brokers * each) * 1e7
    return Cluster(rng.integers(0, brokers, len(loads)).tolist(), constant(loads, noise), brokers)


@pytest.mark.parametrize("seed", range(5))
def test_an_uneven_cluster_is_even_after_few_rounds(seed: int) -> None:
    cluster = random_cluster(seed)
    cluster.owners = [owner // 2 for owner in cluster.owners]
    assert cluster.ratio() > 1.9
    for _ in range(10):
        cluster.round()
    assert cluster.ratio() < 1.12
    assert len(cluster.moved) < len(cluster.owners) / 2


@pytest.mark.parametrize("each_its_own", [False, True])
def test_brokers_of_one_host_are_equal_parts_of_it(each_its_own: bool) -> None:
    apart = random_cluster(0)
    owners = [owner if row % 3 else 0 for row, owner in enumerate(apart.owners)]
    cluster = OneHost(owners, apart.load, apart.brokers, each_its_own=each_its_own)
    assert cluster.ratio() > 1.9
    for _ in range(10):
        cluster.round()
    assert cluster.ratio() < 1.12


@pytest.mark.parametrize(("known", "middle"), [([2.0, 4.0], 3.0), ([2.0, 4.0, 10.0], 4.0)])
def test_a_broker_of_unknown_capacity_counts_as_the_median_of_the_others(
    known: list[float], middle: float
) -> None:
    cluster = Cluster([0] * 4, constant(np.zeros(4)), len(known) + 1)
    unknown = np.full((len(known) + 1, 3), np.nan)
    unknown[:-1] = np.array(known)[:, np.newaxis]
    found = capacities(cluster.view(), np.ones(5), unknown)
    assert found[:, 1].tolist() == pytest.approx([*known, middle])


def test_a_saturated_broker_is_taken_for_no_larger_one_than_what_it_carries() -> None:
    """It uses no more than all of its processor, whatever its clients want of it."""
    cluster = Cluster([0] * 4, constant(np.zeros(4)), 5)
    remembered = np.full((5, 3), np.nan)
    remembered[4, 0] = 120.0
    view = cluster.view()
    usage = np.zeros((5, 5), np.float32)
    usage[:, 0] = [50.0, 40.0, 100.0, 100.0, 100.0]
    wanted = np.array([50.0, 40.0, 180.0, 55.0, 180.0])
    broker = replace(view.broker, usage=usage, traffic=replace(view.broker.traffic, rate_in=wanted))
    found = capacities(replace(view, broker=broker), np.ones(5), remembered)
    assert found[:, 0].tolist() == pytest.approx([100.0, 100.0, 100.0, 55.0, 120.0])


@dataclass
class Unmeasured(Cluster):
    """Brokers that report no use of anything, and send on what they receive."""

    def view(self) -> ClusterView:
        view = super().view()
        traffic, sample = (
            replace(each, throughput_out=each.throughput_in)
            for each in (view.broker.traffic, view.bundle.short)
        )
        nothing = np.zeros_like(view.broker.usage)
        return replace(
            view,
            broker=replace(view.broker, usage=nothing, traffic=traffic),
            bundle=replace(view.bundle, short=sample, long=sample),
        )


def test_brokers_that_report_no_use_are_evened_out_by_their_bytes() -> None:
    apart = random_cluster(0)
    cluster = Unmeasured([owner // 2 for owner in apart.owners], apart.load, apart.brokers)
    for _ in range(10):
        cluster.round()
    assert cluster.ratio() < 1.12


@pytest.mark.parametrize("seed", range(4))
def test_constant_noisy_load_moves_nothing_after_the_first_hour(seed: int) -> None:
    cluster = random_cluster(seed, noise=0.25)
    for _ in range(6 * 60):
        cluster.round()
    late = [minute for minute, _ in cluster.moved if minute > 60]
    assert len(late) <= 1


def test_the_same_noise_is_doubted_more_on_more_brokers() -> None:
    def doubt(brokers: int) -> float:
        loads, owners = np.full(brokers * 10, 1e7), np.repeat(np.arange(brokers), 10).tolist()
        cluster = Cluster(owners, constant(loads, 0.25), brokers)
        for _ in range(20):
            plan = cluster.round()
        return float(plan.figures["doubt"])

    # The largest of 40 errors is usually 1.6 times the largest of 4.
    assert 1.4 < doubt(40) / doubt(4) < 1.9


def test_the_same_noise_is_doubted_more_the_longer_moves_are_put_off() -> None:
    def doubt(**settings: float) -> float:
        cluster = random_cluster(1, noise=0.25)
        cluster.settings = settings
        for _ in range(180):
            plan = cluster.round()
        return float(plan.figures["doubt"])

    # Five times as many errors: the largest of 30 instead of 6.
    assert 1.3 < doubt(max_moves=0) / doubt(move_price=1000.0) < 1.45


def test_load_that_rises_and_falls_as_a_whole_is_no_noise() -> None:
    """A ramp, a report of a part of an interval, a stall: they make no broker fuller."""

    def doubt(factors: list[float]) -> float:
        loads = np.full(24, 1e7)
        cluster = Cluster(
            [row % 3 for row in range(24)],
            lambda minute: loads * factors[minute % len(factors)],
            3,
        )
        for _ in range(12):
            plan = cluster.round()
        return float(plan.figures["doubt"])

    assert doubt([0.2, 0.6, 1.0, 2.5, 1.0, 0.4]) == pytest.approx(doubt([1.0]), rel=0.01)


@dataclass
class Averaged(Cluster):
    """Brokers whose first report is a mean of several samples."""

    count: int = 1

    def view(self) -> ClusterView:
        view = super().view()
        samples = view.bundle.samples.copy()
        samples[:, :2] = 10, self.count
        return replace(view, bundle=replace(view.bundle, samples=samples))


def test_a_mean_of_ten_samples_is_doubted_less_than_one_of_them() -> None:
    of_one, of_ten, of_many = (
        Averaged([0, 1, 2], constant(np.full(3, 1e7)), 3, count=count).round().figures["doubt"]
        for count in (1, 10, 1000)
    )
    assert of_one / of_ten == pytest.approx(10**0.5)
    assert of_many == of_ten


def test_a_first_sample_of_a_part_of_an_interval_is_forgotten_soon() -> None:
    loads = np.full(24, 1e7)

    def begun(minute: int) -> Floats:
        made = loads.copy()
        made[0] *= 1.0 if minute else 0.05
        return made

    cluster = Cluster([row % 3 for row in range(24)], begun, 3, {"move_price": 100.0})
    for _ in range(4):
        cluster.round()
    assert cluster.memory.tracks.level[0, 1] == pytest.approx(1e7, rel=0.05)


def test_a_bundle_larger_than_a_share_is_not_passed_from_one_empty_broker_to_the_next() -> None:
    """It would fill the one that it comes to, and leave another to be filled."""
    loads = np.array([24e7, *[0.9e7] * 60])
    owners = [0, *[1 + row % 4 for row in range(60)]]
    cluster = Cluster(owners, constant(loads, 0.1), 6)
    for _ in range(120):
        cluster.round()
    moved = [bundle for _, bundle in cluster.moved]
    assert len(moved) == len(set(moved)) > 0
    assert 0 not in moved


@pytest.mark.parametrize("quiet_from", [0, 20], ids=["quiet at first", "quiet for a while"])
def test_load_that_begins_is_moved_soon(quiet_from: int) -> None:
    """A broker that restarted reports its bundles without load: their noise is not known by it."""
    steady = random_cluster(1, noise=0.1)

    def begins(minute: int) -> Floats:
        made: Floats = steady.load(minute) * (0.0 if quiet_from <= minute < 60 else 1.0)
        return made

    cluster = replace(steady, load=begins, owners=[owner // 2 for owner in steady.owners])
    if quiet_from:
        cluster.settings = {"max_moves": 0}
    for _ in range(60):
        cluster.round()
    cluster.settings = {}
    for _ in range(20):
        plan = cluster.round()
    assert cluster.ratio(80) < 1.3
    assert plan.figures["doubt"] < 0.3


def test_no_bundle_moves_twice_within_its_grace_period() -> None:
    rng = np.random.default_rng(7)
    loads = rng.lognormal(0, 0.7, 60) * 1e7

    def wild(minute: int) -> Floats:
        drawn = np.random.default_rng((3, minute // 5))
        made: Floats = loads * drawn.choice([0.2, 1.0, 8.0], len(loads))
        return made

    cluster = Cluster(rng.integers(0, 5, 60).tolist(), wild, 5, {"move_price": 0.01})
    for _ in range(180):
        cluster.round()
    assert len(cluster.moved) > 10
    last: dict[int, int] = {}
    for minute, bundle in cluster.moved:
        assert (minute - last.get(bundle, -(10**6))) * MINUTE >= GRACE_MS
        last[bundle] = minute


def test_a_bundle_that_moved_stays_for_the_grace_period_and_no_longer() -> None:
    """Of four bundles the second moves; then the one it was put beside grows, and cannot move."""
    loads = np.array([6.0, 5.0, 2.0, 2.5]) * 1e7

    def growing(minute: int) -> Floats:
        made = loads.copy()
        made[2] *= 4 if minute else 1
        return made

    cluster = Cluster([0, 0, 1, 2], growing, 3, {"move_price": 0.0})
    names = cluster.names
    only = {bundle: frozenset({names[1]}) for bundle in [cluster.view().bundles[2]]}
    cluster.rules = BundleRules(allowed=only)
    for _ in range(120):
        cluster.round()
    moved = [minute for minute, bundle in cluster.moved if bundle == 1]
    assert moved[0] == 0
    assert len(moved) > 1, "it would be better off elsewhere"
    assert moved[1] * MINUTE >= GRACE_MS


def test_a_bundle_whose_broker_died_may_move_again_at_once() -> None:
    loads = np.full(24, 2e7)
    cluster = Cluster([row % 4 for row in range(24)], constant(loads), 4)
    for _ in range(5):
        cluster.round()
    cluster.gone = frozenset({3})
    cluster.owners = [1 if owner == 3 else owner for owner in cluster.owners]
    orphans = set(range(3, 24, 4))
    plan = cluster.round()
    assert {bundle for _, bundle in cluster.moved} & orphans
    assert {each.source for each in plan.decisions} == {"b01:8080"}


def test_a_new_broker_has_its_part_within_five_rounds() -> None:
    cluster = random_cluster(1, brokers=9, each=20)
    cluster.owners = [owner % 8 for owner in cluster.owners]
    cluster.gone = frozenset({8})
    for _ in range(70):
        cluster.round()
    cluster.gone = frozenset()
    for _ in range(5):
        cluster.round()
    carried = np.bincount(cluster.owners, cluster.load(0), 9)
    assert carried[8] >= 0.9 * carried.mean()


def test_no_move_raises_the_objective_and_each_has_its_figures() -> None:
    cluster = random_cluster(3)
    cluster.owners = [owner // 2 for owner in cluster.owners]
    before, plan = cluster.ratio(), cluster.round()
    assert plan.decisions
    for each in plan.decisions:
        assert each.figures["gain"] > 0.0
        assert each.bundle in each.sentence
        assert "counterpoiseMovePrice" in each.sentence
    assert sum(each.figures["gain"] for each in plan.decisions) < plan.figures["objective"]
    assert cluster.ratio() < before


def test_nothing_moves_when_a_move_costs_too_much_and_the_reason_names_the_price() -> None:
    cluster = random_cluster(3)
    cluster.settings = {"move_price": 100.0}
    plan = cluster.round()
    assert plan.decisions == ()
    [why] = plan.rejections
    assert why.setting == "counterpoiseMovePrice"
    assert why.value is not None
    assert why.limit is not None
    assert why.value < why.limit


def test_a_bundle_larger_than_a_brokers_share_is_named_as_one_to_split() -> None:
    cluster = random_cluster(3)
    assert not any(each.rule == "larger-than-a-share" for each in cluster.round().rejections)
    giant = 7
    loads = cluster.load(0).copy()
    loads[giant] = 1.5 * loads.sum() / cluster.brokers
    cluster.load = constant(loads)
    for _ in range(60):
        plan = cluster.round()
    [why] = [each for each in plan.rejections if each.rule == "larger-than-a-share"]
    assert why.subject == cluster.view().bundles[giant]
    assert why.value == pytest.approx(loads[giant] / (loads.sum() / cluster.brokers), rel=0.05)
    assert "split" in why.sentence


@pytest.mark.parametrize("unit", [0.25, 4.0])
def test_the_unit_of_the_loads_changes_no_move(unit: float) -> None:
    moved = []
    for factor in (1.0, unit):
        cluster = random_cluster(3)
        cluster.owners = [owner // 2 for owner in cluster.owners]
        cluster.load = constant(cluster.load(0) * factor)
        cluster.round()
        moved.append((cluster.moved, cluster.owners))
    assert moved[0] == moved[1]
    assert moved[0][0]


def test_a_dearer_move_is_made_less_often() -> None:
    counts = []
    for price in (0.05, 0.5):
        cluster = random_cluster(3)
        cluster.owners = [owner // 2 for owner in cluster.owners]
        cluster.settings = {"move_price": price}
        cluster.round()
        counts.append(len(cluster.moved))
    assert counts[0] > counts[1] > 0


def test_the_price_falls_while_the_cluster_stays_uneven() -> None:
    """At a price at which nothing moves at first, waiting makes it worth while: rent or buy."""
    cluster = random_cluster(3)
    cluster.settings = {"move_price": 1.5}
    assert cluster.round().decisions == ()
    for _ in range(4 * 60):
        cluster.round()
    assert cluster.moved


@pytest.mark.parametrize("seed", range(3))
def test_bundles_go_only_where_their_rules_allow(seed: int) -> None:
    cluster = random_cluster(seed)
    cluster.owners = [owner % 5 for owner in cluster.owners]
    bundles, names = cluster.view().bundles, cluster.names
    allowed = {bundle: frozenset(names[:2]) for bundle in bundles[::3]}
    cluster.rules = BundleRules(allowed=allowed, silent=frozenset({names[5]}))
    cluster.settings = {"move_price": 0.0}
    moves = [each for _ in range(4) for each in cluster.round().decisions]
    assert moves
    for each in moves:
        assert each.destination != names[5]
        assert each.destination in allowed.get(each.bundle, names)


def test_a_broker_whose_bundles_all_carry_far_less_than_forecast_receives_nothing() -> None:
    loads = np.full(40, 2e7)
    owners = [row % 4 for row in range(40)]
    slow = np.array(owners) == 2

    def ill(minute: int) -> Floats:
        made: Floats = loads * np.where(slow & (minute >= 44), 0.2, 1.0)
        made[0] = 1.2e8 if minute >= 30 else 2e7
        return made

    cluster = Cluster(list(owners), ill, 4, {"move_price": 0.0})
    plans = [cluster.round() for _ in range(90)]
    for plan in plans[44:]:
        assert "ill-broker" in {each.rule for each in plan.rejections}
    moves = [each for plan in plans[44:] for each in plan.decisions]
    assert moves
    assert {each.destination for each in moves}.isdisjoint({"b02:8080"})


@pytest.mark.parametrize(("bundles", "falls"), [(2, 2), (10, 1)])
def test_a_broker_is_not_ill_whose_few_busy_bundles_carry_less(bundles: int, falls: int) -> None:
    """Its clients send less: of two bundles, or to the busiest of ten."""
    loads = np.full(24 + bundles, 2e7)
    loads[24] = 2e7 * (26 - bundles)

    def changing(minute: int) -> Floats:
        made = loads.copy()
        made[24 : 24 + falls] *= 0.1 if minute >= 44 else 1.0
        return made

    owners = [row % 2 for row in range(24)] + [2] * bundles
    cluster = Cluster(owners, changing, 3, {"move_price": 100.0})
    plans = [cluster.round() for _ in range(50)]
    assert not any(each.rule == "ill-broker" for plan in plans for each in plan.rejections)


def test_a_burst_moves_no_level() -> None:
    """A bundle that carries ten times its load for ten minutes is forecast as before after it."""
    loads = np.full(12, 2e7)

    def burst(minute: int) -> Floats:
        made = loads.copy()
        made[0] *= 10 if 60 <= minute < 70 else 1
        return made

    cluster = Cluster([row % 3 for row in range(12)], burst, 3, {"move_price": 100.0})
    for _ in range(72):
        cluster.round()
    level = cluster.memory.tracks.level[:, 1]
    assert level[0] < 1.5 * level[1]


def test_a_shift_that_lasts_is_learnt() -> None:
    loads = np.full(12, 2e7)

    def shift(minute: int) -> Floats:
        made = loads.copy()
        made[0] *= 4 if minute >= 60 else 1
        return made

    cluster = Cluster([row % 3 for row in range(12)], shift, 3, {"move_price": 100.0})
    for _ in range(90):
        cluster.round()
    assert cluster.memory.tracks.level[0, 1] == pytest.approx(8e7, rel=0.1)


def test_a_memory_of_other_bundles_is_carried_over_by_name() -> None:
    first = random_cluster(2)
    first.round()
    other = random_cluster(2, brokers=6, each=10)
    other.memory, other.minute = first.memory, 1
    plan = other.round()
    assert plan.memory.bundles == other.view().bundles
    assert plan.memory.tracks.count.tolist() == [2] * 60


def test_the_objective_is_nothing_for_even_brokers_and_grows_with_the_fullest() -> None:
    one, nothing = np.ones(1), np.zeros(1)
    assert objective(np.ones((1, 4)), one, nothing).tolist() == [0.0]
    assert objective(np.array([[1.5, 0.5]]), one, nothing).tolist() == pytest.approx([0.75])
