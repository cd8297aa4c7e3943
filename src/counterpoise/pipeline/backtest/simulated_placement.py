"""The placement of a backtest: where bundles go whose broker left."""

from collections import Counter, defaultdict
from random import Random
from typing import Any

from counterpoise.decide.balancing.as_leader import select_as_leader
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.decide.placement.selection import Chooser
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.load.view import ClusterView
from counterpoise.names.bundle import namespace_of


class SimulatedPlacement:
    """Places bundles whose broker left, as lookups would; without a strategy at random."""

    def __init__(self, strategy: BalancingStrategy | None, seed: int) -> None:
        self._strategy = strategy
        self._rng = Random(seed)
        self._memory: Any = None if strategy is None else strategy.placement.initial_memory()
        self._given: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By namespace: how many bundles each broker got since `begin`."""

    def begin(self) -> None:
        """Start to place the bundles of brokers that left at the same step."""
        self._given.clear()

    def place(self, bundle: str, view: ClusterView) -> int:
        """The index in the view of the broker that gets a bundle."""
        placed = self._placed(bundle, view, self._strategy) if self._strategy else None
        return self._rng.randrange(len(view.brokers)) if placed is None else view.row_of[placed]

    def _placed(self, bundle: str, view: ClusterView, strategy: BalancingStrategy) -> str | None:
        placement, options = strategy.placement, strategy.placement_options
        memory = placement.forget(self._memory, view.brokers)
        if strategy.as_leader is None:
            placed = placement.place(bundle, view.brokers, view, memory, options, self._rng)
        else:
            given = self._given[namespace_of(bundle)]
            chooser = Chooser(placement, view, options, self._rng)
            lookup = Decision(DecisionKind.UNLOAD, bundle, "", None, "lookup", "")
            placed = select_as_leader(
                lookup, view.brokers, chooser, memory, strategy.as_leader, given
            ).placement
            given[placed.broker or ""] += 1
        self._memory = placed.memory
        return placed.broker
