"""A round of decisions: when it is due, what it may choose, and that it can be repeated."""

import json
from dataclasses import replace

import numpy as np
import pytest

from counterpoise.decide.balancing.due import is_incomplete, is_time, may_decide, traffic, waits_for
from counterpoise.decide.balancing.measured import basis_of
from counterpoise.decide.balancing.moves import MoveStatus, Round, RoundMemory, imbalance
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.round import BalancingStrategy, decide, left_alone
from counterpoise.decide.balancing.snapshot import newest_poll
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.view import ClusterView
from counterpoise.names.options import from_conf
from counterpoise.names.units import bytes_text
from tests.load.story import START, Loads, poll, report
from tests.pipeline.fake_cluster import bundle_name

HOT = {bundle_name(i): 9000.0 + i for i in range(10)}
UNEVEN: dict[str, Loads | None] = {"b1:80": HOT, "b2:80": {bundle_name(20): 9000.0}, "b3:80": {}}
CONF = {
    "loadBalancerBundleUnloadMinThroughputThreshold": "0.001",
    "loadBalancerHistoryResourcePercentage": "0.5",
}


def strategy(name: str = "ThresholdShedder", **balance: int) -> BalancingStrategy:
    shedder = SHEDDERS.find(name)
    return BalancingStrategy(
        shedder=shedder,
        options=from_conf(shedder.options, CONF),
        balance=BalanceOptions(**{"report_interval_ms": 0, **balance}),  # type: ignore[arg-type]
    )


def seen(*polls: dict[str, Loads | None]) -> FoldState:
    state = FoldState.empty()
    for number, brokers in enumerate(polls):
        state = fold(state, Batch.of(poll(number, brokers)))
    return state


def sentences(made: Round) -> str:
    return "\n".join(rejection.sentence for rejection in made.rejections)


def test_the_view_is_the_one_that_pulsars_own_load_data_gives() -> None:
    state = seen(UNEVEN, {**UNEVEN, "b2:80": {bundle_name(20): 100.0}})
    ours = cluster_view(state, START, [bundle_name(3)])
    row = {bundle: i for i, bundle in enumerate(state.averages["bundle"])}

    def term(bundle: str, prefix: str) -> dict[str, float]:
        column = lambda name: float(state.averages[f"{prefix}_{name}"][row[bundle]])  # noqa: E731
        return {
            "msgRateIn": column("msg_rate_in"),
            "msgRateOut": column("msg_rate_out"),
            "msgThroughputIn": column("msg_throughput_in"),
            "msgThroughputOut": column("msg_throughput_out"),
        }

    def summed(loads: Loads) -> dict[str, float]:
        sums: dict[str, float] = {}
        for prefix in ("short", "long"):
            for bundle in loads:
                for name, value in term(bundle, prefix).items():
                    key = f"{prefix}TermM{name[1:]}"
                    sums[key] = sums.get(key, 0.0) + value
        return sums

    latest: dict[str, Loads] = {**UNEVEN, "b2:80": {bundle_name(20): 100.0}}  # type: ignore[dict-item]
    theirs = ClusterView.from_load_data(
        {
            "now": START,
            "brokerData": {
                name: {
                    "localData": report(loads, START + 5000 - 7).to_json(),
                    "timeAverageData": summed(loads),
                    "preallocatedBundleData": {},
                }
                for name, loads in latest.items()
            },
            "bundleData": {
                bundle: {
                    "shortTermData": term(bundle, "short"),
                    "longTermData": term(bundle, "long"),
                    "topics": 3,
                }
                for bundle in row
            },
            "recentlyUnloadedBundles": {bundle_name(3): START},
        }
    )
    assert (ours.brokers, ours.bundles) == (theirs.brokers, theirs.bundles)
    assert ours.members.tolist() == theirs.members.tolist()
    assert ours.offsets.tolist() == theirs.offsets.tolist()
    for part in ("usage", "bundle_count", "topics"):
        assert getattr(ours.broker, part).tolist() == getattr(theirs.broker, part).tolist(), part
    for part in ("traffic", "short_average", "long_average"):
        mine, other = getattr(ours.broker, part), getattr(theirs.broker, part)
        assert mine.rate().tolist() == other.rate().tolist(), part
        assert mine.throughput().tolist() == other.throughput().tolist(), part
    for part in ("short", "long"):
        mine, other = getattr(ours.bundle, part), getattr(theirs.bundle, part)
        assert mine.throughput().tolist() == other.throughput().tolist(), part
    assert ours.bundle.recently_unloaded.tolist() == theirs.bundle.recently_unloaded.tolist()
    assert ours.bundle.topics.tolist() == theirs.bundle.topics.tolist()


