"""Forecasts the load of each bundle from its past samples.

Level and trend are Holt's (1957), with a damped trend (Gardner and McKenzie 1985); the first
samples are averaged exactly. `season.py` learns how load grows by the hour of the day. A sample far
from its forecast is cut to what deviations usually are (Huber 1964), so a burst does not move the
level; if samples stay on one side for longer than bursts last, the level follows them. The spread
is the mean absolute deviation of samples from their forecasts: noise widens it, and moves no
bundles.
"""

import math
from typing import Final

import numpy as np

from counterpoise.decide.shedding.counterpoise.columns import totals
from counterpoise.decide.shedding.counterpoise.memory import (
    CounterpoiseMemory,
    Floats32,
    Integers32,
    Tracks,
)
from counterpoise.decide.shedding.counterpoise.season import growth
from counterpoise.decide.shedding.counterpoise.season import learnt as learn_day
from counterpoise.load.rates import Floats
from counterpoise.load.view import ClusterView, Integers, Masks

LEVEL_MINUTES: Final = 30.0
"""The time over which the level is averaged, in minutes."""
TREND_MINUTES: Final = 90.0
SPREAD_SAMPLES: Final = 50
FIRST_SPREAD: Final = 0.1
"""The spread that is assumed for a new bundle, as a part of its load."""
WIDEST: Final = 1.0
"""The largest spread, the mean deviation of samples from forecasts as a part of the load."""
OUTLIER: Final = 3.0
"""A sample that deviates from its forecast by more than this many spreads is cut to so many."""
BURST_SAMPLES: Final = 2
"""From this many outliers in a row on, the load itself is unusual; fewer may be report errors."""
SOON_MINUTES: Final = 15.0
"""How long an unusual load is assumed to last, in minutes."""
SHIFT_SAMPLES: Final = 15
"""From this many outliers in a row on, it is no burst: the level is learnt from the start."""
COMMON: Final = 3.0
"""The largest factor by which the load of all brokers together may change between two samples."""
TREND_FADES: Final = 0.995
"""A trend is multiplied by this every minute."""
MINUTE_MS: Final = 60_000.0
MEASURED_MS: Final = 60_000
"""Milliseconds between two measurements of a broker (Pulsar's ``statsUpdateFrequencyInSecs``)."""
LARGEST: Final = 1e15
"""Messages/s or bytes/s above this in a report count as an error, and are cut to this."""


def followed(view: ClusterView, memory: CounterpoiseMemory) -> Tracks:
    """The remembered load histories, in the order of the view's bundles."""
    if memory.bundles == view.bundles:
        return memory.tracks
    if not memory.bundles:
        return Tracks.empty(len(view.bundles))
    row_of = {name: row for row, name in enumerate(memory.bundles)}
    rows = [row_of.get(name, -1) for name in view.bundles]
    return memory.tracks.take(np.array(rows, np.intp))


