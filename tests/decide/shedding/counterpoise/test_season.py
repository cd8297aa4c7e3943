"""How a bundle's load grows by the hour of the day, from its own days."""

import numpy as np
import pytest

from counterpoise.decide.shedding.counterpoise.memory import HOURS, Floats16
from counterpoise.decide.shedding.counterpoise.season import HOUR_MS, NOISE, growth, learnt

NOTHING = np.zeros((1, HOURS), np.float16)
QUIET = np.zeros(1, np.float32)
HALF = HOUR_MS // 2


def after(loads: list[float], day: Floats16 = NOTHING) -> Floats16:
    """The figures once every hour from midnight on has carried its load."""
    for hour, load in enumerate(loads):
        at = hour * HOUR_MS + HALF
        day = learnt(day, np.array([load], np.float32), at, at + HOUR_MS)
    return day


def test_load_grows_as_it_did_the_day_before() -> None:
    day = after([1e6] * 8 + [2e6] * 16)
    at_seven, at_eight = 31 * HOUR_MS + HALF, 32 * HOUR_MS + HALF
    assert growth(day, QUIET, at_seven, at_eight) == pytest.approx(2.0, rel=0.03)
    assert growth(day, QUIET, at_seven, at_seven + HALF) == pytest.approx(2.0**0.5, rel=0.03)
    assert growth(day, QUIET, at_eight, at_seven) == pytest.approx(0.5, rel=0.03)
    assert growth(day, QUIET, at_eight, at_eight + HOUR_MS) == pytest.approx(1.0, rel=0.03)


def test_an_hour_that_was_never_seen_says_nothing() -> None:
    day = after([1e6] * 8)
    assert growth(day, QUIET, 7 * HOUR_MS + HALF, 8 * HOUR_MS + HALF) == 0.0
    assert growth(day, QUIET, 6 * HOUR_MS + HALF, 7 * HOUR_MS + HALF) == pytest.approx(1.0)


def test_growth_within_the_noise_is_none() -> None:
    day = after([1e6] * 8 + [1.1e6] * 16)
    noisy = np.array([0.1 / NOISE], np.float32)
    assert growth(day, noisy, 7 * HOUR_MS + HALF, 8 * HOUR_MS + HALF) == pytest.approx(
        1.0, abs=0.01
    )


def test_an_hour_follows_its_days_slowly_and_is_learnt_once() -> None:
    day = after([1e6] * 24)
    at = 24 * HOUR_MS + HALF
    assert learnt(day, np.array([1e9], np.float32), at, at + HALF - 1) is day
    followed = growth(after([2e6], day), QUIET, at + HOUR_MS, at)
    assert 1.05 < float(followed[0]) < 1.3
