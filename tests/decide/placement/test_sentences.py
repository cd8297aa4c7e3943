"""What placements say for themselves, whatever the load data: true, whole, in words."""

import re
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.decide.placement.least_resource_usage import place_by_store_usage
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.load.view import ClusterView
from tests.decide.shedding.strategies import lines, odd

strategies = pytest.mark.parametrize("name", PLACEMENTS)


def plain(sentence: str) -> None:
    assert len(sentence) > 10
    assert not re.search(r"\b(nan|NaN|inf|None)\b|[{}]", sentence), sentence


@strategies
@given(data=st.data(), seed=st.none() | st.integers(0, 9))
def test_every_word_of_a_placement_holds(name: str, data: st.DataObject, seed: int | None) -> None:
    strategy: Any = PLACEMENTS[name]
    view = ClusterView.from_load_data(data.draw(lines(odd)))
    known = st.sampled_from([*view.brokers, "gone:1"])
    candidates = data.draw(st.lists(known, unique=True))
    bundle = data.draw(st.sampled_from([*view.bundles, "t/n/0x00000000_0xffffffff"]))
    options, rng = PlacementOptions(), None if seed is None else Random(seed)
    memory = strategy.initial_memory()
    for _ in range(2):
        placed = strategy.place(bundle, candidates, view, memory, options, rng)
        plain(placed.reason)
        assert (placed.broker in placed.admissible) or placed.broker is None
        if placed.broker is None:
            assert placed.admissible == ()
            reported = any(each in view.row_of for each in candidates)
            assert ("has sent a load report" in placed.reason) == (
                bool(candidates) and not reported
            )
        for each in placed.rejections:
            plain(each.sentence)
            assert each.setting in each.sentence
            assert each.subject not in placed.admissible or each.rule == "overloaded"
            if each.rule == "not_below_average" and each.value == each.value:
                assert not each.value < each.limit
        memory = strategy.memory_from_json(placed.memory.to_json())
        assert repr(memory) == repr(placed.memory)


@given(st.dictionaries(st.sampled_from("abcd"), st.floats()), st.lists(st.sampled_from("abcde")))
def test_every_word_of_the_extensible_placement_holds(
    usage: dict[str, float], candidates: list[str]
) -> None:
    placed = place_by_store_usage(list(dict.fromkeys(candidates)), usage, PlacementOptions())
    plain(placed.reason)
    for each in placed.rejections:
        plain(each.sentence)


def test_a_bundle_that_stays_says_why() -> None:
    names = [f"t/n/0x0000000{i}_0x0000000{i + 1}" for i in range(1)]
    average = {"msgThroughputIn": 1e6, "maxSamples": 10, "numSamples": 1}
    local = {"cpu": {"usage": 50, "limit": 100}, "bundles": names, "msgThroughputIn": 1e6}
    view = ClusterView.from_load_data(
        {
            "now": 0,
            "brokerData": {
                "a:1": {"localData": local},
                "b:1": {"localData": {"cpu": {"usage": 20, "limit": 100}}},
            },
            "bundleData": {names[0]: {"shortTermData": average, "longTermData": average}},
        }
    )
    strategy: Any = PLACEMENTS["LeastUsage"]
    placed = strategy.place(names[0], ["b:1"], view, None, PlacementOptions())
    assert (placed.broker, placed.rule) == (None, "no-gain")
    assert "even b:1, the best place for it, would then be used 70.0%, no less" in placed.reason


def every_usage(value: float | str) -> dict[str, Any]:
    kinds = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
    return {kind: {"usage": value, "limit": 100} for kind in kinds}


def view_of(**usages: float | str) -> ClusterView:
    brokers = {f"{each}:1": {"localData": every_usage(use)} for each, use in usages.items()}
    return ClusterView.from_load_data({"now": 0, "brokerData": brokers, "bundleData": {}})


def test_none_is_least_used_where_none_reports_usage() -> None:
    strategy: Any = PLACEMENTS["LeastUsage"]
    view = view_of(a="NaN", b="NaN")
    placed = strategy.place("t/n/x", ["a:1", "b:1"], view, None, PlacementOptions())
    assert placed.reason == "no candidate reports usage that is a number; any will do"


def test_who_reports_no_number_is_not_said_to_use_too_much() -> None:
    usages = {"a": 0.1, "b": 0.9, "c": float("nan")}
    placed = place_by_store_usage(list(usages), {**usages, "c": 0.8}, PlacementOptions())
    assert {each.subject: each.rule for each in placed.rejections}["b"] == "not_below_average"
    view = view_of(a=10.0, b=90.0, c="NaN")
    strategy: Any = PLACEMENTS["LeastResourceUsageWithWeight"]
    placed = strategy.place(
        "t/n/x", ["a:1", "b:1", "c:1"], view, strategy.initial_memory(), PlacementOptions()
    )
    for each in placed.rejections:
        assert "[" not in each.sentence, each.sentence


def test_the_least_rate_names_the_limit_that_left_others_out() -> None:
    view = view_of(a=90.0, b=10.0)
    strategy: Any = PLACEMENTS["LeastLongTermMessageRate"]
    for percent, chosen in ((85, "b:1"), (95, "a:1")):
        options = PlacementOptions(overloaded_threshold_percentage=percent)
        placed = strategy.place("t/n/x", ["a:1", "b:1"], view, None, options)
        assert placed.broker == chosen
        assert "(loadBalancerBrokerOverloadedThresholdPercentage)" in placed.reason


def test_who_reports_no_figure_is_not_taken_for_idle() -> None:
    usages = {"a:1": "NaN", "b:1": 80.0}
    view = ClusterView.from_load_data(
        {
            "now": 0,
            "brokerData": {
                name: {
                    "localData": {
                        each: {"usage": usage, "limit": 100}
                        for each in ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
                    }
                }
                for name, usage in usages.items()
            },
            "bundleData": {},
        }
    )
    strategy: Any = PLACEMENTS["LeastUsage"]
    assert strategy.place("t/n/x", ["a:1", "b:1"], view, None, PlacementOptions()).broker == "b:1"