def test_the_same_state_and_memory_give_the_same_round() -> None:
    assert decide(seen(UNEVEN), RoundMemory(), strategy()) == decide(
        seen(UNEVEN), RoundMemory(), strategy()
    )


def test_the_hot_broker_gives_bundles_to_the_others_and_the_round_does_not_pile_them_up() -> None:
    made = decide(seen(UNEVEN), RoundMemory(), strategy())
    assert {move.source for move in made.moves} == {"b1:80"}
    assert {move.destination for move in made.moves} == {"b2:80", "b3:80"}
    after = {"b1:80": sum(HOT.values()), "b2:80": 9000.0, "b3:80": 0.0}
    for move in made.moves:
        after[move.source] -= HOT[move.bundle]
        after[move.destination] += HOT[move.bundle]
    assert imbalance(after.values()) < made.imbalance / 2
    assert all("averages" in move.decision.sentence for move in made.moves)


def test_ids_differ_by_poll_and_bundle() -> None:
    first = decide(seen(UNEVEN), RoundMemory(), strategy())
    second = decide(seen(UNEVEN, UNEVEN), RoundMemory(), strategy())
    ids = [move.id for made in (first, second) for move in made.moves]
    assert len(set(ids)) == len(ids)


def test_a_silent_broker_is_given_nothing() -> None:
    made = decide(seen(UNEVEN, {**UNEVEN, "b3:80": None}), RoundMemory(), strategy())
    assert {move.destination for move in made.moves} == {"b2:80"}


def test_a_bundle_that_moved_a_moment_ago_is_left_alone_for_the_grace_period() -> None:
    state = seen(UNEVEN)
    moved = dict.fromkeys(HOT, START - 60000)
    resting = decide(state, RoundMemory(recently_unloaded=moved), strategy(grace_minutes=1))
    assert not resting.moves
    assert "loadBalancerSheddingGracePeriodMinutes" in sentences(resting)
    assert resting.memory.recently_unloaded == moved
    rested = decide(state, RoundMemory(recently_unloaded=moved), strategy(grace_ms=59_999))
    assert rested.moves
    assert rested.memory.recently_unloaded == {}


def test_the_grace_period_of_a_bundle_begins_when_its_move_ends() -> None:
    """A move may take as long as the time between two rounds."""
    state = seen(UNEVEN)
    made = decide(state, RoundMemory(), strategy(grace_ms=60_000))
    took = made.as_moved(ended_at_ms=START + 50_000)
    memory = made.memory.after(took)
    assert set(memory.recently_unloaded.values()) == {START + 50_000}
    refused = replace(took[0], status=MoveStatus.WITHHELD)
    assert refused.bundle not in made.memory.after([refused]).recently_unloaded
    dry = replace(took[0], status=MoveStatus.DRY_RUN)
    assert made.memory.after([dry]).recently_unloaded[dry.bundle] == START
    later = START + 109_999
    assert left_alone(later, memory, BalanceOptions(grace_ms=60_000)).keys() == {
        move.bundle for move in made.moves
    }
    assert not left_alone(later + 2, memory, BalanceOptions(grace_ms=60_000))


def test_one_broker_alone_has_nowhere_to_move_anything() -> None:
    made = decide(seen({"b1:80": HOT}), RoundMemory(), strategy())
    assert not made.moves
    assert "only one broker" in sentences(made)


