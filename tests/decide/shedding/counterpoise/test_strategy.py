"""Counterpoise over views in a row: what it moves, what it leaves, and what it remembers."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from counterpoise.decide.shedding.counterpoise.columns import capacities
from counterpoise.decide.shedding.counterpoise.memory import CounterpoiseMemory
from counterpoise.decide.shedding.counterpoise.search import objective
from counterpoise.load.fields import LoadDataError
from counterpoise.load.rates import Floats
from counterpoise.load.store_view import BundleRules
from tests.decide.shedding.counterpoise.clusters import (
    MINUTE,
    Cluster,
    OneHost,
    Unmeasured,
    changing,
    constant,
    random_cluster,
)

GRACE_MS = 30 * MINUTE


@pytest.mark.parametrize("seed", range(5))
def test_an_uneven_cluster_is_even_after_few_rounds(seed: int) -> None:
    cluster = random_cluster(seed)
    cluster.crowd()
    assert cluster.ratio() > 1.9
    cluster.rounds(10)
    assert cluster.ratio() < 1.12
    assert len(cluster.moved) < len(cluster.owners) / 2


@pytest.mark.parametrize("each_its_own", [False, True])
def test_brokers_of_one_host_are_equal_parts_of_it(each_its_own: bool) -> None:
    apart = random_cluster(0)
    owners = [owner if row % 3 else 0 for row, owner in enumerate(apart.owners)]
    cluster = OneHost(owners, apart.load, apart.brokers, each_its_own=each_its_own)
    assert cluster.ratio() > 1.9
    cluster.rounds(10)
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


def test_brokers_that_report_no_use_are_evened_out_by_their_bytes() -> None:
    apart = random_cluster(0)
    cluster = Unmeasured([owner // 2 for owner in apart.owners], apart.load, apart.brokers)
    cluster.rounds(10)
    assert cluster.ratio() < 1.12


def test_a_bundle_larger_than_a_share_is_not_passed_from_one_empty_broker_to_the_next() -> None:
    """It would fill the one that it comes to, and leave another to be filled."""
    loads = np.array([24e7, *[0.9e7] * 60])
    owners = [0, *[1 + row % 4 for row in range(60)]]
    cluster = Cluster(owners, constant(loads, 0.1), 6)
    cluster.rounds(120)
    moved = [bundle for _, bundle in cluster.moved]
    assert len(moved) == len(set(moved)) > 0
    assert 0 not in moved


def test_no_bundle_moves_twice_within_its_grace_period() -> None:
    rng = np.random.default_rng(7)
    loads = rng.lognormal(0, 0.7, 60) * 1e7

    def wild(minute: int) -> Floats:
        drawn = np.random.default_rng((3, minute // 5))
        made: Floats = loads * drawn.choice([0.2, 1.0, 8.0], len(loads))
        return made

    cluster = Cluster(rng.integers(0, 5, 60).tolist(), wild, 5, {"move_price": 0.01})
    cluster.rounds(180)
    assert len(cluster.moved) > 10
    last: dict[int, int] = {}
    for minute, bundle in cluster.moved:
        assert (minute - last.get(bundle, -(10**6))) * MINUTE >= GRACE_MS
        last[bundle] = minute


def test_a_bundle_that_moved_stays_for_the_grace_period_and_no_longer() -> None:
    """Of four bundles the second moves; then the one it was put beside grows, and cannot move."""
    loads = np.array([6.0, 5.0, 2.0, 2.5]) * 1e7
    growing = changing(loads, lambda minute: 4.0 if minute else 1.0, bundle=2)
    cluster = Cluster([0, 0, 1, 2], growing, 3, {"move_price": 0.0})
    names = cluster.names
    only = {bundle: frozenset({names[1]}) for bundle in [cluster.view().bundles[2]]}
    cluster.rules = BundleRules(allowed=only)
    cluster.rounds(120)
    moved = [minute for minute, bundle in cluster.moved if bundle == 1]
    assert moved[0] == 0
    assert len(moved) > 1, "it would be better off elsewhere"
    assert moved[1] * MINUTE >= GRACE_MS


def test_a_bundle_whose_broker_died_may_move_again_at_once() -> None:
    loads = np.full(24, 2e7)
    cluster = Cluster([row % 4 for row in range(24)], constant(loads), 4)
    cluster.rounds(5)
    cluster.gone = frozenset({3})
    cluster.owners = [1 if owner == 3 else owner for owner in cluster.owners]
    orphans = set(range(3, 24, 4))
    plan = cluster.round()
    assert {bundle for _, bundle in cluster.moved} & orphans
    assert {each.source for each in plan.decisions} == {"b01:8080"}


@pytest.mark.parametrize(("joining", "each"), [(1, 20), (1, 60), (3, 60)])
def test_new_brokers_have_their_part_within_five_rounds(joining: int, each: int) -> None:
    cluster = random_cluster(1, brokers=9, each=each)
    cluster.owners = [owner % (9 - joining) for owner in cluster.owners]
    cluster.gone = frozenset(range(9 - joining, 9))
    cluster.rounds(70)
    cluster.gone = frozenset()
    cluster.rounds(5)
    carried = np.bincount(cluster.owners, cluster.load(0), 9)
    assert carried[-joining:].min() >= 0.9 * carried.mean()


@pytest.mark.parametrize("each", [20, 100, 500])
def test_a_full_broker_is_relieved_however_small_its_bundles_are(each: int) -> None:
    cluster = random_cluster(1, each=each)
    from_others = iter(np.flatnonzero(np.array(cluster.owners) != 0).tolist())
    for bundle in itertools.islice(from_others, each // 2):
        cluster.owners[bundle] = 0
    assert cluster.ratio() > 1.3
    cluster.rounds(60)
    assert cluster.ratio() < 1.15


def test_brokers_that_are_being_filled_are_remembered_as_an_earlier_version_wrote_them_too() -> (
    None
):
    for value in ({"b00:8080": 2}, ["b00:8080"]):
        assert CounterpoiseMemory.from_json({"cold": value}).cold == {"b00:8080"}
    for value in (5, "b00:8080", [5]):
        with pytest.raises(LoadDataError, match=r"memory\.cold"):
            CounterpoiseMemory.from_json({"cold": value})


def test_no_move_raises_the_objective_and_each_has_its_figures() -> None:
    cluster = random_cluster(3)
    cluster.crowd()
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
    plan = cluster.rounds(60)
    [why] = [each for each in plan.rejections if each.rule == "larger-than-a-share"]
    assert why.subject == cluster.view().bundles[giant]
    assert why.value == pytest.approx(loads[giant] / (loads.sum() / cluster.brokers), rel=0.05)
    assert "split" in why.sentence


@pytest.mark.parametrize("unit", [0.25, 4.0])
def test_the_unit_of_the_loads_changes_no_move(unit: float) -> None:
    moved = []
    for factor in (1.0, unit):
        cluster = random_cluster(3)
        cluster.crowd()
        cluster.load = constant(cluster.load(0) * factor)
        cluster.round()
        moved.append((cluster.moved, cluster.owners))
    assert moved[0] == moved[1]
    assert moved[0][0]


def test_a_dearer_move_is_made_less_often() -> None:
    counts = []
    for price in (0.05, 0.5):
        cluster = random_cluster(3)
        cluster.crowd()
        cluster.settings = {"move_price": price}
        cluster.round()
        counts.append(len(cluster.moved))
    assert counts[0] > counts[1] > 0


def test_the_price_falls_while_the_cluster_stays_uneven() -> None:
    """At a price at which nothing moves at first, waiting makes it worth while: rent or buy."""
    cluster = random_cluster(3)
    cluster.settings = {"move_price": 1.2}
    assert cluster.round().decisions == ()
    cluster.rounds(4 * 60)
    assert cluster.moved


def test_the_price_falls_on_after_moves_that_leave_the_cluster_uneven() -> None:
    cluster = random_cluster(3)
    cluster.settings = {"move_price": 0.4}
    assert cluster.rounds(2).decisions
    after = cluster.round().figures
    slight = 1 + (0.08 * math.log10(6) / (after["fullest"] - 1)) ** 2
    assert after["price"] == pytest.approx(slight * 0.4 / 6 * 60 / 61), "a minute of 60 has passed"


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

    def falling(minute: int) -> Floats:
        made = loads.copy()
        made[24 : 24 + falls] *= 0.1 if minute >= 44 else 1.0
        return made

    owners = [row % 2 for row in range(24)] + [2] * bundles
    cluster = Cluster(owners, falling, 3, {"move_price": 100.0})
    plans = [cluster.round() for _ in range(50)]
    assert not any(each.rule == "ill-broker" for plan in plans for each in plan.rejections)


def test_the_objective_is_nothing_for_even_brokers_and_grows_with_the_fullest() -> None:
    one, nothing = np.ones(1), np.zeros(1)
    assert objective(np.ones((1, 4)), one, nothing).tolist() == [0.0]
    assert objective(np.array([[1.5, 0.5]]), one, nothing).tolist() == pytest.approx([0.75])
