"""The plan by which a broker is emptied: what it says of each bundle."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest

from counterpoise.decide.balancing.drain import DrainRules, EmptyBroker
from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from counterpoise.decide.balancing.warm_up import first_moves
from counterpoise.decide.filters.isolation import IsolationPolicy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.round_robin import RoundRobinBrokerSelector
from counterpoise.load.rates import Rates
from tests.decide.balancing.clusters import bundles, snapshot

LOADS = {"b1": bundles("x", 5.0), "b2": [], "b3": [], "b4": []}
RULES = DrainRules(filters=FilterOptions(distribute_evenly=False))


def drained(seen: ClusterSnapshot) -> Round:
    return EmptyBroker("b1", RULES).plan(seen, RoundMemory())


def test_a_move_says_what_spoke_against_the_others_whatever_their_names() -> None:
    policy = IsolationPolicy(("t/n",), primary=("b1", "b3"))
    [move] = drained(snapshot(LOADS, isolation={"p": policy})).moves
    assert move.destination == "b3"
    _, *against = move.placement.split("; ")
    assert [each.partition(" ")[0] for each in against] == ["b2", "b4"]
    assert "draining" not in move.placement


def test_a_move_says_which_part_of_the_load_it_carries_none_where_that_is_not_known() -> None:
    """Limits of an hour count it; one figure that is no number would let everything pass."""
    [move] = drained(snapshot({"b1": bundles("x", 5.0), "b2": bundles("y", 15.0)})).moves
    assert move.part == pytest.approx(0.25)
    odd = {"b1": bundles("x", 5.0, float("nan")), "b2": bundles("y", 15.0)}
    parts = [move.part for move in drained(snapshot(odd)).moves]
    assert sorted(parts)[0] == 0.0
    assert all(0.0 <= part <= 1.0 for part in parts)


def test_a_part_is_of_the_short_average() -> None:
    seen = snapshot({"b1": bundles("x", 5.0), "b2": bundles("y", 15.0)})
    twice = replace(seen.view.bundle, long=Rates.of(*[np.full(2, 9.0)] * 4))
    [move] = drained(replace(seen, view=replace(seen.view, bundle=twice))).moves
    assert move.part == pytest.approx(0.25)


def test_a_broker_that_no_report_knows_yet_is_emptied_all_the_same() -> None:
    seen = snapshot({"b2": bundles("y", 1.0), "b3": bundles("z", 9.0)})
    listed = replace(seen, owned={**seen.owned, "b1": ["t/n/new"]})
    [move] = EmptyBroker("b1", RULES).plan(listed, RoundMemory()).moves
    assert (move.bundle, move.source, move.destination) == ("t/n/new", "b1", "b2")
    assert EmptyBroker("b1", RULES).placed_by == RULES.placement.name


def test_a_cluster_without_brokers_has_none_to_empty() -> None:
    why = EmptyBroker("b1").refusal(snapshot({}))
    assert why == "b1 is no broker of this cluster: it has none"


def test_without_policies_everything_may_go_anywhere_but_what_is_bound() -> None:
    bound = ["pulsar/system/0x40000000_0x80000000", "pulsar/system/0x00000000_0x40000000"]
    seen = replace(snapshot(LOADS), policies=None)
    seen = replace(seen, owned={**seen.owned, "b1": ["t/n/x0", *bound]})
    assert [move.bundle for move in drained(seen).moves] == ["t/n/x0"]
    assert EmptyBroker("b1", RULES).bound(seen) == tuple(sorted(bound))


@pytest.mark.parametrize(
    ("loads", "goes"),
    [((4.0, 4.0, 4.0), "b3 b3 b2"), ((7.5, 2.5, 2.0), "b3 b3 b2"), ((7.6, 2.4, 2.0), "b3 b2 b2")],
)
def test_a_broker_that_is_to_get_the_bundles_gets_them_while_it_is_not_full(
    loads: tuple[float, ...], goes: str
) -> None:
    """Each of two brokers that remain carries half of 12, and is full above 1.25 times that.

    A bundle that is not to move again goes there all the same.
    """
    three = {"b1": bundles("x", *loads), "b2": bundles("y", 0.0), "b3": bundles("z", 0.0)}
    to_b3 = replace(RULES, first_to=frozenset(["b3"]))
    first = EmptyBroker("b1", to_b3).plan(snapshot(three), RoundMemory())
    went = {move.bundle: move.destination for move in first.moves}
    assert " ".join(went[f"t/n/x{number}"] for number in range(3)) == goes
    last = replace(to_b3, last_move_of=frozenset(["t/n/x1", "t/n/x2"]))
    again = EmptyBroker("b1", last).plan(snapshot(three), RoundMemory())
    assert {move.destination for move in again.moves} == {"b3"}
    policy = {"p": IsolationPolicy(("t/n",), primary=("b1", "b2"))}
    barred = EmptyBroker("b1", to_b3).plan(snapshot(three, isolation=policy), RoundMemory())
    assert {move.destination for move in barred.moves} == {"b2"}, "others get what it may not have"
    assert len(barred.moves) == 3


def test_a_broker_that_is_alone_cannot_be_emptied() -> None:
    alone = snapshot({"b1": bundles("x", 5.0)})
    assert EmptyBroker("b1").refusal(alone) == "b1 cannot be emptied: it is the only broker"
    silent = snapshot({"b1": bundles("x", 5.0)}, {"b2": "gone"})
    assert EmptyBroker("b1").refusal(silent) == "b1 cannot be emptied: no other broker answers"
    assert not EmptyBroker("b1").refusal(snapshot(LOADS))


def test_each_bundle_is_placed_beside_those_that_were_placed_before_it() -> None:
    """By load, by anti-affinity group where load says otherwise, and by the strategy's memory."""
    two = bundles("x", 5.0, 5.0)
    by_load = drained(snapshot({"b1": two, "b2": [], "b3": []}))
    assert {move.destination for move in by_load.moves} == {"b2", "b3"}
    busy = {"b1": two, "b2": [], "b3": bundles("y", 500.0, namespace="t/busy")}
    by_group = drained(snapshot(busy, groups={"t/n": "g"}))
    assert {move.destination for move in by_group.moves} == {"b2", "b3"}
    rules = replace(RULES, placement=RoundRobinBrokerSelector())
    rotated = EmptyBroker("b1", rules).plan(snapshot(busy), RoundMemory())
    assert {move.destination for move in rotated.moves} == {"b2", "b3"}


