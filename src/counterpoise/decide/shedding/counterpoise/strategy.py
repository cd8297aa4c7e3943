"""Counterpoise: a shedding strategy that forecasts loads and weighs each move against its price."""

import math
from collections.abc import Collection
from dataclasses import replace
from random import Random
from typing import Final

import numpy as np

from counterpoise.decide.memory import Remembering
from counterpoise.decide.plan import StrategyPlan
from counterpoise.decide.shedding.counterpoise.columns import (
    LoadColumns,
    allowed_brokers,
    capacities,
    scales,
    suspects,
    totals,
    used,
)
from counterpoise.decide.shedding.counterpoise.forecast import (
    LEVEL_MINUTES,
    MINUTE_MS,
    advance,
    averaged,
    carried,
    figures,
    followed,
    predicted,
    samples,
    spans,
    uncertainty,
)
from counterpoise.decide.shedding.counterpoise.memory import CounterpoiseMemory, Floats32, Tracks
from counterpoise.decide.shedding.counterpoise.options import CounterpoiseOptions
from counterpoise.decide.shedding.counterpoise.reasons import explained, why_nothing
from counterpoise.decide.shedding.counterpoise.search import Prices, search
from counterpoise.decide.shedding.counterpoise.timing import PATIENCE, buy, prices_of
from counterpoise.decide.shedding.explain import no_broker
from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import ClusterView, Masks

DOUBT: Final = 1.75
"""A forecast's error is assumed to be at most this many times the largest of n standard errors.

Of n normal errors the largest is about the square root of 2 ln n: the more brokers there are, the
more of its excess the fullest owes to chance. While moves are put off, every `LEVEL_MINUTES` bring
errors that are nearly independent of those before. So n is the number of brokers times the number
of such periods: with enough of them, some error is large by chance.
"""
COLD: Final = 0.5
"""A broker that carries less than this part of what fills it counts as one that just joined."""
HELD_MS: Final = 7_200_000
"""Milliseconds for which a suspected broker's bundles keep their forecasts, whatever it reports."""


class Counterpoise(Remembering[CounterpoiseMemory]):
    """Moves bundles when an uneven cluster costs more than the moves do, and chooses their
    destinations.

    Each call forecasts the load of every bundle (`forecast.py`), estimates each broker's capacity
    from its traffic and usage (`columns.py`), and searches for the moves that lower one objective
    most (`search.py`). It makes those that gain more than a move's price, which falls while the
    cluster stays uneven (`timing.py`). ``counterpoiseMovePrice``, the price of a move, is the main
    setting.

    A bundle that has moved, by whatever decision, stays for the grace period unless its broker
    died. A broker whose bundles nearly all carry far less than forecast is assumed to be slow and
    receives nothing.
    """

    name = "Counterpoise"
    options = CounterpoiseOptions
    view = ClusterView
    remembers = CounterpoiseMemory
    obeys_rules = True
    """This strategy reads ``view.rules``, so a round fills them in
    (`decide/balancing/round.py`)."""

    def forget(self, memory: CounterpoiseMemory, active: Collection[str]) -> CounterpoiseMemory:
        """The memory without the capacities of brokers that left."""
        kept = {name: each for name, each in memory.capacity.items() if name in active}
        return replace(memory, capacity=kept)

    def plan(
        self,
        view: ClusterView,
        memory: CounterpoiseMemory,
        options: CounterpoiseOptions,
        now_ms: int,
        rng: Random,
    ) -> StrategyPlan[CounterpoiseMemory]:
        """Decide which bundles move, and where to; ``rng`` is not used."""
        del rng
        if not view.brokers:
            return StrategyPlan((), (no_broker(),), memory)
        before = followed(view, memory)
        average = figures(view)
        sample = samples(view, before, average)
        ill = _ill(view, suspects(view, sample, before.level), memory, now_ms)
        held = _on(view, [name for name, since in ill.items() if now_ms - since < HELD_MS])
        elapsed_ms = now_ms - memory.seen_ms if memory.seen_ms else 0
        tracks = advance(before, average, sample, averaged(view), (memory.seen_ms, now_ms), held)
        tracks = _owned(view, tracks, memory, now_ms)
        load = predicted(tracks, options.horizon_minutes, sample, now_ms)
        ahead = load[:, -1]
        unknown = (float("nan"),) * len(ahead)
        remembered = np.array([memory.capacity.get(name, unknown) for name in view.brokers])
        capacity = capacities(view, options.weights.modular, remembered)
        scale = scales(load, view.reporter, capacity)
        cluster = LoadColumns(
            load,
            spans(options.horizon_minutes),
            view.reporter,
            scale,
            used(load, view.reporter, scale),
            _movable(view, tracks, now_ms, options),
            np.array([name not in ill and name not in view.rules.silent for name in view.brokers]),
            np.zeros(len(view.brokers), np.bool_),
            allowed_brokers(view),
        )
        cold = _cold(view, cluster, memory)
        filling = np.array([name in cold for name in view.brokers], np.bool_)
        cluster = replace(cluster, filling=filling & cluster.destination)
        minutes = options.horizon_minutes
        prices = _prices(cluster, options, memory.waited_min)
        doubt = _doubt(view, tracks, ahead, memory.waited_min)
        found = search(cluster, options.max_moves, prices)
        bought = buy(cluster, found, prices, doubt)
        left = bought.steps[-1].objective if bought.steps else found.objective
        waits = left > cluster.floor + prices.lasting
        waited = memory.waited_min + max(0.0, elapsed_ms / MINUTE_MS) if waits else 0.0
        after = CounterpoiseMemory(
            view.bundles,
            view.brokers,
            tracks,
            now_ms,
            min(waited, PATIENCE * minutes),
            cold,
            ill,
            dict(zip(view.brokers, map(tuple, capacity.tolist()), strict=True)),
        )
        shown = {
            "objective": found.objective,
            "fullest": found.fullest,
            "price": prices.lasting,
            "doubt": float(doubt.mean()),
        }
        return StrategyPlan(
            tuple(explained(view, cluster, found, bought)),
            tuple(why_nothing(view, cluster, found, bought, ill)),
            after,
            shown,
        )


