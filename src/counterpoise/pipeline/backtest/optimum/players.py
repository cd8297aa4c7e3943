"""What local search reaches, with the future load known and with past reports alone.

Every few minutes the search makes each move that improves the balance by more than a price. One
variant decides by the mean of future loads, the other by the mean of past loads. Several prices
give a frontier: imbalance against moves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterpoise.decide.shedding.counterpoise.columns import LoadColumns, used
from counterpoise.decide.shedding.counterpoise.search import Prices, search
from counterpoise.decide.shedding.counterpoise.timing import buy
from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import Masks
from counterpoise.pipeline.backtest.trace import LoadTrace

EVERY_STEPS = 5
AHEAD_STEPS = 60
PAST_STEPS = 10
PRICES = (0.3, 0.1, 0.03, 0.01, 0.003)
"""Prices of a move: by how much it has to lower one broker's load ÷ the mean."""


@dataclass(frozen=True, slots=True)
class Point:
    """The imbalance and moves of one local search on a trace, at one price of moving."""

    foresees: bool
    price: float
    imbalance: float
    moves: int
    moved: float
    """Bytes/s moved ÷ the bytes/s of the whole cluster."""


def frontier(trace: LoadTrace, *, foresees: bool, prices: Sequence[float] = PRICES) -> list[Point]:
    """Run local search on a trace at each price of a move.

    With `foresees` the search uses the loads ahead, otherwise only past loads.
    """
    loads = np.array([trace.loads(step).throughput() for step in range(trace.steps)])
    return [_played(trace, loads, foresees, price) for price in prices]


def _played(trace: LoadTrace, loads: Floats, foresees: bool, price: float) -> Point:
    owners = trace.owners.copy()
    relief = trace.hosts.bytes_most.mean() / trace.hosts.bytes_most
    ratios, moves, moved = [], 0, 0.0
    for step in range(trace.steps):
        up = trace.up(step)
        carried = np.bincount(owners, loads[step], len(up)) * relief
        # Each bundle of a broker that left goes to the least loaded broker.
        for row in np.flatnonzero(~up[owners]).tolist():
            owners[row] = int(np.argmin(np.where(up, carried, np.inf)))
            carried[owners[row]] += loads[step, row] * relief[owners[row]]
        carried = np.bincount(owners, loads[step], len(up)) * relief
        mean = carried[up].mean()
        if mean > 0:
            ratios.append(float(carried[up].max() / mean))
        if step % EVERY_STEPS:
            continue
        span = (
            loads[step : step + AHEAD_STEPS]
            if foresees
            else loads[max(0, step - PAST_STEPS) : step + 1]
        )
        for row, to in _moves(span.mean(axis=0), owners, up, relief, price):
            owners[row] = to
            moves += 1
            moved += float(loads[step, row] / max(loads[step].sum(), 1e-9))
    return Point(foresees, price, float(np.mean(ratios or [1.0])), moves, moved)


def _moves(
    load: Floats, owners: Indices, up: Masks, relief: Floats, price: float
) -> list[tuple[int, int]]:
    mean = load.sum() / max(1, int(up.sum()))
    if not mean > 0:
        return []
    loads, scale = load[np.newaxis, np.newaxis], (relief / mean)[np.newaxis, np.newaxis]
    cluster = LoadColumns(
        loads,
        np.ones(1),
        owners,
        scale,
        used(loads, owners, scale),
        np.ones(len(load), np.bool_),
        up,
        np.zeros(len(relief), np.bool_),
    )
    each = price / len(relief)
    prices = Prices(each, each)
    bought = buy(cluster, search(cluster, len(load), prices), prices, np.zeros(1))
    return [(step.bundle, step.destination) for step in bought.steps]
