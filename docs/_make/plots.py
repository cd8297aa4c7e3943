"""What each strategy made of the same load: replays of the backtest, drawn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import matplotlib as mpl
import numpy as np

from counterpoise.app.strategies import strategy_from
from counterpoise.decide.plan import StrategyPlan
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.load.view import ClusterView
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest.simulate import BacktestCandidate, simulate
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "counterpoise"
from matplotlib import pyplot as plt  # noqa: E402

STRATEGIES = ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder")
BROKERS, BUNDLES, HOURS = 8, 160, 4.0
SEED = 4


class Watched:
    """A strategy that is looked at while it decides: what each broker carries, each time."""

    view = ClusterView

    def __init__(self, shedder: Any, *, obeyed: bool) -> None:
        self._shedder, self._obeyed = shedder, obeyed
        self.name, self.options = shedder.name, shedder.options
        self.seen: list[tuple[int, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shedder, name)

    def forget(self, memory: Any, active: Collection[str]) -> Any:
        """As the strategy itself."""
        return self._shedder.forget(memory, active)

    def plan(
        self, view: ClusterView, memory: Any, options: Any, now_ms: int, rng: Random
    ) -> StrategyPlan[Any]:
        """Look, then let it decide."""
        self.seen.append((now_ms, view.broker.traffic.throughput()))
        made = self._shedder.plan(view, memory, options, now_ms, rng)
        return made if self._obeyed else replace(made, decisions=())


def draw(to: Path) -> None:
    """One picture for each strategy, and one of a cluster without balancing."""
    trace = SyntheticTrace("heavy-tailed", SEED, BROKERS, BUNDLES, HOURS, usage=0.45)
    conf = Properties({"loadBalancerSheddingGracePeriodMinutes": "10"})
    for name in ("none", *STRATEGIES):
        shedder = STRATEGIES[0] if name == "none" else name
        watched = Watched(SHEDDERS.find(shedder), obeyed=name != "none")
        strategy = replace(strategy_from(conf, shedder=shedder), shedder=watched)
        candidate = BacktestCandidate(name, strategy)
        result = simulate(candidate, trace, 0, trace.steps, move_s=0.1, seed=SEED)
        _picture(to / f"strategy-{name}.svg", name, watched, result)


def _picture(path: Path, name: str, watched: Watched, result: Any) -> None:
    figure, axes = plt.subplots(figsize=(7.5, 2.8), layout="constrained")
    start = watched.seen[0][0]
    minutes = [(now - start) / 60_000 for now, _ in watched.seen]
    carried = np.array([values for _, values in watched.seen]) / 1e6
    axes.plot(minutes, carried, linewidth=1.2)
    axes.set(xlabel="minutes", ylabel="MB/s of each broker", ylim=(0, None), xlim=(0, HOURS * 60))
    axes.grid(alpha=0.25)
    who = "No moves" if name == "none" else name
    axes.set_title(
        f"{who}: largest ÷ mean {result.imbalance:.2f} on average, {result.moves} moves",
        loc="left",
        fontsize=10,
    )
    figure.savefig(path, metadata={"Date": None}, transparent=True)
    plt.close(figure)
