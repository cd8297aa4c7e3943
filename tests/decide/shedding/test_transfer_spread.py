"""When loads count as uneven: hits, averages, deviations, outliers, and how old they may be."""

import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.decide.shedding.candidates import ascending
from tests.decide.shedding.transfer_cluster import (
    BASE,
    D1,
    E1,
    NOW,
    OPTIONS,
    UNDERLOADED,
    Found,
    M,
    Setup,
    bundle_name,
    found,
    move,
    name,
    near,
    plan,
    stopped,
    top,
)


def test_even_enough_counts_no_hit() -> None:
    """testTargetStd."""
    tops = {1: top("A", 30, 30), 2: top("B", 40, 40), 3: top("C", 50, 50)}
    setup = Setup({1: 10, 2: 20, 3: 30}, {})
    setup.tops = tops
    made = setup.plan()
    assert stopped(made) == ["HitCount"]
    assert made.figures == {"average": 0.2000000063578288, "std": 0.08164966587949089}
    assert made.memory.hits == 0


@pytest.mark.parametrize(
    ("broker2", "average", "std", "more"),
    [
        ({}, 0.26400000000000007, 0.27644891028904417, set()),  # testTargetStdAfterTransfer
        (
            {"msg_throughput_ema": 10.0},  # testMinBrokerWithLowTraffic
            0.26400000000000007,
            0.27644891028904417,
            move(4, D1, 2, UNDERLOADED),
        ),
        (
            {"percent": 3.0},  # testMinBrokerWithLowerLoadThanAvg
            0.262,
            0.2780935094532054,
            move(4, D1, 2, UNDERLOADED),
        ),
    ],
)
def test_a_broker_far_below_is_filled_though_the_deviation_is_fine(
    broker2: dict[str, float], average: float, std: float, more: Found
) -> None:
    setup = Setup()
    setup.cpu(2, broker2.pop("percent", 4.0))
    setup.loads[2] = replace(setup.loads[2], **broker2)  # type: ignore[arg-type]
    setup.cpu(4, 55)
    setup.cpu(5, 65)
    made = setup.plan()
    assert found(made) == move(5, E1, 1) | more
    assert (made.figures["average"], made.figures["std"]) == (near(average), near(std))


def test_the_call_after_the_hit_count_acts() -> None:
    """testLoadBalancerSheddingConditionHitCountThreshold."""
    view, options = Setup().view(), replace(OPTIONS, hit_count_threshold=3)
    hits = 0
    for call in range(1, 4):
        made = plan(view, options, hits)
        assert stopped(made) == ["HitCount"]
        assert made.rejections[0].value == call
        hits = made.memory.hits
    made = plan(view, options, hits)
    assert found(made) == BASE
    assert made.memory.hits == 0


def test_loads_above_the_limit_are_compared_as_they_are() -> None:
    """testLoadMoreThan100."""
    setup = Setup()
    setup.cpu(4, 200)
    setup.cpu(5, 1000)
    made = setup.plan()
    assert found(made) == BASE
    assert made.figures == {
        "average": 2.4240000000000004,
        "std": 3.8633332758124816,
        "stdAfter": 2.781643776903451,
    }


def test_random_loads_end_even_or_without_anybody_left() -> None:
    """testRandomLoad."""
    rng = Random(7)
    for _ in range(5):
        loads = {i: float(rng.randrange(1000)) for i in range(10)}
        tops = {}
        for number, load in loads.items():
            part = float(rng.randrange(int(load) + 1))
            tops[number] = top("ABCDEFGHIJ"[number], part, load - part)
        made = Setup(loads, tops).plan(replace(OPTIONS, max_brokers_per_cycle=99))
        pairs = {frozenset((d.source, str(d.destination))) for d in made.decisions}
        # A pair that moved something uses up both its brokers, one that did not the busier one.
        used_up = 2 * len(pairs) + len(made.rejections) >= len(loads) - 1
        assert made.figures["stdAfter"] <= 0.25 or used_up
        assert made.figures["stdAfter"] < made.figures["std"]


def outliers(count: int, rest: float, special: dict[int, float]) -> Setup:
    cpus = {i: special.get(i, rest) for i in range(count)}
    tops = {i: top(str(i), cpu * 0.3 * M, cpu * 0.7 * M) for i, cpu in cpus.items()}
    return Setup(cpus, tops)


