"""Bundles that are too big for the gap, or too small, halves, and what comes back for them."""

from dataclasses import replace

import pytest

from tests.decide.shedding.transfer_cluster import (
    B1,
    C1,
    FIFTHS,
    OPTIONS,
    Found,
    M,
    Setup,
    bundle_name,
    found,
    move,
    name,
    plan,
    stopped,
    top,
)


def test_a_single_bundle_stays() -> None:
    """testSingleTopBundlesLoadData."""
    setup = Setup()
    setup.tops = {i: top("ABCDE"[i - 1], load) for i, load in enumerate((1, 2, 6, 10, 70), 1)}
    assert set(stopped(setup.plan())) == {"NoBundles"}


def test_bundles_too_big_for_the_gap_stay() -> None:
    """testBundleThroughputLargerThanOffloadThreshold."""
    setup = Setup()
    setup.tops |= {4: top("D", 1e9, 1e9), 5: top("E", 1e9, 1e9)}
    assert found(setup.plan()) == move(3, C1, 1)


def test_bundles_without_traffic_stay() -> None:
    """testZeroBundleThroughput."""
    setup = Setup()
    view = setup.view()
    idle = tuple(tuple((n, 0.0) for n, _ in record or ()) for record in view.top)
    assert set(stopped(plan(replace(view, top=idle)))) == {"NoBundles"}


def test_what_is_too_big_goes_when_enough_comes_back() -> None:
    """testUnloadBundlesGreaterThanTargetThroughput."""
    tops = {
        1: top("A", 1 * M, 2 * M, 3 * M, 4 * M, 5 * M),
        2: top("B", 100 * M, 180 * M, 220 * M, 250 * M, 250 * M),
    }
    made = Setup({1: 10, 2: 1000}, tops).plan()
    expected: Found = set()
    for index in range(3):
        expected |= move(2, bundle_name("B", index, FIFTHS), 1)
    for index in range(4):
        expected |= move(1, bundle_name("A", index, FIFTHS), 2)
    assert found(made) == expected
    assert made.figures["average"] == 5.05
    assert made.figures["std"] == 4.95
    assert made.figures["stdAfter"] == 0.050000004900021836


def test_a_smaller_half_goes_alone() -> None:
    """testUnloadBundlesLessThanTargetThroughputAfterSplit."""
    tops = {1: top("A", 1 * M, 2 * M, 3 * M, 4 * M, 5 * M), 2: top("B", 490 * M, 510 * M)}
    made = Setup({1: 10, 2: 1000}, tops).plan()
    assert found(made) == move(2, B1, 1)
    assert made.figures["stdAfter"] == 0.050000004900021836


def test_halves_too_big_even_with_a_swap_stay() -> None:
    """testSkipBundlesGreaterThanTargetThroughputAfterSplit."""
    tops = {1: top("A", 1, 500 * M), 2: top("B", 500 * M, 500 * M)}
    made = Setup({1: 50, 2: 100}, tops).plan(replace(OPTIONS, target_std=0.20))
    assert stopped(made) == ["NoBundles"]


def test_halves_are_swapped() -> None:
    """testUnloadBundlesGreaterThanTargetThroughputAfterSplit, in debug mode and out of it."""
    setup = Setup({1: 48, 2: 100}, {1: top("A", 2.4 * M, 2.4 * M), 2: top("B", 5 * M, 5 * M)})
    debug, plain = setup.plan(), setup.plan(replace(OPTIONS, debug_mode=False))
    for made in (debug, plain):
        assert [(d.source, d.destination) for d in made.decisions] == [
            (name(1), name(2)),
            (name(2), name(1)),
        ]
        assert "in exchange" in made.decisions[0].sentence
        assert (made.figures["average"], made.figures["std"]) == (0.74, 0.26)
    assert debug.figures["stdAfter"] == 2.5809568279517847e-8
    assert plain.figures["stdAfter"] == pytest.approx(0.24)  # what came back was not counted
    assert stopped(setup.plan(replace(OPTIONS, transfer_enabled=False))) == ["NoBundles"]
