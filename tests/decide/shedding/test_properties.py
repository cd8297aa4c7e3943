"""What holds for every strategy and every cluster, and that each agrees with its slow twin."""

import copy
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.load.fields import LoadDataError
from tests.decide.shedding import twins
from tests.decide.shedding.clusters import Line, chosen, plan, run
from tests.decide.shedding.strategies import lines, odd, shuffled

FEW = settings(deadline=None, max_examples=40)

MODULAR = ["OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder"]
KEEN: dict[str, dict[str, object]] = {
    "OverloadShedder": {},
    "ThresholdShedder": {
        "lowerBoundarySheddingEnabled": "true",
        "loadBalancerBundleUnloadMinThroughputThreshold": 0.001,
    },
    "UniformLoadShedder": {},
    "AvgShedder": {"loadBalancerAvgShedderHitCountHighThreshold": 1},
}


@pytest.mark.parametrize("strategy", MODULAR)
@FEW
@given(lines(odd), st.integers(0, 2**32))
def test_no_plan_depends_on_the_order_of_its_input(strategy: str, data: Line, seed: int) -> None:
    first = plan(strategy, data, **KEEN[strategy])
    again = plan(strategy, shuffled(copy.deepcopy(data), Random(seed)), **KEEN[strategy])
    # As text: a NaN is not equal to itself.
    assert repr(first.to_json()) == repr(again.to_json())
    assert repr(first.memory) == repr(again.memory)


@pytest.mark.parametrize("strategy", MODULAR)
@FEW
@given(lines(odd))
def test_only_known_bundles_of_the_broker_that_may_move_are_chosen(
    strategy: str, data: Line
) -> None:
    made = plan(strategy, data, **KEEN[strategy])
    pairs = [(d.source, d.bundle) for d in made.decisions]
    assert len(pairs) == len(set(pairs))
    for source, bundle in pairs:
        assert bundle in data["bundleData"]
        assert bundle in data["brokerData"][source]["localData"]["bundles"]
        assert bundle not in data["recentlyUnloadedBundles"]
        assert not bundle.startswith("pulsar/host")


@FEW
@given(lines(odd))
def test_overload_agrees_with_its_twin(data: Line) -> None:
    assert chosen(plan("OverloadShedder", data)) == twins.overload(data)


@FEW
@given(st.lists(lines(), min_size=1, max_size=4), st.booleans())
def test_threshold_agrees_with_its_twin(data: list[Line], lower: bool) -> None:
    made = run(
        "ThresholdShedder",
        data,
        lowerBoundarySheddingEnabled=str(lower).lower(),
        loadBalancerBundleUnloadMinThroughputThreshold=0.001,
    )
    past: dict[str, float] = {}
    for each, found in zip(data, made, strict=True):
        assert chosen(found) == twins.threshold(each, past, 0.001, lower)
        assert found.memory.usage == past


@FEW
@given(lines())
def test_uniform_agrees_with_its_twin(data: Line) -> None:
    assert chosen(plan("UniformLoadShedder", data)) == twins.uniform(data)


@FEW
@given(st.lists(lines(), min_size=1, max_size=5))
def test_avg_agrees_with_its_twin(data: list[Line]) -> None:
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    for each, found in zip(data, run("AvgShedder", data), strict=True):
        assert chosen(found) == twins.avg(each, low, high)
        assert (found.memory.low_hits, found.memory.high_hits) == (low, high)


@pytest.mark.parametrize(
    ("strategy", "memory", "message"),
    [
        ("AvgShedder", {"lowHits": 3}, "memory.lowHits: expected an object, got int 3"),
        ("ThresholdShedder", {"usage": {"b1": "x"}}, "memory.usage['b1']: expected a number"),
        ("TransferShedder", {"hits": 1.5}, "memory.hits: expected a whole number"),
        (
            "Counterpoise",
            {"bundles": ["a", "b"], "tracks": {"level": "AAAA"}},
            "memory.tracks.level: expected a column of float32 for 2 bundles, got 'AAAA'",
        ),
        ("Counterpoise", {"ill": {"b1": "long"}}, "memory.ill['b1']: expected a whole number"),
    ],
)
def test_a_memory_that_cannot_be_read_is_refused_by_the_name_of_its_field(
    strategy: str, memory: object, message: str
) -> None:
    with pytest.raises(LoadDataError) as refused:
        SHEDDERS[strategy].memory_from_json(memory)
    assert str(refused.value).startswith(message)


def test_a_plan_leaves_its_input_alone() -> None:
    shedder: Any = SHEDDERS["AvgShedder"]
    memory = shedder.memory_from_json({"lowHits": {"b0:8080": 3}, "highHits": {"b0:8080": 1}})
    view = shedder.view.from_load_data({"now": 0, "brokerData": {}, "bundleData": {}})
    shedder.plan(view, memory, shedder.options(), 0, Random(0))
    assert memory.low_hits == {"b0:8080": 3}
