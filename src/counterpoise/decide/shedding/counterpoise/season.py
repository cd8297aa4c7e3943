"""Learns from a bundle's past days how its load grows from one hour of the day to another.

A seasonal factor for each hour is smoothed from day to day (Winters 1960), as a logarithm, since
load grows in proportion. Hours that have not been seen have no factor: on its first day a bundle is
forecast by level and trend alone.
"""

import math
from typing import Final

import numpy as np

from counterpoise.decide.shedding.counterpoise.memory import HOURS, Floats16, Floats32

HOUR_MS: Final = 3_600_000
DAY_COUNTS: Final = 0.2
"""The weight of the newest day in the average load of an hour of the day."""
MOST: Final = math.log(3.0)
"""The logarithm of the largest growth that is forecast: three times the load."""
NOISE: Final = 0.25
"""The error that is assumed of an hour's average, as a part of the bundle's spread: it is smaller,
because it is the mean of many samples."""
LEAST: Final = 1.0
"""Bytes/s (or messages/s) below which a bundle counts as idle at an hour."""


def learnt(day: Floats16, load: Floats32, last_ms: int, now_ms: int) -> Floats16:
    """The loads by hour of the day, updated if the hour of ``last_ms`` is over at ``now_ms``.

    ``day`` has the logarithm of each bundle's load in each hour; ``load`` is each bundle's load
    when that hour ended. Times are milliseconds since 1970.
    """
    if not last_ms or last_ms // HOUR_MS == now_ms // HOUR_MS:
        return day
    hour = last_ms // HOUR_MS % HOURS
    before = day[:, hour].astype(np.float32)
    newest = np.log(np.maximum(load, LEAST) * math.e)  # above 0, which means not seen
    made = day.copy()
    made[:, hour] = np.where(before > 0, before + DAY_COUNTS * (newest - before), newest)
    return made


def growth(day: Floats16, spread: Floats32, from_ms: int, to_ms: int) -> Floats32:
    """The factor by which each bundle's load grows between two times of the day; 0 where unknown.

    It is reduced by what an hour's figure may be wrong by, a part of ``spread``, so that noise is
    not taken for growth.
    """
    hours = abs(to_ms - from_ms) / HOUR_MS
    before, after = _at(day, from_ms), _at(day, to_ms)
    grown = after - before
    sure = np.maximum(np.abs(grown) - NOISE * spread * hours, 0.0)
    factor = np.exp(np.sign(grown) * np.minimum(sure, MOST))
    found: Floats32 = np.where((before > 0) & (after > 0), factor, 0.0).astype(np.float32)
    return found


def _at(day: Floats16, at_ms: int) -> Floats32:
    """The logarithm of each bundle's load at a time, between two hours; 0 if one is not known."""
    place = at_ms / HOUR_MS - 0.5
    low = math.floor(place)
    first, second = (day[:, hour % HOURS].astype(np.float32) for hour in (low, low + 1))
    part = np.float32(place - low)
    known = (first > 0) & ((second > 0) | (part == 0))
    found: Floats32 = np.where(known, first + part * (second - first), np.float32(0.0))
    return found