def _owned(view: ClusterView, tracks: Tracks, memory: CounterpoiseMemory, now_ms: int) -> Tracks:
    """The tracks with the present owner of each bundle, and the time since which it has been the
    owner.

    A bundle whose former broker is gone counts as placed, not as moved, so it may move again.
    """
    if memory.brokers == view.brokers:
        before: Indices = tracks.owner.astype(np.intp)
    else:
        place = np.array([view.row_of.get(name, -1) for name in memory.brokers] + [-1], np.intp)
        before = place[tracks.owner]
    moved = (before >= 0) & (before != view.reporter) & (view.reporter >= 0)
    since = np.where(moved, now_ms, tracks.moved_ms)
    return replace(tracks, owner=view.reporter.astype(np.int32), moved_ms=since)


def _ill(
    view: ClusterView, suspected: Masks, memory: CounterpoiseMemory, now_ms: int
) -> dict[str, int]:
    """The time since which each suspected broker has been suspected."""
    names = [view.brokers[row] for row in np.flatnonzero(suspected).tolist()]
    return {name: memory.ill.get(name, now_ms) for name in names}


def _on(view: ClusterView, brokers: Collection[str]) -> Masks:
    """Which bundles are on these brokers."""
    rows = np.array([name in brokers for name in view.brokers], np.bool_)
    return (view.reporter >= 0) & rows[view.reporter]


def _cold(view: ClusterView, cluster: LoadColumns, memory: CounterpoiseMemory) -> frozenset[str]:
    """The brokers that are almost empty, and those that were and have not been filled since."""
    use = cluster.weight @ cluster.utilisation
    return frozenset(
        name
        for name, part in zip(view.brokers, use.tolist(), strict=True)
        if part < cluster.full * (1.0 if name in memory.cold else COLD)
    )


def _movable(view: ClusterView, tracks: Tracks, now_ms: int, options: CounterpoiseOptions) -> Masks:
    grace_ms = options.grace_minutes * MINUTE_MS
    lately = (tracks.moved_ms > 0) & (now_ms - tracks.moved_ms < grace_ms)
    movable: Masks = view.bundle.movable & ~view.bundle.recently_unloaded & ~lately
    return movable


def _prices(cluster: LoadColumns, options: CounterpoiseOptions, waited_min: float) -> Prices:
    use = cluster.weight @ cluster.utilisation
    excess = float(use.max()) - 1.0
    return prices_of(options.move_price, len(use), options.horizon_minutes, waited_min, excess)


def _doubt(view: ClusterView, tracks: Tracks, load: Floats32, waited_min: float) -> Floats:
    """By broker: how far its forecast may be wrong, as a part of the mean broker's load."""
    brokers = len(view.brokers)
    looks = 1.0 + waited_min / LEVEL_MINUTES
    squares = uncertainty(tracks, load) ** 2
    whole, square = totals(np.array([carried(load), squares]), view.reporter, brokers)
    errors = DOUBT * math.sqrt(2.0 * math.log(max(2, brokers) * looks))
    found: Floats = errors * np.sqrt(square) / max(float(whole.mean()), 1e-9)
    return found