def test_a_bundle_that_would_only_move_the_problem_stays_and_says_so() -> None:
    big = {"b1:80": {bundle_name(0): 90_000.0, bundle_name(1): 1.0}, "b2:80": {}}
    made = decide(seen(big), RoundMemory(), strategy())
    assert not made.moves
    assert "no less than the" in sentences(made)
    pulsars = replace(strategy(), placement=PLACEMENTS["LeastLongTermMessageRate"])
    assert [m.bundle for m in decide(seen(big), RoundMemory(), pulsars).moves] == [bundle_name(0)]


def test_the_memory_of_the_shedder_goes_through_json_and_forgets_who_left() -> None:
    first = decide(seen(UNEVEN), RoundMemory(), strategy())
    memory = RoundMemory.from_json(first.memory.to_json())
    second = decide(seen(UNEVEN, {"b1:80": HOT, "b2:80": {}}), memory, strategy())
    assert set(second.memory.shedder["memory"]["usage"]) == {"b1:80", "b2:80"}


@pytest.mark.parametrize(("gap_ms", "forgets"), [(300_000, False), (300_001, True)])
def test_what_a_strategy_saw_before_a_gap_decides_nothing(gap_ms: int, forgets: bool) -> None:
    """The average of what b1 used before would hide for many rounds that it is empty now."""
    before = decide(seen(UNEVEN), RoundMemory(), strategy())
    late = replace(before.memory, decided_at_ms=START - gap_ms, recently_unloaded={})
    now = seen({"b1:80": {bundle_name(0): 10.0}, "b2:80": HOT, "b3:80": {}})
    fresh = decide(now, RoundMemory(), strategy())
    found = decide(now, late, strategy())
    assert (found.memory.shedder == fresh.memory.shedder) is forgets
    assert (found.moves == fresh.moves) is forgets


def test_a_move_says_what_is_measured_now_beside_its_average_and_its_age() -> None:
    """Two looks five seconds apart, the second of b2 alone; b1 repeats what it said at first."""
    state = seen(UNEVEN)
    later = poll(1, {**UNEVEN, "b2:80": {bundle_name(20): 100.0}}, repeated=["b1:80"])
    state = fold(state, Batch.of(later))
    made = decide(seen(UNEVEN), RoundMemory(), strategy())
    move = next(each for each in made.moves if each.destination == "b2:80")
    carries = bytes_text(3 * HOT[move.bundle])
    basis = basis_of(move, state, newest_poll(state))
    assert basis is not None
    assert basis.sentence_of(move.source, move.destination) == (
        f"it carries {carries} on average of its only report, {carries} 5 s ago by the newest; "
        f"b1:80 reported {bytes_text(3 * sum(HOT.values()))} 5 s ago; "
        "b2:80 reported 300 B/s 0 s ago"
    )


def test_of_two_brokers_that_report_a_bundle_the_newer_report_says_what_it_carries() -> None:
    made = decide(seen(UNEVEN), RoundMemory(), strategy())
    move = made.moves[0]
    later = poll(1, {**UNEVEN, "b3:80": {move.bundle: 7.0}}, repeated=["b1:80"])
    state = fold(seen(UNEVEN), Batch.of(later))
    basis = basis_of(move, state, newest_poll(state))
    assert basis is not None
    assert basis.measured == (21.0, 0.0)


def test_pulsars_leader_places_each_bundle_by_what_was_reported_before_the_round() -> None:
    """So all of them go to the broker that carried the least then, however many they are."""
    leader = replace(
        strategy(),
        placement=PLACEMENTS["LeastLongTermMessageRate"],
        as_leader=FilterOptions(distribute_evenly=False),
    )
    made = decide(seen(UNEVEN), RoundMemory(), leader)
    assert len(made.moves) > 2
    assert {move.destination for move in made.moves} == {"b3:80"}


def test_the_figures_of_a_move_are_those_of_the_newest_report_where_the_average_lags() -> None:
    """Ten times the load since the second look: the average is halfway there."""
    grown = {name: 10 * load for name, load in HOT.items()}
    state = fold(seen(UNEVEN), Batch.of(poll(1, {**UNEVEN, "b1:80": grown})))
    made = decide(state, RoundMemory(), strategy())
    move = next(each for each in made.moves if each.source == "b1:80")
    assert move.basis is not None
    assert move.basis.average == pytest.approx(3 * 5.5 * HOT[move.bundle])
    assert move.basis.measured == (pytest.approx(30 * HOT[move.bundle]), 0.0)
    assert move.basis.source == (pytest.approx(30 * sum(HOT.values())), 0.0)


