"""The plan by which a broker is emptied: what it says of each bundle."""

from dataclasses import replace

from counterpoise.decide.balancing.drain import DrainPlan, DrainRules, plan_drain
from counterpoise.decide.filters.isolation import IsolationPolicy
from counterpoise.decide.filters.options import FilterOptions
from tests.decide.balancing.test_refill import bundles, scene

LOADS = {"b1": bundles("x", 5.0), "b2": [], "b3": [], "b4": []}
RULES = DrainRules(filters=FilterOptions(distribute_evenly=False))


def drained(**more: object) -> DrainPlan:
    return plan_drain(replace(scene(LOADS, **more), broker="b1"), RULES)


def test_a_move_says_what_spoke_against_the_others_whatever_their_names() -> None:
    policy = IsolationPolicy(("t/n",), primary=("b1", "b3"))
    [move] = drained(policies={"p": policy}).moves
    assert move.destination == "b3"
    _, *against = move.placement.split("; ")
    assert [each.partition(" ")[0] for each in against] == ["b2", "b4"]


def test_who_does_not_answer_is_among_the_reasons_why_a_bundle_stays() -> None:
    policy = IsolationPolicy(("t/n",), primary=("b1",))
    plan = drained(policies={"p": policy}, silent={"b9": "no answer", "b8": "no answer"})
    [stays] = plan.stuck
    assert stays.sentence.endswith("; b8 does not answer; b9 does not answer")
    assert not plan.moves
