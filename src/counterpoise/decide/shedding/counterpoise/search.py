"""Local search: the moves that even brokers out, the most useful first.

Each step takes the fullest broker and makes the move that lowers the objective most. Facebook's
placement services came to the same, local search by one objective (Shard Manager and RAS, both
SOSP'21); the rule to give the largest to the emptiest is Graham's (1969).
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from counterpoise.decide.shedding.counterpoise.columns import Cluster
from counterpoise.load.rates import Floats, Indices

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
    """The largest utilisation, 1 being the mean."""


@dataclass(frozen=True, slots=True)
class Found:
    """The steps in their order, and where they begin."""

    steps: tuple[Step, ...]
    objective: float
    fullest: float


def objective(use: Floats) -> float:
    """How uneven brokers are: the fullest's excess over the mean, and the squares of all.

    Of each broker's utilisation, 1 being the mean. The first part is what clients of the fullest
    broker feel; the squares make it worth while to help the second fullest, too.
    """
    above = (use - 1.0).clip(0.0)
    return float(above.max(initial=0.0) + (above * above).sum())


def search(cluster: Cluster, moves: int, price: float) -> Found:
    """At most so many moves, each of which lowers the objective; no bundle moves twice.

    Ends where even a perfect plan would not win another ``price`` any more.
    """
    use = cluster.utilisation
    top = use.max(axis=1, initial=0.0)
    owner = cluster.owner.copy()
    free = cluster.movable & (owner >= 0)
    first, fullest = objective(top), float(top.max(initial=0.0))
    floor = cluster.floor
    steps: list[Step] = []
    barren: set[int] = set()
    now = first
    while len(steps) < moves and now - floor > price:
        source = _fullest(top, barren)
        if source < 0 or top[source] <= 1.0:
            break
        made = _best(cluster, use, top, source, np.flatnonzero(free & (owner == source)))
        if made is None:
            barren.add(source)
            if len(barren) >= STALE:
                break
            continue
        bundle, to = made
        use[source] -= cluster.load[bundle] * cluster.scale[source]
        use[to] += cluster.load[bundle] * cluster.scale[to]
        top[source], top[to] = use[source].max(), use[to].max()
        owner[bundle] = to
        free[bundle] = False
        now = objective(top)
        steps.append(Step(bundle, source, to, now, float(top.max())))
    return Found(tuple(steps), first, fullest)


def _fullest(top: Floats, barren: set[int]) -> int:
    """The fullest broker that may still have a useful move; -1 when none is left."""
    ranked = np.argsort(-top, kind="stable")[: len(barren) + 1].tolist()
    return next((each for each in ranked if each not in barren), -1)


def _best(
    cluster: Cluster, use: Floats, top: Floats, source: int, rows: Indices
) -> tuple[int, int] | None:
    """The bundle and the destination that lower the objective most; None when nothing does."""
    near = np.argsort(np.where(cluster.destination, top, np.inf), kind="stable")
    to = near[: DESTINATIONS + 1]
    to = to[(to != source) & cluster.destination[to]]
    size = (cluster.load[rows] * cluster.scale[source]).max(axis=1, initial=0.0)
    order = np.argsort(-size, kind="stable")
    rows = rows[order][size[order] > LEAST]
    if not len(rows) or not len(to):
        return None
    if len(rows) > CANDIDATES:
        rows = rows[np.linspace(0, len(rows) - 1, CANDIDATES).astype(np.intp)]
    load = cluster.load[rows]
    left = (use[source] - load * cluster.scale[source]).max(axis=1)
    got = (use[to] + load[:, np.newaxis, :] * cluster.scale[to]).max(axis=2)
    others = top.copy()
    others[source] = 0.0
    # Every destination is among the emptiest, so the fullest of the others is hardly one of them.
    highest = np.full(len(to), others.max())
    for place in np.flatnonzero(top[to] == highest).tolist():
        highest[place] = np.delete(others, to[place]).max()
    peak = np.maximum(np.maximum(left[:, np.newaxis], got), highest).clip(1.0)
    before = _square(top[source]) + _square(top[to])
    after = _square(left)[:, np.newaxis] + _square(got)
    change = peak - max(1.0, float(top.max())) + after - before
    row, column = divmod(int(np.argmin(change)), len(to))
    if not change[row, column] < -LEAST:
        return None
    return int(rows[row]), int(to[column])


def _square(use: Floats) -> Floats:
    above = (use - 1.0).clip(0.0)
    squares: Floats = above * above
    return squares
