"""Counterpoise: the strategy of our own."""

from collections.abc import Collection
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from counterpoise.decide.plan import Decision, DecisionKind, Rejection, StrategyPlan
from counterpoise.decide.shedding.counterpoise.columns import Cluster, capacities, scales
from counterpoise.decide.shedding.counterpoise.forecast import (
    MINUTE_MS,
    advance,
    followed,
    predicted,
)
from counterpoise.decide.shedding.counterpoise.memory import CounterpoiseMemory, Tracks
from counterpoise.decide.shedding.counterpoise.options import CounterpoiseOptions
from counterpoise.decide.shedding.counterpoise.search import search
from counterpoise.decide.shedding.counterpoise.timing import buy
from counterpoise.load.rates import Indices
from counterpoise.load.view import ClusterView, Masks


class Counterpoise:
    """Moves bundles when what an uneven cluster costs exceeds what the moves cost."""

    name = "Counterpoise"
    options = CounterpoiseOptions
    view = ClusterView

    def initial_memory(self) -> CounterpoiseMemory:
        """Nothing seen."""
        return CounterpoiseMemory()

    def memory_from_json(self, value: Any) -> CounterpoiseMemory:
        """The memory that ``to_json`` wrote."""
        return CounterpoiseMemory.from_json(value)

    def forget(self, memory: CounterpoiseMemory, active: Collection[str]) -> CounterpoiseMemory:
        """The capacities of the brokers that are left."""
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
        """Decide what moves, and where to; ``rng`` is not used."""
        del rng
        if not view.brokers:
            template = "no broker has sent a load report"
            reason = Rejection("cluster", "no-broker", 0.0, 1.0, "", template)
            return StrategyPlan((), (reason,), memory)
        tracks = advance(view, followed(view, memory), memory.seen_ms)
        tracks = _owned(view, tracks, memory.brokers, now_ms)
        load = predicted(tracks, options.horizon_minutes)
        nothing = (float("nan"),) * load.shape[1]
        remembered = np.array([memory.capacity.get(name, nothing) for name in view.brokers])
        capacity = capacities(view, options.weights.modular, remembered)
        cluster = Cluster(
            load,
            view.reporter,
            scales(load, view.reporter, capacity),
            _movable(view, tracks, now_ms, options),
            np.ones(len(view.brokers), np.bool_),
        )
        found = search(cluster, options.max_moves)
        price = options.move_price * 60.0 / options.horizon_minutes / len(view.brokers)
        bought = buy(found, price)
        decisions = tuple(
            Decision(
                DecisionKind.TRANSFER,
                view.bundles[step.bundle],
                view.brokers[step.source],
                view.brokers[step.destination],
                "Uneven",
                "{source} is the fullest broker: moving {bundle} to {destination} leaves the "
                "fullest at {fullest:.3f} of the mean",
                {"fullest": step.fullest},
            )
            for step in bought.steps
        )
        rejections = () if decisions else (_no_gain(found.fullest, price),)
        after = CounterpoiseMemory(
            view.bundles,
            view.brokers,
            tracks,
            now_ms,
            0.0,
            dict(zip(view.brokers, map(tuple, capacity.tolist()), strict=True)),
        )
        return StrategyPlan(decisions, rejections, after)


def _owned(view: ClusterView, tracks: Tracks, brokers: tuple[str, ...], now_ms: int) -> Tracks:
    """The tracks with who serves each bundle now, and since when."""
    if brokers == view.brokers:
        before: Indices = tracks.owner.astype(np.intp)
    else:
        place = np.array([view.row_of.get(name, -2) for name in brokers] + [-1], np.intp)
        before = place[tracks.owner]
    moved = (before >= 0) & (before != view.reporter) & (view.reporter >= 0)
    since = np.where(moved, now_ms, tracks.moved_ms)
    return replace(tracks, owner=view.reporter.astype(np.int32), moved_ms=since)


def _movable(view: ClusterView, tracks: Tracks, now_ms: int, options: CounterpoiseOptions) -> Masks:
    grace_ms = options.grace_minutes * MINUTE_MS
    lately = (tracks.moved_ms > 0) & (now_ms - tracks.moved_ms < grace_ms)
    movable: Masks = view.bundle.movable & ~view.bundle.recently_unloaded & ~lately
    return movable


def _no_gain(fullest: float, price: float) -> Rejection:
    return Rejection(
        "cluster",
        "not-worth-it",
        fullest,
        price,
        "counterpoiseMovePrice",
        "the fullest broker carries {value:.3f} times the mean, and no move wins the {limit:.4f} "
        "that it costs ({setting})",
    )
