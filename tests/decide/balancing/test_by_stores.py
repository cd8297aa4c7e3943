"""TransferShedder where only reports are to be had: the extensible manager's strategy outside."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pytest

from counterpoise.app.strategies import strategy_from
from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.policies import PlacementPolicies
from counterpoise.decide.balancing.round import (
    BalancingStrategy,
    decide,
    placed,
    shed,
    store_weights,
)
from counterpoise.decide.balancing.thrash import Hop
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.weights import DEFAULT_WEIGHTS
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.store_of_reports import Ema, UnreportedFacts, averaged, store_view
from counterpoise.load.topk import as_published
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest.simulate import BacktestCandidate, simulate
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from tests.decide.balancing.test_round import UNEVEN, seen
from tests.load.story import START, Loads, poll
from tests.pipeline.fake_cluster import bundle_name


def transfer(**settings: str) -> BalancingStrategy:
    given = {"loadBalancerReportUpdateMinIntervalMillis": "10", **settings}
    return strategy_from(Properties(given), shedder="TransferShedder", grace_s=0)


def rounds(
    by: BalancingStrategy,
    count: int,
    reported: dict[str, Loads | None],
    around: PlacementPolicies | None = None,
    averages: Mapping[str, float] = MappingProxyType({}),
) -> list[Round]:
    """Rounds a minute apart of a load that stays as it is; nothing is carried out."""
    state, memory, made = FoldState.empty(), RoundMemory(), list[Round]()
    for number in range(count):
        state = fold(state, Batch.of(poll(number, reported, every_ms=60_000)))
        for row, broker in enumerate(state.brokers["broker"].tolist()):
            state.brokers["load_average"][row] = averages.get(broker, 0.0)
        made.append(decide(state, memory, by, around))
        memory = RoundMemory.from_json(json.loads(json.dumps(made[-1].memory.to_json())))
    return made


def test_it_acts_when_it_has_found_the_cluster_uneven_often_enough_and_names_destinations() -> None:
    *waiting, acts = rounds(transfer(), 4, UNEVEN)
    assert not any(each.moves for each in waiting)
    assert acts.moves
    assert {move.source for move in acts.moves} == {"b1:80"}
    assert {move.destination for move in acts.moves} <= {"b2:80", "b3:80"}
    assert acts.bundles == 11
    carried = {bundle: load for each in UNEVEN.values() for bundle, load in (each or {}).items()}
    for move in acts.moves:  # by which --max-load-a-round goes
        assert move.part == pytest.approx(carried[move.bundle] / 99_045, rel=1e-6)
    assert acts.imbalance == pytest.approx(90_045 / (99_045 / 3) - 1)


def test_a_leaders_transfer_goes_where_the_strategy_said_and_other_bundles_are_not_placed() -> None:
    """Its owner is ordered to give the bundle to that broker: no filter is asked again."""
    crowded = FilterOptions(max_topics=1)
    *_, leads = rounds(replace(transfer(), as_leader=crowded), 4, UNEVEN)
    assert {(move.destination, move.placement) for move in leads.moves} == {
        ("b3:80", "the strategy chose it")
    }


def test_a_broker_decides_on_the_stores_themselves_and_sends_nothing_back() -> None:
    by, memory = transfer(), RoundMemory()
    by = replace(by, balance=replace(by.balance, thrash_span_ms=600_000))
    view = cluster_view(seen(UNEVEN), START)
    averages = averaged(view, store_weights(by), {})
    for _ in range(4):
        stores = store_view(view, averages, UnreportedFacts({}, view.brokers), 100)
        proposed = shed(stores, memory, by)
        made = placed(proposed, view.brokers, memory, by)
        memory = made.memory
    carried = [3 * sum((loads or {}).values()) for loads in UNEVEN.values()]
    assert made.imbalance == pytest.approx(max(carried) / (sum(carried) / 3) - 1)
    assert (made.brokers, made.bundles, made.poll_id) == (3, 11, START)
    assert [(each.bundle, each.destination) for each in made.moves] == [
        (each.bundle, each.destination) for each in proposed.decisions
    ]
    first = proposed.decisions[0]
    back = {first.bundle: (Hop(START - 1, str(first.destination), first.source),)}
    again = placed(proposed, view.brokers, replace(memory, trails=back), by)
    assert first.bundle not in {each.bundle for each in again.moves}
    assert "thrash" in {each.rule for each in again.rejections}
    assert len(again.moves) == len(made.moves) - 1


def test_averages_that_brokers_report_are_believed() -> None:
    """By what they report the third is the idlest; by their averages the second is."""
    logged = {"b1:80": 0.9, "b2:80": 0.1, "b3:80": 0.5}
    made = rounds(transfer(), 4, UNEVEN, averages=logged)
    assert {broker: ema.load for broker, ema in made[-1].memory.loads.items()} == logged
    *_, by_reports = rounds(transfer(), 4, UNEVEN)
    assert by_reports.moves[0].destination == "b3:80"
    assert made[-1].moves[0].destination == "b2:80"


@pytest.mark.parametrize(("minutes", "cools"), [(1, True), (2, True), (3, False)])
def test_a_broker_that_was_unloaded_is_waited_for_until_it_has_measured_long_enough_after(
    minutes: int, cools: bool
) -> None:
    """`loadBalanceSheddingDelayInSeconds`, from the end of its last move to its last measurement.

    A round in which nothing moved changes nothing about it.
    """
    how = transfer(loadBalancerSheddingConditionHitCountThreshold="0")
    state = fold(FoldState.empty(), Batch.of(poll(0, UNEVEN, every_ms=60_000)))
    made = decide(state, RoundMemory(), how)
    assert {move.source for move in made.moves} == {"b1:80"}
    memory = made.memory.after(made.as_moved(START))
    for number in range(1, minutes + 1):
        state = fold(state, Batch.of(poll(number, UNEVEN, every_ms=60_000)))
        memory = RoundMemory.from_json(json.loads(json.dumps(memory.to_json())))
        made = decide(state, memory, how)
        memory = made.memory
    assert ("CoolDown" in {each.rule for each in made.rejections}) is cools
    again = Batch.of(poll(minutes + 0.5, UNEVEN, every_ms=60_000, repeated=UNEVEN))
    made = decide(fold(state, again), memory, how)
    assert ("CoolDown" in {each.rule for each in made.rejections}) is cools, "the same measurement"


@pytest.mark.parametrize(("gap_ms", "forgets"), [(300_000, False), (300_001, True)])
def test_averages_of_brokers_begin_again_after_a_gap(gap_ms: int, forgets: bool) -> None:
    empty = fold(FoldState.empty(), Batch.of(poll(0, {"b1:80": {}, "b2:80": {}})))
    was_busy = {"b1:80": Ema(0.9, 9e6, START - gap_ms), "b2:80": Ema(0.1, 1e6, START - gap_ms)}
    memory = RoundMemory(loads=was_busy, decided_at_ms=START - gap_ms)
    fresh = decide(empty, RoundMemory(), transfer()).memory.loads
    assert (decide(empty, memory, transfer()).memory.loads == fresh) is forgets


def test_what_a_bundle_carried_last_counts_and_not_its_average() -> None:
    """Half of what the third broker is behind goes there; a while ago a bundle carried that."""
    names = [bundle_name(n) for n in range(4)]
    logged = {"b1:80": 0.9, "b2:80": 0.1}
    before = {"b1:80": dict.fromkeys(names, 1000.0), "b2:80": {}}
    now = {"b1:80": dict(zip(names, (1000.0, 1000.0, 1000.0, 9000.0), strict=True)), "b2:80": {}}
    how = transfer(loadBalancerSheddingConditionHitCountThreshold="0")
    state = FoldState.empty()
    for number, loads in enumerate((before, now)):
        state = fold(state, Batch.of(poll(number, loads, every_ms=60_000)))
    state.brokers["load_average"][:] = [logged[broker] for broker in state.brokers["broker"]]
    made = decide(state, RoundMemory(), how)
    assert {
        move.bundle: move.decision.figures["throughput"] for move in made.moves
    } == dict.fromkeys(names[:3], 3000.0)


def test_without_transfer_the_placement_strategy_chooses() -> None:
    made = rounds(transfer(loadBalancerTransferEnabled="false"), 4, UNEVEN)[-1]
    assert made.moves
    assert all(move.destination in ("b2:80", "b3:80") for move in made.moves)


def test_averages_keep_as_much_of_their_past_as_a_brokers_do_in_that_time() -> None:
    before: dict[str, Loads | None] = {"b1:80": {bundle_name(0): 100.0}}
    after: dict[str, Loads | None] = {"b1:80": {bundle_name(0): 200.0}}
    first, then = (
        cluster_view(fold(FoldState.empty(), Batch.of(poll(0, each))), START)
        for each in (before, after)
    )
    weights = DEFAULT_WEIGHTS.extensible
    known = averaged(first, weights, {})
    assert known["b1:80"].throughput == 300.0
    found = averaged(replace(then, now_ms=START + 10_000), weights, known)
    assert found["b1:80"].throughput == pytest.approx(300 * 0.81 + 600 * 0.19)
    assert averaged(then, weights, found) == found, "an older look changes nothing"
    usage = float(then.weighted_usage(weights)[0])
    known = {"b1:80": Ema(0.5, 300.0, START)}
    found = averaged(replace(then, now_ms=START + 10_000), weights, known)
    assert found["b1:80"].load == pytest.approx(0.5 * 0.81 + usage * 0.19)


def test_the_busiest_bundles_are_published_and_those_that_must_stay_are_not() -> None:
    own = "pulsar/b1:80/0x00000000_0xffffffff"
    loads: dict[str, Loads | None] = {
        "b1:80": {own: 99.0, **{bundle_name(n): float(n) for n in range(15)}},
        "b2:80": None,
    }
    state = fold(FoldState.empty(), Batch.of(poll(0, loads)))
    view = cluster_view(state, START, [bundle_name(14)])
    averages = {"b1:80": Ema(0.5, 1.0, START)}
    stores = store_view(view, averages, UnreportedFacts({"b1:80": 7}, {"b1:80"}), 10)
    [top] = stores.top
    assert top is not None
    assert [name for name, _ in top] == [bundle_name(n) for n in range(5, 15)]
    assert top[-1] == (bundle_name(14), 42.0)
    assert stores.recently_unloaded == {bundle_name(14)}
    assert stores.unloaded_brokers == {"b1:80": 7}


def test_bundles_are_ranked_in_pulsar_s_steps() -> None:
    """What comes in counts before what goes out; less than half a step counts for nothing."""
    names = [bundle_name(n) for n in range(5)]
    coming_in, going_out, little, more, further = names
    state = fold(FoldState.empty(), Batch.of(poll(0, {"b1:80": dict.fromkeys(names, 1.0)})))
    view = cluster_view(state, START)
    short = replace(
        view.bundle.short,
        throughput_in=np.array([150_001.0, 50_000.0, 49_999.0, 149_999.0, 50_000.0]),
        throughput_out=np.array([0.0, 149_999.0, 49_999.0, 149_999.0, 150_000.0]),
    )
    view = replace(view, bundle=replace(view.bundle, short=short))
    [top] = store_view(
        view, {"b1:80": Ema(0.5, 1.0, START)}, UnreportedFacts({}, {"b1:80"}), 10
    ).top
    assert top is not None
    # Half a step of what goes out is a whole one; of one rank the larger is busier.
    assert [name for name, _ in top] == [little, going_out, more, further, coming_in]


@pytest.mark.parametrize(
    ("held", "published"),
    [
        (8, "1555 B555 1FFF 0AAA 0000 CAAA 7555+1"),
        (12, "1FFF 0AAA 0000 CAAA B555 1555 DFFF 7555+1"),
        (12, "DFFF 1555 0000 CAAA B555 0AAA+1 7555+2"),
        (8, "4AAA BFFF 6AAA F555+1 5FFF+2"),
    ],
)
def test_bundles_that_rank_alike_are_in_the_order_in_which_pulsar_published_them(
    held: int, published: str
) -> None:
    """What brokers of 4.0.7 published; a sign and a number is a rank, and no rank is 0."""
    ends = [*(n * 0x0AAAAAAA for n in range(24)), 0xFFFFFFFF]
    ranges = [f"{low:08x}_{high:08x}" for low, high in pairwise(ends)]
    ranks: dict[str, tuple[float, ...]] = {}
    for each in published.split():
        start, _, rank = each.partition("+")
        [found] = [span for span in ranges if span.upper().startswith(start)]
        name = f"public/drive/0x{found.replace('_', '_0x')}"
        ranks[name] = (0.0, 0.0, float(rank or 0))
    assert as_published(dict(sorted(ranks.items())), 10, held) == list(ranks)
    assert as_published(ranks, 0, held) == []
    assert as_published(ranks, 2, held)[-1] == list(ranks)[-1]


def test_a_backtest_plays_it() -> None:
    trace = SyntheticTrace("scale-out", count_of_brokers=4, count_of_bundles=64, hours=2.0)
    opened = trace.open() if hasattr(trace, "open") else trace
    by = BacktestCandidate("TransferShedder", transfer(loadBalancerBrokerLoadTargetStd="0.05"))
    moved, still = (
        simulate(each, opened, 0, opened.steps, move_s=1.0, seed=1)
        for each in (by, BacktestCandidate("no moves", None))
    )
    assert moved.moves > 0
    assert moved.imbalance < still.imbalance


def test_its_shedder_passes_over_what_policies_keep_and_sheds_the_rest() -> None:
    mixed = {bundle_name(n, "t/kept" if n < 5 else "t/free"): 9000.0 + n for n in range(10)}
    reported: dict[str, Loads | None] = {**UNEVEN, "b1:80": mixed}
    kept = IsolationPolicy(("t/kept",), primary=("b1", "b2"))
    facts = dict.fromkeys(UNEVEN, BrokerFacts(FilterOptions().load_manager_class))
    allowed = "loadBalancerSheddingBundlesWithPoliciesEnabled"

    def shed(value: str, **policies: IsolationPolicy) -> set[tuple[str, str]]:
        around = PlacementPolicies(
            facts, isolation=policies, filters=FilterOptions(distribute_evenly=False)
        )
        made = rounds(transfer(**{allowed: value}), 4, reported, around)[-1]
        return {(move.bundle.rpartition("/")[0], move.destination) for move in made.moves}

    assert ("t/kept", "b3:80") in shed("true")
    assert shed("true", kept=kept) == {("t/free", "b3:80")}
    assert shed("false", kept=kept) == {("t/free", "b3:80")}
