"""What a move gains, and which of two plans is the better one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from counterpoise.decide.advice.plan import AdvisedPlan, BrokerLoad, Cost, MoveTime
from counterpoise.decide.advice.planned import (
    AdviceOptions,
    advise,
    cost_of,
    gain_lacks,
    picture,
    swap_of,
    with_hosts_usage,
)
from counterpoise.decide.balancing.approval import ApprovalRules, PastMove
from counterpoise.decide.balancing.moves import Move, move_id
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.projection import moved_in
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from counterpoise.decide.plan import Decision, DecisionKind, StrategyPlan
from counterpoise.load.rates import Rates
from counterpoise.load.view import ClusterView
from tests.decide.balancing.clusters import bundles, snapshot
from tests.decide.balancing.test_round import strategy

TOOK = MoveTime(0.5, 2.0, "a test")
MINUTE_MS = 60_000


def view_of(first: list[float], second: list[float]) -> ClusterView:
    return snapshot({"b1": bundles("x", *first), "b2": bundles("y", *second)}).view


def move_of(bundle: str) -> Move:
    decision = Decision(DecisionKind.TRANSFER, bundle, "b1", "b2", "x", "x")
    return Move(move_id(0, bundle), 0, decision, "x")


@pytest.mark.parametrize(
    ("first", "second", "lacks"),
    [
        ([1, 149], [50], ""),
        ([0.99, 149.01], [50], "it carries 1.0 B/s, less than 1% of the 100 B/s that a broker"),
        ([40, 61], [60], ""),
        ([40, 60], [60], "change places: b1 carries 100 B/s, b2 60 B/s"),
        ([40], [60], "change places: b1 carries 40 B/s, b2 60 B/s"),
    ],
)
def test_what_a_move_lacks(first: list[float], second: list[float], lacks: str) -> None:
    why = gain_lacks(view_of(first, second), move_of("t/n/x0"))
    assert lacks in why if lacks else not why


def test_an_idle_broker_counts_for_what_brokers_carry_on_average() -> None:
    view = snapshot({"b1": bundles("x", 1, 149), "b2": bundles("y", 90), "b3": []}).view
    assert not gain_lacks(view, move_of("t/n/x0")), "1 B/s of 80, and not of 120"


@pytest.mark.parametrize(("carried", "swaps"), [(20.0, False), (21.0, True)])
def test_a_move_that_leaves_its_destination_the_fuller_one(carried: float, swaps: bool) -> None:
    move = move_of("t/n/x0")
    after = moved_in(view_of([carried, 80], [60]), move.decision)
    why = swap_of(after, move)
    assert (
        why.startswith("it carries 21 B/s and would leave b2 fuller than b1") if swaps else not why
    )


@pytest.mark.parametrize("seen", [view_of([0.0], [0.0]), snapshot({"b1": bundles("x", 9)}).view,
                                  snapshot({"b2": bundles("x", 9)}).view])  # fmt: skip
def test_nothing_is_said_of_brokers_without_figures(seen: ClusterView) -> None:
    move = move_of("t/n/x0")
    assert gain_lacks(seen, move) == swap_of(seen, move) == ""


def test_a_bundle_that_is_not_reported_costs_its_connections() -> None:
    cost = cost_of(view_of([1], [1]), "t/n/new", {"t/n/new": 5}, TOOK)
    assert cost == Cost(0, 5, 0.0, TOOK.seconds)


def test_brokers_of_one_host_go_on_measuring_the_same_machine() -> None:
    seen = snapshot({"h1:1": bundles("x", 9), "h1:2": [], "h2:1": []}).view
    used = np.full_like(seen.broker.usage, 0.5)
    after = replace(seen, broker=replace(seen.broker, usage=used))
    found = with_hosts_usage(after, seen).broker.usage
    assert found[:, 0].tolist() == [0.0, 0.0, 0.5]


def test_a_picture_has_each_figure_in_its_place() -> None:
    seen = snapshot({"b1": bundles("x", 9.0, 1.0, 2.0), "b2": []}).view
    zero = np.zeros(2)
    busy = replace(
        seen.broker,
        topics=np.array([7, 0]),
        usage=np.full((2, 5), 50.0, np.float32),
        traffic=Rates(np.array([4.0, 0.0]), np.array([1.0, 0.0]), np.array([12.0, 0.0]), zero),
    )
    found = picture(replace(seen, broker=busy))
    assert found.imbalance == 1.0
    assert found.brokers == (
        BrokerLoad("b1", 12.0, 5.0, 0.5, 3, 7),
        BrokerLoad("b2", 0.0, 0.0, 0.5, 0, 0),
    )


def test_a_usage_that_is_no_number_is_none() -> None:
    seen = view_of([1], [1])
    odd = replace(seen, broker=replace(seen.broker, usage=np.full_like(seen.broker.usage, np.nan)))
    assert [each.usage for each in picture(odd).brokers] == [0.0, 0.0]


class Takes(type(strategy().shedder)):  # type: ignore[misc]
    """Moves these bundles from the first broker to the second, one in each round."""

    def __init__(self, *bundles: str) -> None:
        self._bundles = bundles
        self.times: list[int] = []

    def plan(self, view: Any, memory: Any, *more: Any) -> StrategyPlan[Any]:
        self.times.append(view.now_ms)
        resting = {b for b, r in zip(view.bundles, view.bundle.recently_unloaded, strict=True) if r}
        left = [each for each in self._bundles if each not in resting][:1]
        return StrategyPlan(tuple(move_of(each).decision for each in left), (), memory)


def planned(seen: ClusterSnapshot, shedder: Takes, **options: Any) -> AdvisedPlan:
    made_at_ms = options.pop("made_at_ms", seen.view.now_ms)
    by = replace(strategy(), shedder=shedder)
    return advise(replace(seen, source="x"), by, TOOK, made_at_ms, options=AdviceOptions(**options))


def steps(carried: list[list[float]], *numbers: int, **options: Any) -> list[str]:
    """What a plan moves from the first broker, whose bundles of these numbers are to go."""
    loads = {f"b{1 + i}": bundles("xyz"[i], *each) for i, each in enumerate(carried)}
    made = planned(snapshot(loads), Takes(*(f"t/n/x{n}" for n in numbers)), **options)
    return [step.bundle for step in made.steps]


def test_of_two_plans_the_more_even_one_is_made_and_then_the_one_with_fewer_moves() -> None:
    """The first bundle makes its destination the fuller broker; without it there is none to move,
    or two smaller ones have to.
    """
    assert steps([[600, 300], []], 0) == ["t/n/x0"]
    assert steps([[600, 200, 100], []], 0, 1, 2) == ["t/n/x0"]
    assert steps([[900, 300, 200], [100]], 0, 1, 2) == ["t/n/x1", "t/n/x2"]


def test_a_further_round_is_part_of_the_plan_only_if_it_leaves_the_brokers_more_even() -> None:
    assert steps([[100, 100, 300], [], [1000]], 0, 1) == ["t/n/x0"]


def test_what_gains_nothing_does_not_end_the_round() -> None:
    assert steps([[0, 100, 300], []], 0, 1, rounds=1) == ["t/n/x1"]


def test_a_plan_of_several_rounds_needs_no_note() -> None:
    seen = snapshot({"b1": bundles("x", 100, 100, 300), "b2": []})
    made = planned(seen, Takes("t/n/x0", "t/n/x1"))
    assert [step.round for step in made.steps] == [1, 2]
    assert not made.notes


def test_rounds_are_as_far_apart_as_the_goal_decides() -> None:
    shedder = Takes("t/n/x0", "t/n/x1")
    seen = snapshot({"b1": bundles("x", 100, 100, 300), "b2": []})
    planned(seen, shedder, rounds=2)
    apart_ms = BalanceOptions().decide_every_ms
    assert sorted(set(shedder.times)) == [seen.view.now_ms, seen.view.now_ms + apart_ms]


def test_what_the_operators_rules_withhold_is_judged_by_the_time_of_the_plan() -> None:
    """The loads were seen in the first minute of the day, and the plan is made in its eleventh."""
    seen = snapshot({"b1": bundles("x", 100, 300), "b2": []})
    for window, moves in (((10, 20), 1), ((0, 10), 0)):
        rules = ApprovalRules(window=window)
        made = planned(seen, Takes("t/n/x0"), rules=rules, made_at_ms=10 * MINUTE_MS)
        assert len(made.steps) == moves
    for moved_before, moves in (((), 1), ((PastMove(10 * MINUTE_MS - 1, 0.0),), 0)):
        rules = ApprovalRules(moves_an_hour=1)
        made = planned(
            seen, Takes("t/n/x0"), rules=rules, moved_before=moved_before, made_at_ms=10 * MINUTE_MS
        )
        assert len(made.steps) == moves
