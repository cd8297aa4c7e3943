"""Curves of what was recorded, thinned to what a screen shows, and what was seen since."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.picture.observed import ChangeKind, LoadCurve, OwnerChange
from counterpoise.picture.recorded_load import POINTS_MOST, RecordedLoad, of_broker, of_bundle

BUNDLE = "public/default/0x00000000_0x40000000"


def test_a_few_points_are_shown_as_they_are_and_changes_of_owner_are_listed() -> None:
    times = np.array([10, 20, 30, 40])
    found = of_bundle(BUNDLE, times, ["a", "a", "b", "a"], times * 2.0, times * 3.0)
    assert found.curve == LoadCurve(
        (10, 20, 30, 40), (20.0, 40.0, 60.0, 80.0), (30.0, 60.0, 90.0, 120)
    )
    assert found.changes == (
        OwnerChange(30, BUNDLE, ChangeKind.MOVED, "a", "b"),
        OwnerChange(40, BUNDLE, ChangeKind.MOVED, "b", "a"),
    )


@given(st.integers(0, 2**32), st.integers(POINTS_MOST + 1, 3 * POINTS_MOST), st.floats(0.2, 12))
def test_many_points_become_means_in_order(seed: int, count: int, magnitude: float) -> None:
    steps = np.random.default_rng(seed).pareto(1.0, count) * 10**magnitude
    at = np.unique(np.minimum(steps.cumsum(), 1e15).astype(np.int64))
    curve = of_broker(at, np.full(len(at), 7.0), np.arange(len(at), dtype=float)).curve
    assert 1 <= len(curve.times_ms) <= POINTS_MOST
    assert list(curve.times_ms) == sorted(set(curve.times_ms))
    assert at[0] <= curve.times_ms[0]
    assert curve.times_ms[-1] <= at[-1]
    assert set(curve.bytes_per_s) == {7.0}
    assert list(curve.messages_per_s) == sorted(curve.messages_per_s)  # type: ignore[type-var]


def test_what_was_seen_follows_what_was_recorded() -> None:
    seen = LoadCurve((5, 15, 25), (1.0, None, 3.0), (1.0, None, 3.0))
    recorded = RecordedLoad(LoadCurve((1, 15), (9.0, 8.0), (9.0, 8.0)))
    assert recorded.with_seen(seen) == LoadCurve((1, 15, 25), (9.0, 8.0, 3.0), (9.0, 8.0, 3.0))
    assert RecordedLoad().with_seen(seen) == seen
    assert recorded.with_seen(LoadCurve((), (), ())) == recorded.curve


def test_nothing_recorded_is_an_empty_curve() -> None:
    none = np.array([], dtype=np.int64)
    assert of_bundle(BUNDLE, none, [], none.astype(float), none.astype(float)) == RecordedLoad()
