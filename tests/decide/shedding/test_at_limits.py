"""Shedders exactly at each of their limits, and one step to its other side."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from counterpoise.decide.plan import StrategyPlan
from counterpoise.decide.shedding.options import TransferOptions
from counterpoise.decide.shedding.transfer import TransferMemory, TransferShedder
from counterpoise.load import java_int
from counterpoise.load.store_view import BundleRules, LoadStoreView
from tests.decide.shedding.clusters import MIB, Line, broker, bundle, line, run


def brokers_at(
    *cpus: float, rates: tuple[float, ...] = (), bytes_s: tuple[float, ...] = ()
) -> Line:
    """Brokers of these percentages, messages/s and bytes/s, each with two small bundles."""
    names = {f"b{row}:1": [f"t/{row}/0", f"t/{row}/1"] for row in range(len(cpus))}
    made = {
        name: broker(
            names[name],
            cpu=cpus[row],
            rate=(rates or (0.0,) * len(cpus))[row] / 2,
            throughput=(bytes_s or (0.0,) * len(cpus))[row] / 2,
        )
        for row, name in enumerate(names)
    }
    small = {each: bundle(rate=1, throughput=1) for its in names.values() for each in its}
    return line(made, small)


FREE = {"minUnloadMessage": 0, "minUnloadMessageThroughput": 0}
HALF = {"maxUnloadPercentage": 0.5}
QUICK = {"loadBalancerAvgShedderHitCountHighThreshold": 1}
RATE_OFF = {"loadBalancerMsgRateDifferenceShedderThreshold": 0}
LOWER = {
    "lowerBoundarySheddingEnabled": "true",
    "loadBalancerHistoryResourcePercentage": 0.5,
    "loadBalancerBrokerThresholdShedderPercentage": 25,
    "loadBalancerBundleUnloadMinThroughputThreshold": 0,
}
"""Half of the past and half of the present: what stays the same stays exactly the same."""


def above(percent: int, floor_mib: float = 0.0) -> dict[str, object]:
    return {
        "loadBalancerBrokerThresholdShedderPercentage": percent,
        "loadBalancerBundleUnloadMinThroughputThreshold": floor_mib,
    }


APART = brokers_at(75, 25, bytes_s=(20 * MIB, 0))
"""A quarter above their mean, and a quarter below it: at 25 % a twentieth of 20 MiB/s goes."""


@pytest.mark.parametrize(
    ("strategy", "data", "settings", "moves"),
    [
        ("ThresholdShedder", APART, above(25), True),
        ("ThresholdShedder", APART, above(26), False),
        ("ThresholdShedder", APART, above(25, 1.0), True),
        ("ThresholdShedder", APART, above(25, 1.0001), False),
        ("ThresholdShedder", brokers_at(25, 50, 62.5, 62.5), LOWER, False),
        ("ThresholdShedder", brokers_at(24, 50, 62.5, 62.5), LOWER, True),
        ("UniformLoadShedder", brokers_at(0, 0, rates=(1500, 1000)), FREE, False),
        ("UniformLoadShedder", brokers_at(0, 0, rates=(1502, 1000)), FREE, True),
        ("UniformLoadShedder", brokers_at(0, 0, bytes_s=(4000, 1000)), FREE, False),
        ("UniformLoadShedder", brokers_at(0, 0, bytes_s=(4002, 1000)), FREE, True),
        ("UniformLoadShedder", brokers_at(0, 0, rates=(3000, 1000)), HALF, True),
        ("UniformLoadShedder", brokers_at(0, 0, rates=(2998, 1000)), HALF, False),
        # 999.9 messages/s are 999 in whole numbers, as Java cuts them.
        ("UniformLoadShedder", brokers_at(0, 0, rates=(2999.8, 1000)), HALF, False),
        ("AvgShedder", brokers_at(90, 10, rates=(2000, 0)), HALF | QUICK, False),
        ("AvgShedder", brokers_at(90, 10, rates=(2002, 0)), HALF | QUICK, True),
        ("AvgShedder", brokers_at(90, 10, bytes_s=(2 * MIB, 0)), HALF | QUICK, False),
        ("AvgShedder", brokers_at(90, 10, bytes_s=(2 * MIB + 2, 0)), HALF | QUICK, True),
        ("AvgShedder", brokers_at(50, 10, rates=(9000, 0)), QUICK, True),
        ("AvgShedder", brokers_at(49.9, 10, rates=(9000, 0)), QUICK, False),
    ],
)
def test_a_modular_strategy_at_a_limit(
    strategy: str, data: Line, settings: dict[str, object], moves: bool
) -> None:
    assert bool(run(strategy, [data], **settings)[0].decisions) is moves


@pytest.mark.parametrize(
    ("value", "cut"), [(1.9, 1), (-1.9, -1), (float("nan"), 0), (3e9, 2**31 - 1), (-3e9, -(2**31))]
)
def test_a_number_is_cut_to_an_int_as_in_java(value: float, cut: int) -> None:
    assert java_int.cast(value) == cut


def test_what_was_planned_for_other_bundles_before_stays_planned() -> None:
    def uneven(name: str, rate: float) -> Line:
        full = broker([name], cpu=95, rate=9_000)
        return line({"a:1": full, "b:1": broker(cpu=5)}, {name: bundle(rate=rate)})

    first, second = run("AvgShedder", [uneven("t/n/0", 800), uneven("t/n/1", 700)], **QUICK)
    assert len(first.memory.destinations) == 1
    assert second.memory.destinations.items() > first.memory.destinations.items()


@pytest.mark.parametrize(("gap", "kind"), [(20.0, "Low"), (60.0, "High")])
def test_a_pair_that_waits_names_its_longer_count_and_the_limit_of_its_gap(
    gap: float, kind: str
) -> None:
    """``b`` has been in an uneven pair twice, the broker that it is paired with now never."""
    limits = {
        "loadBalancerAvgShedderHitCountLowThreshold": 7,
        "loadBalancerAvgShedderHitCountHighThreshold": 5,
    }
    before = line({"a:1": broker(cpu=20 + gap), "b:1": broker(cpu=20), "c:1": broker(cpu=30)}, {})
    after = line({"a:1": broker(cpu=30), "b:1": broker(cpu=20), "c:1": broker(cpu=20 + gap)}, {})
    [why] = run("AvgShedder", [before, before, after], **limits)[2].rejections
    assert (why.subject, why.value) == ("c:1", 3.0)
    assert why.setting == f"loadBalancerAvgShedderHitCount{kind}Threshold"
    assert why.limit == {"Low": 7.0, "High": 5.0}[kind]
    assert f"c:1 is {gap:.1f} points above b:1" in why.sentence


NOW = 1_700_000_000_000
SWAP = TransferOptions(hit_count_threshold=0, target_std=0.1)


def two(
    busy: dict[str, float],
    idle: dict[str, float],
    bytes_s: tuple[float, float] = (8.0, 2.0),
    loads: tuple[float, float] = (0.5, 0.25),
    **more: Any,
) -> LoadStoreView:
    """A broker at half of its resources and one at a quarter: a quarter of 8 B/s may go."""
    return LoadStoreView(
        NOW,
        ("a:1", "b:1"),
        np.array(loads),
        np.array(bytes_s),
        np.array([1.0, 1.0]),
        np.array([NOW, NOW]),
        (tuple(busy.items()), tuple(idle.items())),
        (),
        more.pop("recently_unloaded", frozenset()),
        more.pop("unloaded_brokers", {}),
        **more,
    )


def moved(view: LoadStoreView, options: TransferOptions = SWAP) -> list[str]:
    return [each.bundle for each in transfer(view, options).decisions]


def transfer(
    view: LoadStoreView, options: TransferOptions = SWAP, hits: int = 0
) -> StrategyPlan[TransferMemory]:
    return TransferShedder().plan(view, TransferMemory(hits), options, NOW, Random(0))


def test_a_bundle_as_large_as_what_may_go_goes() -> None:
    assert moved(two({"x": 2.0, "y": 6.0}, {})) == ["x"]
    assert moved(two({"x": 2.01, "y": 5.99}, {})) == []


def test_the_last_listed_bundle_stays_though_it_would_fit() -> None:
    assert moved(two({"x": 0.5, "y": 0.5}, {})) == ["x"]


def test_a_swap_has_to_bring_the_busier_below_three_quarters() -> None:
    """Of 8 B/s 4 go, so that less than 2 may come back."""
    assert moved(two({"x": 4.0, "y": 4.0}, {"back": 2.0})) == []
    assert moved(two({"x": 4.0, "y": 4.0}, {"back": 1.99})) == ["back", "x"]
    assert (
        moved(two({"x": 4.0, "y": 4.0}, {"back": 1.99}), replace(SWAP, transfer_enabled=False))
        == []
    )


def test_a_bundle_that_another_broker_owns_stays() -> None:
    busy = {"x": 0.5, "y": 0.5, "z": 7.0}
    owners = {"x": "b:1", "y": "a:1", "z": "a:1"}
    assert moved(two(busy, {}, rules=BundleRules(owners=owners))) == ["y"]


def test_loads_that_deviate_exactly_as_much_as_they_may_are_even() -> None:
    view = two({"x": 1.0, "y": 7.0}, {}, loads=(0.75, 0.25))
    assert moved(view, replace(SWAP, target_std=0.25)) == []
    assert moved(view, replace(SWAP, target_std=0.249)) == ["x"]


@pytest.mark.parametrize(("elapsed_ms", "cooled"), [(180_000, ("a:1",)), (179_999, ())])
def test_a_broker_has_cooled_down_once_its_delay_is_over(
    elapsed_ms: int, cooled: tuple[str, ...]
) -> None:
    view = two({"x": 1.0, "y": 7.0}, {}, unloaded_brokers={"a:1": NOW - elapsed_ms})
    made = transfer(view, hits=2)
    assert made.memory.cooled == cooled
    assert bool(made.decisions) is bool(cooled)
    if not cooled:
        assert made.memory.hits == 2, "a call that waits counts nothing and forgets nothing"


def test_load_data_is_too_old_after_its_time_and_the_newest_of_it_is_named() -> None:
    def view(*ages_ms: int) -> LoadStoreView:
        made = two({"x": 1.0, "y": 7.0}, {}, unloaded_brokers={"c:1": 0})
        return replace(made, updated_at=NOW - np.array(ages_ms))

    assert moved(view(1_800_000, 1_800_000)) == ["x"]
    assert transfer(view(1_800_001, 1_800_000)).figures["average"] == 0.25
    [why] = transfer(view(5_000_000, 2_000_000)).rejections
    assert "the newest load data is 2,000 s old; after 1,800 s it says nothing" in why.sentence


@pytest.mark.parametrize(
    "rules", [{"with_policies": frozenset(["back"])}, {"allowed": {"back": frozenset(["b:1"])}}]
)
def test_what_may_not_return_is_not_swapped(rules: dict[str, Any]) -> None:
    busy = {"x": 4.0, "y": 4.0}
    first = two(busy, {"back": 1.5, "also": 1.9}, rules=BundleRules())
    assert moved(first) == ["back", "x"]
    assert moved(replace(first, rules=BundleRules(**rules))) == ["also", "x"]
    assert moved(two(busy, {"none": 0.0, "back": 1.9})) == ["back", "x"], "that carries nothing"
    free = replace(SWAP, bundles_with_policies=True)
    policy = replace(first, rules=BundleRules(with_policies=frozenset(["back", "x"])))
    assert moved(policy) == ["also", "y"]
    assert moved(policy, free) == ["back", "x"]


def test_one_broker_that_is_uneven_by_what_is_asked_has_nowhere_to_move_anything() -> None:
    lonely = replace(SWAP, target_std=-1.0)
    view = two({"x": 1.0, "y": 7.0}, {})
    alone = LoadStoreView(
        NOW, view.brokers[:1], view.load[:1], view.throughput[:1], view.throughput_average[:1],
        view.updated_at[:1], view.top[:1], (), frozenset(), {},
    )  # fmt: skip
    [why] = transfer(alone, lonely).rejections
    assert why.sentence.endswith("there is only one broker: nowhere to move anything")
    [why] = transfer(view, replace(SWAP, max_brokers_per_cycle=0)).rejections
    assert "= 0 lets no broker shed" in why.sentence