def test_nothing_is_taken_from_a_broker_that_gave_no_report_at_the_newest_poll() -> None:
    state = fold(seen(UNEVEN), Batch.of(poll(1, {**UNEVEN, "b1:80": None})))
    assert not decide(state, RoundMemory(), strategy()).moves
    again = fold(state, Batch.of(poll(2, UNEVEN)))
    assert decide(again, RoundMemory(), strategy()).moves


@pytest.mark.parametrize("former", PLACEMENTS)
@pytest.mark.parametrize("name", PLACEMENTS)
def test_a_history_goes_on_under_another_strategy(former: str, name: str) -> None:
    before = replace(strategy(), placement=PLACEMENTS[former])
    memory = RoundMemory.from_json(
        json.loads(json.dumps(decide(seen(UNEVEN), RoundMemory(), before).memory.to_json()))
    )
    after = replace(strategy("AvgShedder"), placement=PLACEMENTS[name])
    assert decide(seen(UNEVEN), memory, after).memory.shedder["strategy"] == "AvgShedder"


def is_due(state: FoldState, memory: RoundMemory, options: BalanceOptions) -> bool:
    """As the balancer asks it."""
    now_ms = newest_poll(state)
    return is_time(now_ms, memory, options) and not waits_for(state, memory, options)


@pytest.mark.parametrize(
    ("options", "last_move_ms", "why"),
    [
        (BalanceOptions(enabled=False), 0, "no round is made: loadBalancerEnabled is off"),
        (BalanceOptions(shedding_enabled=False), 0, "loadBalancerSheddingEnabled is off"),
        (BalanceOptions(), START - 9_999, "(loadBalancerReportUpdateMinIntervalMillis)"),
        (BalanceOptions(), START - 10_000, ""),
    ],
)
def test_what_a_round_waits_for_is_named_with_its_setting(
    options: BalanceOptions, last_move_ms: int, why: str
) -> None:
    waits = waits_for(seen(UNEVEN), RoundMemory(last_move_ms=last_move_ms), options)
    assert why in waits
    assert bool(waits) is bool(why)
    # The leader of a cluster asks it alone.
    assert may_decide(START, RoundMemory(last_move_ms=last_move_ms), options) is not bool(why)


def test_what_is_only_consumed_or_only_published_is_missed_until_it_is_reported() -> None:
    state = seen(UNEVEN, {**UNEVEN, "b1:80": {}})
    for name in ("short_msg_throughput_in", "short_msg_throughput_out"):
        none = np.zeros(len(state.averages["bundle"]))
        one_way = replace(state, averages={**state.averages, name: none})
        assert is_incomplete(one_way, BalanceOptions())


@pytest.mark.parametrize(("unreported", "due"), [(100.0, True), (101.0, False)])
def test_a_tenth_of_the_load_may_be_in_no_report(unreported: float, due: bool) -> None:
    lost, rest = bundle_name(0), {bundle_name(1): 900.0}
    state = seen({"b1:80": {lost: unreported, **rest}}, {"b1:80": rest})
    assert is_incomplete(state, BalanceOptions()) is not due


def test_a_broker_that_is_gone_is_forgotten_where_one_that_was_unloaded_is_not() -> None:
    memory = RoundMemory(unloaded_brokers={"b1:80": START, "gone:80": START})
    made = decide(seen(UNEVEN), memory, strategy())
    assert made.memory.unloaded_brokers == {"b1:80": START}


