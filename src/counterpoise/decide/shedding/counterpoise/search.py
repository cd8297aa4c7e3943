"""Local search: the moves that even brokers out, the most useful first.

The objective is the issue of every balancer in one line: how far the fullest broker is above the
mean, and the squares of what every broker is above it. Each step takes the fullest broker and makes
the move that lowers the objective most (Shard Manager, SOSP'21, and RAS, SOSP'21, both came to
local search by objective; LPT, Graham 1969, is its start).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from counterpoise.decide.shedding.counterpoise.columns import Cluster
from counterpoise.load.rates import Floats, Indices

SQUARES = 1.0
"""How much the squares count beside the fullest."""
CANDIDATES = 64
DESTINATIONS = 16
STALE = 8
"""Sources that are tried before the search gives up."""


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
    stuck: int
    """The fullest broker when the search ended, which no move would have made emptier."""


def objective(use: Floats) -> float:
    """Of each broker's utilisation, 1 being the mean."""
    above = (use - 1.0).clip(0.0)
    return float(above.max(initial=0.0) + SQUARES * (above * above).sum())


def search(cluster: Cluster, moves: int) -> Found:
    """At most so many moves, each of which lowers the objective; no bundle moves twice."""
    use = cluster.utilisation
    top = use.max(axis=1)
    owner = cluster.owner.copy()
    free = cluster.movable & (owner >= 0)
    first, fullest = objective(top), float(top.max(initial=0.0))
    steps: list[Step] = []
    stuck = -1
    barren: set[int] = set()
    while len(steps) < moves and len(barren) < min(STALE, len(top)):
        ranked = np.argsort(-top, kind="stable")
        source = next(int(each) for each in ranked if int(each) not in barren)
        if top[source] <= 1.0:
            break
        made = _best(cluster, use, top, source, np.flatnonzero(free & (owner == source)))
        if made is None:
            stuck = source if stuck < 0 else stuck
            barren.add(source)
            continue
        bundle, to = made
        use[source] -= cluster.load[bundle] * cluster.scale[source]
        use[to] += cluster.load[bundle] * cluster.scale[to]
        top[source], top[to] = use[source].max(), use[to].max()
        owner[bundle] = to
        free[bundle] = False
        barren.clear()
        steps.append(Step(bundle, source, to, objective(top), float(top.max())))
    return Found(tuple(steps), first, fullest, stuck)


def _best(
    cluster: Cluster, use: Floats, top: Floats, source: int, rows: Indices
) -> tuple[int, int] | None:
    """The bundle and the destination that lower the objective most; None when nothing does."""
    near = np.argsort(top + np.where(cluster.destination, 0.0, np.inf), kind="stable")
    to = near[: DESTINATIONS + 1]
    to = to[(to != source) & cluster.destination[to]]
    if not len(rows) or not len(to):
        return None
    size = (cluster.load[rows] * cluster.scale[source]).max(axis=1)
    order = np.argsort(-size, kind="stable")
    rows, size = rows[order], size[order]
    rows = rows[size > 1e-6]
    if len(rows) > CANDIDATES:
        rows = rows[np.linspace(0, len(rows) - 1, CANDIDATES).astype(np.intp)]
    if not len(rows):
        return None
    load = cluster.load[rows]
    left = (use[source] - load * cluster.scale[source]).max(axis=1)
    got = (use[to] + load[:, np.newaxis, :] * cluster.scale[to]).max(axis=2)
    others = np.delete(top, source)
    rest = np.sort(others)[::-1][:2]
    highest = np.full(len(to), rest[0] if len(rest) else 0.0)
    highest[top[to] == highest] = rest[1] if len(rest) > 1 else 0.0
    peak = np.maximum(np.maximum(left[:, np.newaxis], got), highest).clip(1.0)
    before = _square(top[source]) + _square(top[to])
    after = _square(left)[:, np.newaxis] + _square(got)
    change = peak - max(1.0, float(top.max())) + SQUARES * (after - before)
    best = int(np.argmin(change))
    row, column = divmod(best, len(to))
    if not change[row, column] < -1e-9:
        return None
    return int(rows[row]), int(to[column])


def _square(use: Floats) -> Floats:
    above = (use - 1.0).clip(0.0)
    squares: Floats = above * above
    return squares
