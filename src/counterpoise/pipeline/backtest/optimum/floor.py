"""A lower bound on the imbalance of any assignment at one instant, and a trace averaged over
windows.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import Masks
from counterpoise.pipeline.backtest.trace import LoadTrace


def least_fullest(load: Floats, size: Floats) -> float:
    """A lower bound on the fullest broker's load ÷ the mean, for any assignment of these bundles.

    ``size`` is what each broker can carry. On n brokers of equal size, with loads in falling order:
    max >= max(mean, l[0], l[n-1] + l[n]), since two of the n + 1 largest bundles share a broker.
    Brokers of unequal size are all given the size of the largest.
    """
    count = len(size)
    mean = load.sum() / count
    if not mean > 0:
        return 1.0
    largest = np.sort(load)[::-1][: count + 1]
    pair = largest[count - 1] + largest[count] if len(largest) > count else 0.0
    relief = size.mean() / size.max()
    return float(max(1.0, largest[0] * relief / mean, pair * relief / mean))


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """A trace averaged over windows of time, with the lower bound of each window.

    Loads are fractions of the mean broker's load.
    """

    load: Floats
    """The load by window and bundle."""
    least: Floats
    """By window: the mean over its steps of what the fullest broker carries at least."""
    up: Masks
    """Whether a broker is present in all steps of a window, by window and broker."""
    relief: Floats
    """The mean broker size ÷ the broker's size, by broker."""
    owners: Indices


def windows_of(trace: LoadTrace, count: int) -> Windows:
    """The trace averaged over `count` windows of about equal length."""
    size = trace.hosts.bytes_most
    edges = np.linspace(0, trace.steps, min(count, trace.steps) + 1).astype(int)
    loads, least, there = [], [], []
    for first, last in pairwise(edges.tolist()):
        ups = np.array([trace.up(step) for step in range(first, last)])
        parts, floors = [], []
        for step, up in zip(range(first, last), ups, strict=True):
            load = trace.loads(step).throughput()
            mean = load.sum() / max(1, int(up.sum()))
            if mean > 0:
                parts.append(load / mean)
                floors.append(least_fullest(load, size[up]))
        loads.append(np.mean(parts, axis=0) if parts else np.zeros(len(trace.bundles)))
        least.append(float(np.mean(floors)) if floors else 1.0)
        there.append(ups.all(axis=0))
    return Windows(
        np.array(loads), np.array(least), np.array(there), size.mean() / size, trace.owners
    )
