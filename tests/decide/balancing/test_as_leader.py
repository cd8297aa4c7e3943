"""Destinations as Pulsar's own leader chooses them."""

from random import Random

import pytest

from counterpoise.decide.balancing.as_leader import select_as_leader, stays
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.least_message_rate import LeastLongTermMessageRate
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.selection import Chooser, Selection
from counterpoise.decide.plan import Decision, DecisionKind
from tests.decide.balancing.clusters import bundles, snapshot

UNEVEN = FilterOptions(distribute_evenly=False)
# Two namespaces; b1 carries the most and has the fewest bundles of t/n.
LOADS = {
    "b1": [*bundles("x", 50), *bundles("z", 90, namespace="t/m")],
    "b2": bundles("y", 30, 20),
    "b3": bundles("w", 5, 5, 5),
}


def chosen(
    decision: Decision,
    filters: FilterOptions | None = None,
    given: dict[str, int] | None = None,
    rng: Random | None = None,
) -> "Selection[object]":
    chooser = Chooser(LeastLongTermMessageRate(), snapshot(LOADS).view, PlacementOptions(), rng)
    return select_as_leader(
        decision, LOADS, chooser, LeastLongTermMessageRate().initial_memory(),
        filters or FilterOptions(), given or {},
    )  # fmt: skip


def shed(bundle: str, source: str, destination: str | None = None) -> Decision:
    return Decision(DecisionKind.UNLOAD, bundle, source, destination, "r", "because")


def test_the_fewest_bundles_of_the_namespace_come_before_any_load() -> None:
    assert chosen(shed("t/n/y0", "b2")).broker == "b1"
    assert chosen(shed("t/m/z0", "b1")).placement.admissible == ("b2", "b3"), "neither has any"


def test_without_that_rule_the_placement_strategy_alone_decides() -> None:
    assert chosen(shed("t/n/y0", "b2"), UNEVEN).placement.admissible == ("b1", "b2", "b3")


def test_the_bundles_own_broker_competes_and_then_the_bundle_stays() -> None:
    found = chosen(shed("t/n/x0", "b1"))
    assert found.broker == "b1"
    rejection = stays(shed("t/n/x0", "b1"), found)
    assert rejection is not None
    assert rejection.sentence.startswith("t/n/x0 stays: its own broker is chosen again")
    assert stays(shed("t/n/y0", "b2"), chosen(shed("t/n/y0", "b2"))) is None


def test_a_bundle_for_which_no_broker_is_left_stays_with_the_reason() -> None:
    chooser = Chooser(LeastLongTermMessageRate(), snapshot(LOADS).view, PlacementOptions())
    memory = LeastLongTermMessageRate().initial_memory()
    none = select_as_leader(shed("t/n/x0", "b1"), [], chooser, memory, UNEVEN)
    rejection = stays(shed("t/n/x0", "b1"), none)
    assert rejection is not None
    assert rejection.sentence == f"t/n/x0 stays: {none.placement.reason}"
    assert chosen(shed("t/new/n0", "b1")).placement.admissible == ("b1", "b2", "b3")


def test_what_brokers_were_given_and_have_not_reported_counts() -> None:
    assert chosen(shed("t/n/w0", ""), given={"b1": 2}).broker == "b2"


@pytest.mark.parametrize(
    ("planned", "goes"),
    [("b1", "b1"), ("b3", "b1")],  # b3 has more bundles of the namespace: no candidate
)
def test_a_planned_broker_is_taken_while_it_is_a_candidate(planned: str, goes: str) -> None:
    found = chosen(shed("t/n/y0", "b2", planned))
    assert found.broker == goes
    assert chosen(shed("t/n/y0", "b2", planned), UNEVEN).broker == planned


def test_a_broker_that_does_not_answer_is_no_candidate() -> None:
    chooser = Chooser(LeastLongTermMessageRate(), snapshot(LOADS).view, PlacementOptions(), None)
    memory = LeastLongTermMessageRate().initial_memory()
    asked = shed("t/n/y0", "b2")
    found = select_as_leader(asked, ["b2", "b3"], chooser, memory, UNEVEN)
    assert found.placement.admissible == ("b2", "b3")


def test_chance_picks_among_the_equally_good() -> None:
    picks = {chosen(shed("t/m/z0", "b1"), rng=Random(seed)).broker for seed in range(20)}
    assert picks == {"b2", "b3"}


def test_bundles_of_a_namespace_whose_name_begins_alike_are_not_counted() -> None:
    alike = [*bundles("a", 1, 1, namespace="t/n/m"), *bundles("b", 1, 1, namespace="t/n0"),
             *bundles("c", 1, 1, namespace="t/n-")]  # fmt: skip
    view = snapshot({"b1": alike, "b2": bundles("y", 1)}).view
    chooser = Chooser(LeastLongTermMessageRate(), view, PlacementOptions())
    memory = LeastLongTermMessageRate().initial_memory()
    for bundle, fewest in (("t/n/y0", "b1"), ("t/n/m/a0", "b2"), ("t/n0/b0", "b2")):
        asked = shed(bundle, "b1")
        found = select_as_leader(asked, view.brokers, chooser, memory, FilterOptions())
        assert found.placement.admissible == (fewest,)
