"""Local search for the moves that make brokers more even, the most useful first.

Each step takes the fullest broker and makes the move that lowers the objective most. Facebook's
placement services also use local search with one objective (Shard Manager and RAS, both SOSP'21);
to give the largest bundle to the emptiest broker is Graham's rule (1969).
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from counterpoise.decide.shedding.counterpoise.columns import LoadColumns
from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import Masks

CANDIDATES: Final = 64
"""The most bundles of one broker that are tried; of more, this many of all sizes."""
DESTINATIONS: Final = 16
"""How many brokers are tried as a bundle's destination: the least loaded."""
STALE: Final = 8
"""The search ends when this many of the fullest brokers have no useful move."""
HOPE: Final = 12.0
"""The search ends when the moves since its best state have cost this many prices more than they
gained.

It is not zero because later moves may gain more: of several equally full brokers, all have to give
bundles away before the fullest one has less load."""
LEAST: Final = 1e-9
CHEAPEST: Final = 0.05
"""The smallest part of the price that a move costs: even a tiny bundle changes its owner."""
_SAMPLE: Final = np.arange(CANDIDATES)


class Step(NamedTuple):
    """One move that the search made, and the cluster's state after it."""

    bundle: int
    source: int
    destination: int
    objective: float
    lasting: float
    """The objective's part for the later span, after the next minutes."""
    fullest: float
    """The largest mean utilisation over the time ahead, 1 being the mean broker's."""
    part: float
    """What the move costs, as a fraction of the price of a move (`Prices.parts`)."""


@dataclass(frozen=True, slots=True)
class Found:
    """The moves that the search found, in order, and the objective before them."""

    steps: tuple[Step, ...]
    objective: float
    lasting: float
    fullest: float


class Prices(NamedTuple):
    """By how much a move has to lower the objective to be worth making."""

    lasting: float
    """The price of a move that leaves the later span as even as it is, or more."""
    passing: float
    """The price of a move that helps now and makes the later span less even."""
    small: float = 0.0
    """A bundle smaller than this, as a part of the mean broker's load, costs less to move, in
    proportion: it has fewer clients.

    Otherwise a broker with many small bundles would stay full, since no single one of them is worth
    a price."""

    def parts(self, sizes: Floats) -> Floats:
        """What the move of each bundle of these sizes costs, as a part of a price."""
        parts: Floats = np.maximum(sizes / max(self.small, LEAST), CHEAPEST).clip(max=1.0)
        return parts

    def of(self, step: Step, before: "Found | Step") -> float:
        """The price of this step, given the steps ``before`` it; higher if the step makes the later
        span less even.
        """
        return step.part * (self.passing if step.lasting > before.lasting else self.lasting)


def objective(top: Floats, weight: Floats, least: Floats) -> Floats:
    """How uneven the brokers are, one value for each span (near future, later).

    ``top`` is the utilisation by span and broker, where 1 is the mean broker's; ``weight`` is the
    part of the forecast's time that each span is; ``least`` is the utilisation below which a broker
    counts as too empty. The value is the fullest broker's excess over the mean, which its clients
    feel, plus the squares of all excesses, so that relieving the second fullest broker counts as
    well. A broker below its ``least`` adds what it lacks; otherwise an even cluster would never
    fill an almost empty broker.
    """
    above = (top - 1.0).clip(0.0)
    uneven = above.max(axis=1, initial=0.0) + (above * above).sum(axis=1)
    uneven += _lacks(least, top).sum(axis=1)
    parts: Floats = weight * uneven
    return parts