def test_a_round_is_due_when_the_interval_is_over_and_the_last_moves_can_be_seen() -> None:
    state, options = seen(UNEVEN), BalanceOptions(interval_minutes=1)
    assert is_due(state, RoundMemory(), options)
    assert not is_due(state, RoundMemory(decided_at_ms=START - 59_999), options)
    assert is_due(state, RoundMemory(decided_at_ms=START - 60_000), options)
    assert not is_due(state, RoundMemory(last_move_ms=START - 9_999), options)
    assert is_due(state, RoundMemory(last_move_ms=START - 10_000), options)
    assert not is_due(state, RoundMemory(decided_at_ms=START), BalanceOptions(interval_ms=0))
    assert is_due(state, RoundMemory(decided_at_ms=START - 1), BalanceOptions(interval_ms=0))
    assert not is_due(state, RoundMemory(decided_at_ms=START - 9), BalanceOptions(interval_ms=10))
    assert not is_due(state, RoundMemory(), BalanceOptions(enabled=False))
    assert not is_due(state, RoundMemory(), BalanceOptions(shedding_enabled=False))
    assert not is_due(FoldState.empty(), RoundMemory(), options)
    waits = waits_for(FoldState.empty(), RoundMemory(), options)
    assert waits == "the next round waits for a load report"


def test_reports_that_repeat_what_was_said_before_the_last_moves_are_waited_out() -> None:
    """Pulsar's brokers measure rates once a minute, and answer with the old ones until then."""
    state, options = seen(UNEVEN), BalanceOptions(interval_minutes=1)
    before = traffic(state)
    for last_move_ms, said, due in (
        (START - 20_000, before, False),
        (START - 119_999, before, False),
        (START - 120_000, before, True),
        (START - 20_000, {name: each + 1 for name, each in before.items()}, True),
    ):
        backwards = dict(reversed(said.items()))
        memory = RoundMemory(last_move_ms=last_move_ms, traffic_before=backwards)
        assert is_due(state, memory, options) is due
        waits = waits_for(state, memory, options)
        assert ("waits for new measurements of b1:80, b2:80, b3:80" in waits) is not due, waits


@pytest.mark.parametrize(
    ("left", "after_s", "due"),
    [
        (0, 30, False),
        (0, 180.001, False),
        (0, 180.002, True),
        (4, 30, False),
        (5, 30, True),
        (6, 30, True),
    ],
)
def test_a_round_waits_for_bundles_that_a_broker_which_has_restarted_does_not_report_yet(
    left: int, after_s: float, due: bool
) -> None:
    """It answers at once, and seems to carry nothing until it measures rates again.

    A sample is read a millisecond after its poll.
    """
    options = BalanceOptions(interval_minutes=1)
    mine = {f"t/n/0x0{number}000000_0x0{number + 1}000000": 100.0 for number in range(6)}
    other = {"t/m/0x00000000_0xffffffff": 600.0}
    began = fold(FoldState.empty(), Batch.of(poll(0, {"b1:80": mine, "b2:80": other})))
    reported = dict([*mine.items()][:left])
    polls = {"b1:80": reported, "b2:80": other}
    state = fold(began, Batch.of(poll(after_s, polls, every_ms=1000)))
    assert is_due(state, RoundMemory(), options) is due
    waits = waits_for(state, RoundMemory(), options)
    assert ("no broker reports since" in waits) is not due, waits


def test_imbalance_is_the_largest_over_the_mean_less_one() -> None:
    assert imbalance([3.0, 0.0, 0.0]) == 2.0
    assert imbalance([2.0, 2.0]) == 0.0
    assert imbalance([0.0, 0.0]) == 0.0
    assert imbalance([]) == 0.0


@pytest.mark.parametrize("name", [*SHEDDERS])
def test_no_strategy_moves_a_bundle_of_the_system_namespace(name: str) -> None:
    system = {bundle_name(i, "pulsar/system"): 90_000.0 + i for i in range(10)}
    hot = {**UNEVEN, "b1:80": {**HOT, **system}}
    moved = {move.bundle for move in decide(seen(hot), RoundMemory(), strategy(name)).moves}
    assert not moved & system.keys()


def test_what_is_not_of_the_system_namespace_moves_all_the_same() -> None:
    system = {bundle_name(i, "pulsar/system"): 1.0 for i in range(10)}
    hot = {**UNEVEN, "b1:80": {**HOT, **system}}
    assert decide(seen(hot), RoundMemory(), strategy()).moves
