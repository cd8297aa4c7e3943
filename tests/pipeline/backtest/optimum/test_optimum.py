"""The yardstick: no assignment is below the floor, and no replay below the proved bound."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.pipeline.backtest.optimum.bound import least_imbalance
from counterpoise.pipeline.backtest.optimum.floor import Windows, least_fullest, windows_of
from counterpoise.pipeline.backtest.optimum.players import frontier
from counterpoise.pipeline.backtest.synthetic import DOMINANT, SyntheticTrace
from tests.pipeline.backtest.test_simulate import Plain

FEW = settings(deadline=None, max_examples=60)
loads = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=6)


def fullest(load: list[float], owners: tuple[int, ...], size: list[float]) -> float:
    """The fullest broker ÷ the mean of an assignment, worked out one by one."""
    carried = [0.0] * len(size)
    mean_size = sum(size) / len(size)
    for each, owner in zip(load, owners, strict=True):
        carried[owner] += each * mean_size / size[owner]
    return max(carried) / (sum(load) / len(size))


@FEW
@given(loads, st.lists(st.sampled_from([1.0, 1.0, 2.0]), min_size=1, max_size=3))
def test_no_assignment_is_below_the_floor(load: list[float], size: list[float]) -> None:
    best = min(
        fullest(load, owners, size) for owners in product(range(len(size)), repeat=len(load))
    )
    assert least_fullest(np.array(load), np.array(size)) <= best + 1e-9


def test_the_floor_is_reached_where_bundles_fit() -> None:
    assert least_fullest(np.array([3.0, 2.0, 2.0, 1.0]), np.ones(2)) == pytest.approx(1.0)
    assert least_fullest(np.array([5.0, 2.0, 1.0]), np.ones(2)) == pytest.approx(1.25)
    assert least_fullest(np.array([2.0, 2.0, 2.0]), np.ones(2)) == pytest.approx(4 / 3)


@FEW
@given(
    st.lists(st.lists(st.floats(0.0, 10.0), min_size=4, max_size=4), min_size=1, max_size=2),
    st.lists(st.integers(0, 1), min_size=4, max_size=4),
    st.integers(0, 2),
)
def test_no_play_with_as_many_moves_is_below_the_bound(
    load: list[list[float]], owners: list[int], moves: int
) -> None:
    """Against every replay of four bundles on two brokers that moves at the windows' edges."""
    spans = len(load)
    parts = [[each / max(sum(span) / 2, 1e-9) for each in span] for span in load]
    windows = Windows(
        np.array(parts),
        np.array([least_fullest(np.array(span), np.ones(2)) for span in parts]),
        np.ones((spans, 2), np.bool_),
        np.ones(2),
        np.array(owners, np.intp),
    )
    best = np.inf
    for count in range(moves + 1):
        for when in combinations(range(spans * 4), count):
            now, total = list(owners), 0.0
            for span in range(spans):
                for bundle in range(4):
                    if span * 4 + bundle in when:
                        now[bundle] = 1 - now[bundle]
                total += fullest(parts[span], tuple(now), [1.0, 1.0]) if sum(parts[span]) else 1.0
            best = min(best, total / spans)
    assert least_imbalance(windows, moves) <= best + 1e-6


def test_more_moves_allow_an_evener_play_and_none_allow_what_there_was() -> None:
    trace = SyntheticTrace("heavy-tailed", 1, 5, 50, 2.0)
    windows = windows_of(trace, 4)
    bounds = [least_imbalance(windows, moves) for moves in (0, 1, 3, 50)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] >= windows.least.mean() - 1e-9
    carried = [np.bincount(trace.owners, each, 5).max() for each in windows.load]
    assert bounds[0] == pytest.approx(np.mean(carried), rel=0.003)


@pytest.mark.parametrize("brokers", [1, 2, 5])
def test_windows_count_load_in_the_mean_of_the_brokers(brokers: int) -> None:
    windows = windows_of(SyntheticTrace("heavy-tailed", 1, brokers, 50, 1.0), 3)
    assert windows.load.sum(axis=1) == pytest.approx([brokers] * 3)
    assert (windows.least >= 1.0).all()


@pytest.mark.parametrize("foresees", [True, False])
def test_a_player_evens_a_constant_load_out_and_rests(foresees: bool) -> None:
    """All of four equal bundles on the first of two brokers: two moves, then nothing to do."""
    trace = Plain([100.0] * 4, [0] * 4, [[True, True]] * 100)
    [point] = frontier(trace, foresees=foresees, prices=(0.01,))
    assert (point.moves, point.moved) == (2, pytest.approx(0.5))
    assert point.imbalance == pytest.approx((2.0 + 99 * 1.0) / 100)


def test_players_are_above_the_bound_and_a_dearer_move_is_made_less_often() -> None:
    trace = SyntheticTrace("giant-bundle", 2, 5, 60, 1.0)
    windows = windows_of(trace, 6)
    for foresees in (True, False):
        points = frontier(trace, foresees=foresees, prices=(1.0, 0.1))
        assert points[0].moves <= points[1].moves
        assert points[1].imbalance <= points[0].imbalance
        for point in points:
            assert point.imbalance >= least_imbalance(windows, point.moves) - 1e-6


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("kind", "shares"), DOMINANT.items())
def test_a_cluster_with_giants_is_as_uneven_as_the_largest(
    kind: str, shares: tuple[float, ...], seed: int
) -> None:
    windows = windows_of(SyntheticTrace(kind, seed, 10, 200, 2.0), 1)
    largest = np.sort(windows.load[0])[::-1]
    assert largest[: len(shares)] == pytest.approx(shares, abs=0.04)
    assert windows.least[0] == pytest.approx(1.387, abs=0.02)
