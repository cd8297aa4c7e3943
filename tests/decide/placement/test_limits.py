"""Placement exactly at its limits, what it keeps of former choices, and the figures it names."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.memory import NO_MEMORY, Memoryless, NoMemory
from counterpoise.decide.placement.least_resource_usage import place_by_store_usage
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.decide.placement.only import Only
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.placement.selection import Chooser, Surroundings, select_modular
from counterpoise.decide.placement.strategy import Candidates, Placement, no_candidate
from counterpoise.load.view import ClusterView
from tests.decide.placement.test_least_usage import COOL, HOT, placed, view
from tests.decide.placement.views import view_of

DEFAULTS = PlacementOptions()
BUNDLE = "t/n/0x00000000_0x80000000"


@pytest.mark.parametrize(("margin", "admissible"), [(25, ("a",)), (26, ("a", "b"))])
def test_a_broker_exactly_the_margin_below_the_average_is_preferred(
    margin: int, admissible: tuple[str, ...]
) -> None:
    options = PlacementOptions(average_difference_percentage=margin)
    made = place_by_store_usage(["a", "b"], {"a": 0.25, "b": 0.75}, options)
    assert made.admissible == admissible
    if margin == 25:
        assert [each.sentence for each in made.rejections] == [
            "b uses 75 %, more than 25 % "
            "(loadBalancerAverageResourceUsageDifferenceThresholdPercentage below average)"
        ]


@pytest.mark.parametrize(("usage", "chosen"), [(50.0, None), (49.0, "h2:1")])
def test_a_move_that_only_swaps_two_brokers_is_no_gain(usage: float, chosen: str | None) -> None:
    """Three quarters of 64 % are 48: with 16 % of its own the other one would be as full."""
    seen = view(["h1:1", "h2:1"], [64.0, usage - 34.0], [900.0, 0.0])
    assert placed(HOT, seen).broker == chosen


def test_a_host_is_as_full_as_the_fullest_of_its_brokers() -> None:
    seen = view(["h1:1", "h2:1", "h2:2", "h3:1"], [90.0, 20.0, 60.0, 40.0], [900.0, 0.0, 0.0, 0.0])
    assert placed(COOL, seen).broker == "h3:1"


def test_a_bundle_uses_no_more_than_all_of_its_broker() -> None:
    """Its figures are older than those of its broker, which carries less by now."""
    seen = view(["h1:1", "h2:1"], [60.0, 10.0], [900.0, 0.0])
    traffic = replace(seen.broker.traffic, throughput_in=np.array([300.0, 0.0]))
    seen = replace(seen, broker=replace(seen.broker, traffic=traffic))
    assert "would then be used 70.0%" in placed(HOT, seen).reason


def test_a_bundle_with_one_destination_goes_there_or_nowhere() -> None:
    only = Only("b2", "a person said so")
    found = only.place(BUNDLE, ["b1", "b2"], view_of({}), None, DEFAULTS)
    assert (found.broker, found.reason) == ("b2", "a person said so")
    assert only.place(BUNDLE, ["b1"], view_of({}), None, DEFAULTS).broker is None


def test_avg_shedder_remembers_what_it_planned_for_other_bundles() -> None:
    avg: Any = PLACEMENTS["AvgShedder"]
    seen = view_of({"1": {}, "2": {}}, {BUNDLE: 5.0, "t/n/other": 7.0})
    first = avg.place(BUNDLE, ["1"], seen, avg.initial_memory(), DEFAULTS)
    second = avg.place("t/n/other", ["2"], seen, first.memory, DEFAULTS)
    third = avg.place(BUNDLE, ["1", "2"], seen, second.memory, DEFAULTS)
    assert (third.broker, third.rule) == ("1", "planned")


def test_avg_shedder_distinguishes_bundles_by_their_topics() -> None:
    avg: Any = PLACEMENTS["AvgShedder"]
    seen = view_of({"1": {}, "2": {}}, {BUNDLE: 5.0, "t/n/twin": 5.0})
    apart = replace(seen, bundle=replace(seen.bundle, topics=np.array([1, 2])))
    planned = avg.place(BUNDLE, ["1"], apart, avg.initial_memory(), DEFAULTS).memory
    assert avg.place("t/n/twin", ["1", "2"], apart, planned, DEFAULTS).rule == "unplanned"


def test_avg_shedder_takes_a_broker_that_has_sent_no_report_last() -> None:
    avg: Any = PLACEMENTS["AvgShedder"]
    seen = view_of({"2": {"cpu": 99}})
    assert avg.place(BUNDLE, ["1", "2"], seen, avg.initial_memory(), DEFAULTS).broker == "2"


def test_a_turn_is_numbered_from_one() -> None:
    turns: Any = PLACEMENTS["RoundRobinBrokerSelector"]
    made = turns.place(BUNDLE, ["a", "b"], view_of({}), turns.initial_memory(), DEFAULTS)
    assert made.reason == "it is its turn, number 1 of 2"


def selected(seen: ClusterView, around: Surroundings, strategy: Any) -> Any:
    chooser = Chooser(strategy, seen, DEFAULTS)
    return select_modular(BUNDLE, around, chooser, strategy.initial_memory(), FilterOptions())


@pytest.mark.parametrize(("cpu", "notes"), [(85.0, 0), (86.0, 1)])
def test_a_choice_exactly_at_the_overload_threshold_stands(cpu: float, notes: int) -> None:
    around = Surroundings(["b1", "b2"], namespace_bundles={"b2": 1})
    seen = view_of({"b1": {"cpu": cpu}, "b2": {}})
    assert len(selected(seen, around, PLACEMENTS["RoundRobinBrokerSelector"]).notes) == notes


def test_a_choice_that_is_made_again_goes_on_from_the_first() -> None:
    around = Surroundings(["b1", "b2"], namespace_bundles={"b2": 1})
    seen = view_of({"b1": {"cpu": 99}, "b2": {}})
    found = selected(seen, around, PLACEMENTS["RoundRobinBrokerSelector"])
    assert (found.broker, found.placement.memory.count) == ("b2", 2)


class OnceOnly(Memoryless):
    """Chooses a lone candidate, and none of several."""

    name = "OnceOnly"
    options = PlacementOptions

    def place(
        self,
        bundle: str,
        candidates: Any,
        view: ClusterView,
        memory: NoMemory,
        options: PlacementOptions,
        rng: Random | None = None,
    ) -> Placement[NoMemory]:
        if len(candidates) > 1:
            return no_candidate(NO_MEMORY)
        return Placement(candidates[0], tuple(candidates), "lone", "it is the only one", NO_MEMORY)


def test_an_overloaded_choice_stands_where_the_second_finds_none() -> None:
    around = Surroundings(["b1", "b2"], namespace_bundles={"b2": 1})
    assert selected(view_of({"b1": {"cpu": 99}, "b2": {}}), around, OnceOnly()).broker == "b1"


def test_a_barred_broker_is_left_out_and_the_reason_is_given() -> None:
    around = Surroundings(["b1", "b2"], barred={"b1": "restarts now"})
    seen = view_of({"b1": {"long_rate": 1}, "b2": {"long_rate": 9, "cpu": 99}})
    found = selected(seen, around, PLACEMENTS["LeastLongTermMessageRate"])
    assert found.broker == "b2"
    assert [each.sentence for each in found.outcomes[2].dropped] == ["b1 restarts now"]


def test_candidates_with_their_rows_choose_as_plain_names_do_whatever_view_comes_next() -> None:
    names = ["h1:1", "h2:1", "h3:1"]
    first = view(names, [80.0, 30.0, 60.0], [900.0, 100.0, 100.0])
    usage = np.array(first.broker.usage)
    usage[:, 0] = [80.0, 60.0, 30.0]
    later = replace(first, broker=replace(first.broker, usage=usage))
    other = view(["h0:1", *names], [90.0, 80.0, 60.0, 20.0], [900.0, 0.0, 100.0, 100.0])
    known = Candidates.among(names, first)
    for seen in (first, later, other, first):
        made, plain = (
            LeastUsage().place(COOL, candidates, seen, NO_MEMORY, DEFAULTS)
            for candidates in (known, names)
        )
        assert made == plain
        assert made.broker == ("h2:1" if seen is first else "h3:1")