def search(cluster: LoadColumns, moves: int, prices: Prices) -> Found:
    """Find at most ``moves`` moves, each of which lowers the objective; no bundle moves twice.

    The search ends when even a perfect plan would not gain another price, or when the last moves
    have cost more than they gained.
    """
    weight, use = cluster.weight, cluster.use.copy()
    top = use.max(axis=0, initial=0.0)
    start = _position(objective(top, weight, cluster.least), weight @ top)
    floor = cluster.floor
    size = cluster.sizes
    cost = prices.parts(size)
    free = cluster.movable & (cluster.owner >= 0) & (size > LEAST)
    lowest = prices.lasting * float(cost.min(where=free, initial=1.0))
    if start[0] - floor <= lowest:
        return Found((), *start)
    movable = np.flatnonzero(free)
    # NumPy sorts numbers of 16 bits by counting them, and there are few brokers.
    narrow = cluster.owner[movable].astype(np.min_scalar_type(top.shape[1]))
    movable = movable[np.argsort(narrow, kind="stable")]
    starts = np.searchsorted(cluster.owner[movable], np.arange(top.shape[1] + 1))
    steps: list[Step] = []
    barren: list[int] = []
    before: Found | Step = Found((), *start)
    now, over, best = start, 0.0, 0.0
    while len(steps) < moves and now[0] - floor > lowest:
        source = _fullest(top, weight, barren)
        if source < 0:
            break
        rows = movable[starts[source] : starts[source + 1]]
        won = size[rows] * _most_won(cluster, top[:, source])
        rows = rows[free[rows] & (won > prices.lasting * cost[rows])]
        made = _best(cluster, use, top, source, _candidates(rows, size))
        if made is None:
            barren.append(source)
            if len(barren) >= STALE:
                break
            continue
        bundle, to = made
        carry(cluster, use, top, (bundle, source, to))
        free[bundle] = False
        now = _position(objective(top, weight, cluster.least), weight @ top)
        step = Step(bundle, source, to, *now, float(cost[bundle]))
        steps.append(step)
        over += before.objective - step.objective - prices.of(step, before)
        best, before = max(best, over), step
        if over < best - HOPE * prices.lasting:
            break
    return Found(_without_vain(cluster, steps, (use, top), prices), *start)


def _without_vain(
    cluster: LoadColumns, steps: list[Step], after: tuple[Floats, Floats], prices: Prices
) -> tuple[Step, ...]:
    """The steps whose gain exceeds their price when all others are made, in their order.

    If the fullest broker cannot get below another one's load, say because of a bundle larger than a
    broker's share, the search first moves bundles from it that gain almost nothing.
    """
    use, top = after
    weight, least = cluster.weight, cluster.least
    now = float(objective(top, weight, least).sum())
    kept = []
    for step in reversed(steps):
        back = (step.bundle, step.destination, step.source)
        carry(cluster, use, top, back)
        without = float(objective(top, weight, least).sum())
        if without - now > prices.lasting * step.part:
            carry(cluster, use, top, step[:3])
            kept.append(step)
        else:
            now = without
    if len(kept) == len(steps):
        return tuple(steps)
    use = cluster.use.copy()
    top = use.max(axis=0, initial=0.0)
    made = []
    for step in reversed(kept):
        carry(cluster, use, top, step[:3])
        after_it = _position(objective(top, weight, least), weight @ top)
        made.append(Step(*step[:3], *after_it, step.part))
    return tuple(made)


def carry(cluster: LoadColumns, use: Floats, top: Floats, move: tuple[int, int, int]) -> None:
    """Apply a move to ``use`` (by resource, span and broker) and to ``top`` (its maximum over
    the resources).
    """
    bundle, source, to = move
    for broker, sign in ((source, -1.0), (to, 1.0)):
        use[:, :, broker] += sign * cluster.load[:, :, bundle] * cluster.scale[:, :, broker]
        top[:, broker] = use[:, :, broker].max(axis=0)


def _position(parts: Floats, use: Floats) -> tuple[float, float, float]:
    """The objective, the part of it after the first span, and the fullest broker's utilisation."""
    return float(parts.sum()), float(parts[1:].sum()), float(use.max(initial=0.0))


def _fullest(top: Floats, weight: Floats, barren: list[int]) -> int:
    """The broker furthest above the mean that is not in ``barren`` (no useful move); -1: none."""
    above = weight @ _cost(top)
    above[barren] = 0.0
    fullest = int(above.argmax()) if len(above) else -1
    return fullest if fullest >= 0 and above[fullest] > 0.0 else -1