def figures(view: ClusterView) -> Floats32:
    """The short-term averages of each bundle: messages/s in and out, bytes/s in, bytes/s out.
    NaN and infinity become 0.
    """
    short = view.bundle.short
    # Each figure is contiguous in memory: sums over figures then take a sixth of the time.
    columns = np.stack([short.rate(), short.throughput_in, short.throughput_out])
    np.nan_to_num(columns, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    return columns.clip(0.0, LARGEST).astype(np.float32).T


def advance(
    before: Tracks,
    average: Floats32,
    sample: Floats32,
    averaged: Integers,
    times_ms: tuple[int, int],
    held: Masks,
) -> Tracks:
    """The bundles' load histories after one more report; owners stay as they are.

    ``average`` is the reported mean of ``averaged`` samples, and ``sample`` the newest sample,
    derived from it. The first report of a bundle counts as ``averaged`` samples. ``times_ms`` are
    the times of the last sample (0 for none) and of this one. Bundles in ``held`` keep their level:
    their broker seems slow, so its traffic is less than its clients want.
    """
    # A bundle with level 0 counts as new: its forecast would stay 0, however often it was seen.
    first = (before.count == 0) | (before.level.sum(axis=1) <= 0.0)
    # Unchanged figures are the same report read again or, after a measurement's time, a constant
    # load.
    last_ms, now_ms = times_ms
    elapsed_ms = now_ms - last_ms if last_ms else 0
    again = elapsed_ms >= MEASURED_MS
    fresh = (first | again | (average != before.average).any(axis=1)) & ~held
    minutes = max(0.05, elapsed_ms / MINUTE_MS) if elapsed_ms else 1.0
    level, trend = before.level, before.trend
    day = learn_day(before.day, carried(level.T), last_ms, now_ms)
    grown = growth(day, before.spread, now_ms - elapsed_ms, now_ms)
    expected = _grown(level, trend * minutes, grown).clip(0.0, LARGEST)
    # A deviation common to all brokers is not noise of single bundles: for example, load may rise
    # everywhere, or reports may cover only a part of an interval.
    size = expected.sum(axis=1)
    seen_now = np.where(fresh & ~first, sample.sum(axis=1), size)
    common = _common(size, seen_now, before.owner)
    level, expected = level * common, expected * common
    error = sample - expected
    size = np.maximum(size * common, 1e-9)
    miss = np.abs(error).sum(axis=1) / size
    sign = np.sign(error.sum(axis=1)).astype(np.int32)
    limit = OUTLIER * np.maximum(before.spread, 0.02)
    far = ~first & (miss > limit)
    outliers = np.where(far, np.where(sign * before.outliers > 0, before.outliers, 0) + sign, 0)
    outliers = np.where(fresh, outliers, before.outliers)
    known = before.count - np.abs(before.outliers)
    shifted = np.abs(outliers) > np.minimum(known, SHIFT_SAMPLES)
    cut = np.where(far & ~shifted, limit / np.maximum(miss, 1e-9), 1.0)
    more = np.where(before.count == 0, averaged, 1) * fresh
    count = np.where(first, 0, before.count) + more
    count = np.where(shifted & fresh, known.clip(1, 3), count)
    part = np.where(first, 1.0, 1.0 / np.maximum(count, 1)).astype(np.float32)
    alpha = np.maximum(part, 1.0 - math.exp(-minutes / LEVEL_MINUTES))
    learnt = error * (alpha * cut)[:, np.newaxis]
    steady = (count > SHIFT_SAMPLES) * ((1.0 - math.exp(-minutes / TREND_MINUTES)) / minutes)
    slope = learnt * steady.astype(np.float32)[:, np.newaxis]
    # With a level near 0 every sample is many times its forecast: that predicts nothing.
    usual = np.minimum(np.minimum(miss, 2.0 * limit), WIDEST)
    deviation = np.where(first, FIRST_SPREAD, usual)
    spread = before.spread + np.maximum(part, 1.0 / SPREAD_SAMPLES) * (deviation - before.spread)
    seen = fresh[:, np.newaxis]
    return Tracks(
        np.where(seen, (expected + learnt).clip(0.0, LARGEST), level),
        np.where(seen, (trend + slope) * TREND_FADES**minutes, trend),
        average,
        np.where(fresh, spread, before.spread).astype(np.float32),
        count.astype(np.int32),
        outliers.astype(np.int32),
        before.owner,
        before.moved_ms,
        day,
    )


def _common(expected: Floats32, seen: Floats32, owner: Integers32) -> np.float32:
    """The factor by which the whole cluster's load differs from its forecast: the median over
    brokers.

    If the load of all brokers rises or falls together, no broker becomes fuller than the others.
    """
    brokers = int(owner.max(initial=-1)) + 1
    forecast, carries = totals(np.stack([expected, seen]), owner.astype(np.intp), brokers)
    ratios = carries[forecast > 0] / forecast[forecast > 0]
    return np.float32(np.median(ratios).clip(1 / COMMON, COMMON) if len(ratios) else 1.0)


def _grown(level: Floats32, more: Floats32, grown: Floats32) -> Floats32:
    """The level times its growth by the hour of the day or, where that is not known, plus its
    trend.
    """
    known = (grown > 0)[:, np.newaxis]
    found: Floats32 = np.where(known, level * grown[:, np.newaxis], level + more)
    return found


def averaged(view: ClusterView) -> Integers:
    """By bundle: the number of samples in its short-term average."""
    limit, count = view.bundle.samples[:, 0], view.bundle.samples[:, 1]
    found: Integers = np.minimum(np.maximum(count, 1), np.maximum(limit, 1))
    return found


def samples(view: ClusterView, before: Tracks, average: Floats32) -> Floats32:
    """The latest sample of each bundle, derived from two successive averages where that is
    consistent.

    Pulsar averages the last n samples by ``average = ((n - 1) * before + sample) ÷ n``
    (`load/average.py`), which is solved for the sample. If a broker's own traffic is closer to the
    sum of its bundles' averages than to that of the derived samples, a report was missed or its
    figures are no such averages; then the averages are taken as samples.
    """
    n = averaged(view).astype(np.float32)[:, np.newaxis]
    unfolded = (n * average - (n - 1.0) * before.average).clip(0.0, LARGEST)
    unfolded[before.count == 0] = average[before.count == 0]
    reported = np.nan_to_num(view.broker.traffic.throughput(), nan=0.0, posinf=0.0, neginf=0.0)
    there = view.reporter >= 0
    owners, brokers = view.reporter[there], len(view.brokers)

    def far(guess: Floats32) -> Floats:
        carried = np.bincount(owners, guess.T[1:, there].sum(axis=0), minlength=brokers)
        return np.abs(carried - reported) / np.maximum(np.maximum(carried, reported), 1e-9)

    better = far(unfolded) < far(average)
    chosen = np.zeros(len(average), np.bool_)
    chosen[there] = better[owners]
    return np.where(chosen[:, np.newaxis], unfolded, average)


def predicted(tracks: Tracks, minutes: float, sample: Floats32, now_ms: int) -> Floats32:
    """By resource, span and bundle: the load forecast for the next minutes, and for the rest of
    ``minutes``.

    An unusual load that has lasted two samples is assumed to last for the first span. A trend is
    followed up to three times the level.
    """
    level = tracks.level
    middle_ms = round(minutes * MINUTE_MS / 2.0)
    grown = growth(tracks.day, tracks.spread, now_ms, now_ms + middle_ms)
    ahead = _grown(level, tracks.trend * (minutes / 2.0), grown)
    bursting = (np.abs(tracks.outliers) >= BURST_SAMPLES)[:, np.newaxis]
    soon = np.where(bursting, sample, level)
    return np.stack([soon.T, ahead.clip(0.3 * level, 3.0 * level).T], axis=1)


def spans(minutes: float) -> Floats:
    """The two parts of ``minutes`` as fractions: the next `SOON_MINUTES`, and the rest."""
    soon = min(0.5, SOON_MINUTES / minutes)
    return np.array([soon, 1.0 - soon])


def carried(load: Floats32) -> Floats32:
    """The bytes/s of each bundle, or its messages/s if it has no bytes; ``load`` is by resource
    and bundle.
    """
    through = load[1:].sum(axis=0)
    found: Floats32 = np.where(through > 0, through, load[0])
    return found


def uncertainty(tracks: Tracks, load: Floats32) -> Floats:
    """The standard error of each bundle's forecast, in bytes/s (or messages/s for bundles without
    bytes).

    ``load`` is the forecast by resource and bundle. The error is the bundle's usual deviation from
    its forecasts ÷ the square root of the samples behind its level, which are at most those of an
    hour. `Tracks.spread` is a mean absolute deviation, 0.8 of a standard deviation.
    """
    size = carried(load)
    weighed = np.minimum(np.maximum(tracks.count, 1), 2.0 * LEVEL_MINUTES)
    found: Floats = 1.25 * tracks.spread * size / np.sqrt(weighed)
    return found