def test_who_does_not_answer_is_among_the_reasons_why_a_bundle_stays() -> None:
    policy = IsolationPolicy(("t/n",), primary=("b1",))
    plan = drained(snapshot(LOADS, {"b9": "no answer", "b8": "no answer"}, isolation={"p": policy}))
    [stays] = plan.rejections
    assert stays.sentence.endswith("; b8 does not answer; b9 does not answer")
    assert not plan.moves


def test_a_cordoned_broker_is_given_nothing_and_is_among_the_reasons() -> None:
    order = "ann drained it"
    three = snapshot({"b1": bundles("x", 5.0, 5.0), "b2": bundles("y", 9.0), "b3": []})
    assert "b3" in {move.destination for move in drained(three).moves}
    held = replace(three, cordoned={"b1": "itself", "b3": order})
    assert {move.destination for move in drained(held).moves} == {"b2"}
    assert not EmptyBroker("b1").refusal(held)
    both = replace(three, cordoned={"b3": order, "b2": order})
    assert EmptyBroker("b1").refusal(both) == (
        "b1 cannot be emptied: b2 is cordoned: ann drained it; b3 is cordoned: ann drained it"
    )
    policy = IsolationPolicy(("t/n",), primary=("b3",))
    isolated = replace(snapshot(LOADS, isolation={"p": policy}), cordoned={"b3": order})
    assert drained(isolated).rejections[0].sentence.endswith("; b3 is cordoned: ann drained it")


def test_a_bundle_that_another_still_reports_has_no_broker_to_be_better_than() -> None:
    """It was given away a moment ago, to the one that is to be emptied now."""
    seen = snapshot({"b1": [], "b2": bundles("x", 5.0)})
    owned = {"b1": seen.owned["b2"], "b2": ()}
    plan = drained(replace(seen, owned=owned))
    assert not plan.rejections
    assert [move.destination for move in plan.moves] == ["b2"]


def test_what_placement_says_is_among_the_reasons_why_a_bundle_stays() -> None:
    seen = snapshot({"b1": bundles("x", 5.0), "b2": []})
    plan = drained(replace(seen, owned={"b1": seen.owned["b1"], "b7": ()}))
    [stays] = plan.rejections
    assert "b7" in stays.sentence


def test_bundles_whose_load_is_no_number_come_last_by_name() -> None:
    """They come out of a set, in another order in each process."""
    odd = bundles("odd", *[float("nan"), float("inf")] * 8)
    loads = {"b1": [*odd, *bundles("x", 1.0, 3.0, 2.0)], "b2": [], "b3": []}
    plan = drained(snapshot(loads))
    names = [move.bundle for move in plan.moves]
    assert names == ["t/n/x1", "t/n/x2", "t/n/x0", *sorted(name for name, _ in odd)]


def test_brokers_that_are_to_get_bundles_first_get_all_that_policies_and_load_allow() -> None:
    """b2 was restarted a moment ago, and is empty; b3 and b4 are yet to be."""
    loads = {"b1": bundles("x", *[10.0] * 4), "b2": [], "b3": bundles("y", 40.0), "b4": []}

    def destinations(seen: ClusterSnapshot, last: Collection[str] = ()) -> list[str]:
        rules = replace(RULES, first_to={"b2"}, last_move_of=last)
        plan = EmptyBroker("b1", rules).plan(seen, RoundMemory())
        assert not plan.rejections
        return [move.destination for move in plan.moves]

    assert destinations(snapshot(loads)) == ["b2"] * 4
    policy = IsolationPolicy(("t/n",), primary=("b3", "b4"))
    assert "b2" not in destinations(snapshot(loads, isolation={"p": policy}))
    # 100 on three brokers are 33 each: no more than a quarter above that.
    full = {"b1": bundles("x", *[10.0] * 10), "b2": [], "b3": [], "b4": []}
    assert sorted(destinations(snapshot(full))).count("b2") == 5
    moved_once = bundles("x", *[10.0] * 10)
    assert destinations(snapshot(full), [name for name, _ in moved_once]) == ["b2"] * 10


def test_a_broker_new_to_a_namespace_begins_with_the_lightest_bundle_that_has_load() -> None:
    """Even where load speaks for another broker, and however little room it has."""
    idle = bundles("i", 0.0)
    seen = {"b1": bundles("x", 50.0, 5.0, 9.0) + idle, "b2": bundles("y", 40.0, namespace="t/m")}
    rules = replace(RULES, first_to={"b2"})
    plan = EmptyBroker("b1", rules).plan(snapshot({**seen, "b3": bundles("z", 1.0)}), RoundMemory())
    first = plan.moves[0]
    assert (first.destination, first.part) == ("b2", pytest.approx(5.0 / 105.0))
    assert first_moves(plan.moves, {"b2": ["t/m/0x00000000_0x80000000"]})[0] == first
    served = {**seen, "b2": bundles("y", 40.0)}
    plan = EmptyBroker("b1", rules).plan(snapshot({**served, "b3": []}), RoundMemory())
    assert plan.moves[0].part == pytest.approx(50.0 / 104.0)