def _most_won(cluster: LoadColumns, top: Floats) -> float:
    """An upper bound of how much the objective falls for each unit of load that leaves a broker.

    Its terms are: the broker may be the fullest; its square falls; and the load may fill an almost
    empty broker.
    """
    return 1.0 + 2.0 * float((top - 1.0).clip(0.0).max()) + float(cluster.filling.any())


def _best(
    cluster: LoadColumns, use: Floats, top: Floats, source: int, rows: Indices
) -> tuple[int, int] | None:
    """The bundle and the destination that lower the objective most; None if none lowers it."""
    weight, scale, least = cluster.weight, cluster.scale, cluster.least
    to = _emptiest(weight @ top, cluster.destination, source)
    if not len(rows) or not len(to):
        return None
    # By figure, span, bundle and destination.
    load = cluster.load[:, :, rows, np.newaxis]
    left = (
        use[:, :, source, np.newaxis, np.newaxis]
        - load * scale[:, :, source, np.newaxis, np.newaxis]
    ).max(axis=0)
    got = (use[:, :, np.newaxis, to] + load * scale[:, :, np.newaxis, to]).max(axis=0)
    peak = np.maximum(np.maximum(left, got), _others(top, source, to)[:, np.newaxis]).clip(1.0)
    before = top.max(axis=1).clip(1.0) + _square(top[:, source])
    change = peak + _square(left) + _square(got)
    change -= before[:, np.newaxis, np.newaxis] + _square(top[:, to])[:, np.newaxis]
    if least.any():
        change += _lacks(least[:, source, np.newaxis, np.newaxis], left)
        change += _lacks(least[:, np.newaxis, to], got)
        before_it = _lacks(least[:, to], top[:, to]) + _lacks(least, top)[:, [source]]
        change -= before_it[:, np.newaxis]
    change = (weight @ change.reshape(len(weight), -1)).reshape(len(rows), len(to))
    for place, bundle in enumerate(rows.tolist() if cluster.allowed else ()):
        if bundle in cluster.allowed:
            change[place, ~cluster.allowed[bundle][to]] = np.inf
    # Rounded, so that of brokers that are equally empty the first one is taken.
    row, column = divmod(int(np.argmin(change.round(12))), len(to))
    if not change[row, column] < -LEAST:
        return None
    return int(rows[row]), int(to[column])


def _emptiest(use: Floats, destination: Masks, source: int) -> Indices:
    """The brokers that may receive bundles, the emptiest first, at most `DESTINATIONS`."""
    where = np.flatnonzero(destination)
    if len(where) > DESTINATIONS + 1:
        where = where[np.argpartition(use[where], DESTINATIONS)[: DESTINATIONS + 1]]
    where = where[np.argsort(use[where], kind="stable")]
    others: Indices = where[where != source]
    return others


def _candidates(rows: Indices, size: Floats) -> Indices:
    """The bundles to try, largest first: all, or `CANDIDATES` of them evenly chosen by rank."""
    rows = rows[np.argsort(-size[rows], kind="stable")]
    return rows if len(rows) <= CANDIDATES else rows[_SAMPLE * (len(rows) - 1) // _SAMPLE[-1]]


def _others(top: Floats, source: int, to: Indices) -> Floats:
    """By span and destination: the utilisation of the fullest broker besides source and
    destination.
    """
    others = top.copy()
    others[:, source] = 0.0
    first = others.argmax(axis=1)
    span = np.arange(len(top))
    highest = others[span, first]
    others[span, first] = 0.0
    second = others.max(axis=1)
    fullest: Floats = np.where(
        to == first[:, np.newaxis], second[:, np.newaxis], highest[:, np.newaxis]
    )
    return fullest


def _lacks(least: Floats, use: Floats) -> Floats:
    lacked: Floats = (least - use).clip(0.0)
    return lacked


def _square(use: Floats) -> Floats:
    above = (use - 1.0).clip(0.0)
    squares: Floats = above * above
    return squares


def _cost(use: Floats) -> Floats:
    above = (use - 1.0).clip(0.0)
    cost: Floats = above + above * above
    return cost
