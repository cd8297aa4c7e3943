"""Each bundle's load for the time ahead, from what was seen of it.

Level and trend are Holt's (1957), the trend damped as by Gardner and McKenzie (1985); the first
samples are averaged exactly. The spread is the mean absolute deviation of what came from what was
forecast, so that noise widens the band instead of moving bundles.
"""

import numpy as np

from counterpoise.decide.shedding.counterpoise.memory import CounterpoiseMemory, Tracks
from counterpoise.load.rates import Floats
from counterpoise.load.view import ClusterView

LEVEL_MINUTES = 30.0
"""How long the level remembers."""
TREND_MINUTES = 90.0
SPREAD_SAMPLES = 50
MINUTE_MS = 60_000.0
LARGEST = 1e15
"""Figures beyond this are errors of a report."""


def followed(view: ClusterView, memory: CounterpoiseMemory) -> Tracks:
    """The tracks of the view's bundles in its order."""
    if memory.bundles == view.bundles:
        return memory.tracks
    row_of = {name: row for row, name in enumerate(memory.bundles)}
    rows = [row_of.get(name, -1) for name in view.bundles]
    return memory.tracks.take(np.array(rows, np.intp))


def figures(view: ClusterView) -> Floats:
    """The short averages: messages/s both ways, bytes/s in, bytes/s out; errors count as 0."""
    short = view.bundle.short
    columns = np.stack([short.rate(), short.throughput_in, short.throughput_out], axis=1)
    np.nan_to_num(columns, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    return columns.clip(0.0, LARGEST)


def advance(view: ClusterView, before: Tracks, seen_ms: int) -> Tracks:
    """The tracks with the samples of this view; owners are left as they are."""
    average = figures(view)
    sample = _samples(view, before, average)
    first = before.count == 0
    fresh = first | (average.astype(np.float32) != before.average).any(axis=1)
    minutes = max(0.05, (view.now_ms - seen_ms) / MINUTE_MS) if seen_ms else 1.0
    count = before.count + fresh
    level = before.level.astype(np.float64)
    trend = before.trend.astype(np.float64)
    expected = level + trend * minutes
    error = sample - expected
    alpha = np.maximum(1.0 / np.maximum(count, 1), 1.0 - np.exp(-minutes / LEVEL_MINUTES))
    gain = (alpha * fresh)[:, np.newaxis]
    after = (expected + gain * error).clip(0.0, LARGEST)
    settled = (count > 10)[:, np.newaxis] * (1.0 - np.exp(-minutes / TREND_MINUTES))
    grown = trend + settled * gain * error / minutes
    size = np.maximum(level.sum(axis=1), 1e-9)
    miss = np.where(first, 0.3, np.minimum(np.abs(error).sum(axis=1) / size, 10.0))
    beta = np.where(fresh, np.maximum(1.0 / np.maximum(count, 1), 1.0 / SPREAD_SAMPLES), 0.0)
    spread = before.spread + beta * (miss - before.spread)
    return Tracks(
        np.where(fresh[:, np.newaxis], after, level).astype(np.float32),
        np.where(fresh[:, np.newaxis], grown * 0.995, trend).astype(np.float32),
        average.astype(np.float32),
        spread.astype(np.float32),
        count.astype(np.int32),
        before.owner,
        before.moved_ms,
    )


def _samples(view: ClusterView, before: Tracks, average: Floats) -> Floats:
    """The latest sample of each bundle, unfolded from its capped mean where that adds up.

    ``average = ((n - 1) * before + sample) / n`` (`load/average.py`). What brokers report of their
    own traffic tells whether a view's short figures are such means, and whether none was missed.
    """
    limit, count = view.bundle.samples[:, 0], view.bundle.samples[:, 1]
    n = np.minimum(np.maximum(count, 1), np.maximum(limit, 1)).astype(np.float64)[:, np.newaxis]
    unfolded = (n * average - (n - 1.0) * before.average).clip(0.0, LARGEST)
    unfolded[before.count == 0] = average[before.count == 0]
    reported = np.nan_to_num(view.broker.traffic.throughput(), nan=0.0, posinf=0.0, neginf=0.0)
    there = view.reporter >= 0
    owners, brokers = view.reporter[there], len(view.brokers)

    def far(guess: Floats) -> Floats:
        carried = np.bincount(owners, guess[there, 1:].sum(axis=1), minlength=brokers)
        return np.abs(carried - reported) / np.maximum(np.maximum(carried, reported), 1e-9)

    better = far(unfolded) < far(average)
    chosen = np.zeros(len(average), np.bool_)
    chosen[there] = better[owners]
    return np.where(chosen[:, np.newaxis], unfolded, average)


def predicted(tracks: Tracks, minutes: float) -> Floats:
    """The load so many minutes ahead; a trend counts half as far as it goes."""
    level = tracks.level.astype(np.float64)
    ahead = level + tracks.trend * (minutes / 2.0)
    return ahead.clip(0.3 * level, 3.0 * level)
