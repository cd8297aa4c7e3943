"""Local search: the moves that even brokers out, the most useful first.

Each step takes the fullest broker and makes the move that lowers the objective most. Facebook's
placement services came to the same, local search by one objective (Shard Manager and RAS, both
SOSP'21); the rule to give the largest to the emptiest is Graham's (1969).
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from counterpoise.decide.shedding.counterpoise.columns import LoadColumns
from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import Masks

CANDIDATES: Final = 64
"""Bundles of a broker that are tried: all, or so many from the largest to the smallest."""
DESTINATIONS: Final = 16
"""Brokers that are tried: the emptiest."""
STALE: Final = 8
"""Brokers, the fullest first, that may have no useful move before the search ends."""
LEAST: Final = 1e-9


class Step(NamedTuple):
    """One move of a plan, and the cluster after it."""

    bundle: int
    source: int
    destination: int
    objective: float
    fullest: float
    """The largest mean utilisation over the time ahead, 1 being the mean broker's."""


@dataclass(frozen=True, slots=True)
class Found:
    """The steps in their order, and where they begin."""

    steps: tuple[Step, ...]
    objective: float
    fullest: float


FULL: Final = 0.95
"""A broker that is filled is full at this part of the mean."""


def objective(top: Floats, weight: Floats, filling: Masks | None = None) -> float:
    """How uneven brokers are: the fullest's excess over the mean, and the squares of all.

    Of each broker's utilisation by span. The first part is what clients of the fullest broker feel;
    the squares make it worth while to help the second fullest, too. A broker that was found all but
    empty counts by what it lacks, or no cluster that is even otherwise would ever fill it.
    """
    above = (top - 1.0).clip(0.0)
    uneven = above.max(axis=0, initial=0.0) + (above * above).sum(axis=0)
    if filling is not None and filling.any():
        uneven += (FULL - top[filling]).clip(0.0).sum(axis=0)
    return float(weight @ uneven)


def search(cluster: LoadColumns, moves: int, price: float) -> Found:
    """At most so many moves, each of which lowers the objective; no bundle moves twice.

    Ends where even a perfect plan would not win another ``price`` any more.
    """
    use, weight = cluster.use, cluster.weight
    top = use.max(axis=2, initial=0.0)
    movable = np.flatnonzero(cluster.movable & (cluster.owner >= 0))
    movable = movable[np.argsort(cluster.owner[movable], kind="stable")]
    starts = np.searchsorted(cluster.owner[movable], np.arange(len(top) + 1))
    free = np.ones(len(cluster.owner), np.bool_)
    first, fullest = objective(top, weight, cluster.filling), float((top @ weight).max(initial=0.0))
    floor = cluster.floor
    steps: list[Step] = []
    barren: set[int] = set()
    now = first
    while len(steps) < moves and now - floor > price:
        source = _fullest(top, weight, barren)
        if source < 0:
            break
        rows = movable[starts[source] : starts[source + 1]]
        made = _best(cluster, use, top, source, rows[free[rows]])
        if made is None:
            barren.add(source)
            if len(barren) >= STALE:
                break
            continue
        bundle, to = made
        use[source] -= cluster.load[bundle] * cluster.scale[source]
        use[to] += cluster.load[bundle] * cluster.scale[to]
        top[source], top[to] = use[source].max(axis=1), use[to].max(axis=1)
        free[bundle] = False
        now = objective(top, weight, cluster.filling)
        steps.append(Step(bundle, source, to, now, float((top @ weight).max())))
    return Found(tuple(steps), first, fullest)


def _fullest(top: Floats, weight: Floats, barren: set[int]) -> int:
    """The broker with most above the mean that may still have a useful move; -1 without one."""
    above = _cost(top) @ weight
    ranked = np.argsort(-above, kind="stable")[: len(barren) + 1].tolist()
    return next((each for each in ranked if each not in barren and above[each] > 0.0), -1)


def _best(
    cluster: LoadColumns, use: Floats, top: Floats, source: int, rows: Indices
) -> tuple[int, int] | None:
    """The bundle and the destination that lower the objective most; None when nothing does."""
    weight = cluster.weight
    near = np.argsort(np.where(cluster.destination, top @ weight, np.inf), kind="stable")
    to = near[: DESTINATIONS + 1]
    to = to[(to != source) & cluster.destination[to]]
    size = (cluster.load[rows] * cluster.scale[source]).max(axis=2, initial=0.0) @ weight
    order = np.argsort(-size, kind="stable")
    rows = rows[order][size[order] > LEAST]
    if not len(rows) or not len(to):
        return None
    if len(rows) > CANDIDATES:
        rows = rows[np.linspace(0, len(rows) - 1, CANDIDATES).astype(np.intp)]
    load = cluster.load[rows]
    left = (use[source] - load * cluster.scale[source]).max(axis=2)[:, np.newaxis]
    got = (use[to] + load[:, np.newaxis] * cluster.scale[to]).max(axis=3)
    peak = np.maximum(np.maximum(left, got), _others(top, source, to)).clip(1.0)
    before = _square(top[source]) + _square(top[to])
    after = _square(left) + _square(got)
    change = (peak - top.max(axis=0).clip(1.0) + after - before) @ weight
    filled = cluster.filling[to]
    if filled.any():
        lacked = (FULL - top[to[filled]]).clip(0.0) - (FULL - got[:, filled]).clip(0.0)
        change[:, filled] -= lacked @ weight
    for place, bundle in enumerate(rows.tolist() if cluster.allowed else ()):
        if bundle in cluster.allowed:
            change[place, ~cluster.allowed[bundle][to]] = np.inf
    row, column = divmod(int(np.argmin(change)), len(to))
    if not change[row, column] < -LEAST:
        return None
    return int(rows[row]), int(to[column])


def _others(top: Floats, source: int, to: Indices) -> Floats:
    """By destination and span: the fullest of the brokers that a move leaves as they are."""
    others = top.copy()
    others[source] = 0.0
    first = others.argmax(axis=0)
    span = np.arange(top.shape[1])
    highest = others[first, span]
    others[first, span] = 0.0
    fullest: Floats = np.where(to[:, np.newaxis] == first, others.max(axis=0), highest)
    return fullest


def _square(use: Floats) -> Floats:
    above = (use - 1.0).clip(0.0)
    squares: Floats = above * above
    return squares


def _cost(use: Floats) -> Floats:
    above = (use - 1.0).clip(0.0)
    cost: Floats = above + above * above
    return cost