def test_one_busy_broker_among_a_hundred_idle_ones_sheds() -> None:
    """testOverloadOutlier: the hundred-fold load is not above the deviation, but is noticed."""
    made = outliers(100, 1.0, {99: 100.0}).plan()
    assert made.figures["average"] == pytest.approx(0.019900000000000008, abs=1e-5)
    assert made.figures["std"] == pytest.approx(0.09850375627355534, abs=1e-5)
    # Any of the 99 equals may be the target; ours is the first by name.
    assert found(made) == {(name(99), bundle_name("99", 0), name(0), UNDERLOADED)}


def test_one_idle_broker_among_a_hundred_busy_ones_is_filled() -> None:
    """testUnderloadOutlier."""
    made = outliers(100, 98.0, {98: 99.0, 99: 1.0}).plan()
    assert made.figures["average"] == pytest.approx(0.9704000000000005, abs=1e-5)
    assert made.figures["std"] == pytest.approx(0.09652895938523735, abs=1e-5)
    assert found(made) == {(name(98), bundle_name("98", 0), name(99), UNDERLOADED)}


@pytest.mark.parametrize(
    ("loads", "average", "std"),
    [
        ([1] + [100] * 16, 0.9417647058823528, 0.23294117647058868),  # testHighVarianceLoadStats
        (list(range(390, 400)), 3.9449999999999994, 0.028722813232795824),  # testLowVariance...
    ],
)
def test_average_and_deviation(loads: list[float], average: float, std: float) -> None:
    made = Setup(dict(enumerate(loads)), {}).plan(replace(OPTIONS, hit_count_threshold=9))
    assert made.figures["average"] == pytest.approx(average, rel=1e-12)
    assert made.figures["std"] == pytest.approx(std, rel=1e-9)


def test_loads_whose_squares_overflow_are_no_reason_to_complain() -> None:
    """The deviation is not a number, which is never above the target, as in Java."""
    setup = Setup({1: 50, 2: 100}, {1: top("A", 1, 2), 2: top("B", 3, 4)})
    view = replace(setup.view(), load=np.array([1e300, 1.5e300]))
    made = plan(view, replace(OPTIONS, hit_count_threshold=9))
    assert made.figures["average"] == 1.25e300
    assert not made.figures["std"] > OPTIONS.target_std


def test_old_loads_are_left_out_of_the_average() -> None:
    setup = Setup()
    setup.loads[1] = replace(setup.loads[1], updated_at=0)
    assert setup.plan().figures["average"] == near((0.04 + 0.06 + 0.8 + 0.9) / 4)


@pytest.mark.parametrize(
    ("now", "updated", "rules"),
    [
        (NOW, [NOW - 1_800_000, NOW], ["NoBundles"]),
        (NOW, [NOW - 1_800_001, NOW - 1_800_001], ["OutDatedData"]),
        (NOW, [NOW + 1, NOW + 2**40], ["NoBundles"]),
        (NOW, [-(2**63), -(2**63)], ["NoBundles"]),
        (0, [0, 0], ["NoBundles"]),
        (-5, [-5, -5], ["NoBundles"]),
        (-5, [2**63 - 1, 2**63 - 1], ["OutDatedData"]),
    ],
)
def test_ages_wrap_around_as_in_java(now: int, updated: list[int], rules: list[str]) -> None:
    view = Setup({1: 10, 2: 100}, {1: top("A"), 2: top("B", 9 * M, 9 * M)}).view()
    view = replace(view, now_ms=now, updated_at=np.array(updated, np.int64))
    assert stopped(plan(view)) == rules


neighbours = st.sampled_from(
    [step for at in (-2.0, -1.0, 1.0, 2.0) for step in (at, np.nextafter(at, 9), 0.0, -0.0)]
)


@given(st.lists(st.floats() | neighbours | st.sampled_from([np.nan, -np.nan])))
def test_loads_rank_as_doubles_compare_in_java(values: list[float]) -> None:
    """NaN is the largest, whatever its sign; 0.0 is above -0.0; equals stay in their order."""

    def key(row: int) -> tuple[bool, float, float]:
        value = values[row]
        return (True, 0.0, 0.0) if np.isnan(value) else (False, value, math.copysign(1.0, value))

    assert ascending(np.array(values, float)).tolist() == sorted(range(len(values)), key=key)
