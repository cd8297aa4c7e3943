"""ThresholdShedder, Pulsar's default: brokers well above the cluster's average usage shed load."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import numpy as np

from counterpoise.decide.memory import Remembering
from counterpoise.decide.plan import Decision, Rejection, Rule, StrategyPlan
from counterpoise.decide.shedding.candidates import by_throughput, how_many
from counterpoise.decide.shedding.explain import lone_bundle, no_broker, no_candidates, unload
from counterpoise.decide.shedding.options import ThresholdOptions
from counterpoise.load.fields import JsonObject
from counterpoise.load.rates import Floats, Indices, sum_in_order
from counterpoise.load.view import ClusterView

MARGIN: Final = 0.05
"""A broker sheds this much more than it takes to reach the threshold (a constant in Pulsar)."""
MIB: Final = 1048576.0
LOWER_BOUNDARY_SHARE: Final = 0.5
"""The part of the threshold that is shed when another broker is below the lower boundary (a
constant in Pulsar)."""

_THRESHOLD = "loadBalancerBrokerThresholdShedderPercentage"
_MIN_THROUGHPUT = "loadBalancerBundleUnloadMinThroughputThreshold"
_LOWER = "lowerBoundarySheddingEnabled"
_ABOVE = (
    "{source} averages {usage:.1%}, the cluster {average:.1%}, and sheds from {threshold:.0%} "
    f"above it on ({_THRESHOLD}): its busiest bundles go until "
    "{need:,.0f} B/s have left; {bundle} carries {throughput:,.0f} B/s"
)
_BELOW = (
    "another broker is more than {threshold:.0%} below the cluster's {average:.1%}, so {source}, "
    "at {usage:.1%} the busiest with more than one bundle, gives up {need:,.0f} B/s "
    f"({_LOWER}); "
    "{bundle} carries {throughput:,.0f} B/s"
)
_BELOW_AVERAGE = Rule(
    "below-average", "{subject} averages {value:.1%}, below the cluster's average of {limit:.1%}"
)
_BELOW_THRESHOLD = Rule(
    "below-threshold",
    "{subject} averages {value:.1%}, below {limit:.1%}, the cluster's average plus {setting}",
    _THRESHOLD,
)
_TOO_LITTLE = Rule(
    "below-minimum-throughput",
    "{subject} would shed {value:,.0f} B/s, less than the {limit:,.0f} B/s that are worth an "
    "unload ({setting}, in MiB/s)",
    _MIN_THROUGHPUT,
)
_NO_LOAD = Rule("no-usage", "the cluster's average usage is 0: there is nothing to even out")
_NO_RELIEF = Rule(
    "no-broker-to-relieve",
    "no broker above {limit:.1%} has more than one bundle to give to the idle ones ({setting})",
    _LOWER,
)
_NONE_BELOW = Rule(
    "no-broker-below", "no broker is below the cluster's average, so none has to be filled"
)
_NONE_FAR_BELOW = Rule(
    "no-broker-below",
    "the idlest broker is {value:.1%} below the cluster's average, and has to be more than "
    "{limit:.1%} below it ({setting})",
    _THRESHOLD,
)


@dataclass(frozen=True, slots=True)
class ThresholdMemory(JsonObject):
    """The smoothed usage of each broker, as a fraction."""

    usage: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Cluster:
    """The smoothed usages of the brokers at one call, and the figures computed from them."""

    view: ClusterView
    usage: Floats
    average: float
    threshold: float
    floor: float
    """The least bytes/s that a broker sheds; one that would shed fewer sheds nothing."""
    need: Floats
    """Bytes/s that each broker would shed."""

    @property
    def over(self) -> Any:
        """Which brokers are at or above the threshold."""
        return ~(self.usage < self.average + self.threshold)


class ThresholdShedder(Remembering[ThresholdMemory]):
    """Pulsar's ``ThresholdShedder``, decision for decision.

    Each call adds the reported usage of every broker to its moving average. A broker whose average
    usage is at or above the mean of all plus the threshold sheds ``(usage - mean - threshold +
    0.05)`` of its bytes/s, busiest bundles first, unless that is below the minimum throughput or it
    reports fewer than two bundles.

    Quirks kept: the moving averages of brokers that left stay until :meth:`forget`; a broker's
    moving average begins with its first usage; a mean of exactly 0 ends the call; with the lower
    boundary enabled, a call that sheds nothing above the threshold updates the moving averages
    *twice*; the broker chosen for the lower boundary may itself be below the mean. The mean is
    summed by broker name, where Java sums in a hash table's order: within rounding any sum is
    admissible. Among bundles of equal throughput any is admissible.
    """

    name = "ThresholdShedder"
    options = ThresholdOptions
    view = ClusterView
    remembers = ThresholdMemory

    def forget(self, memory: ThresholdMemory, active: Collection[str]) -> ThresholdMemory:
        """The memory without the brokers that left."""
        return ThresholdMemory({n: value for n, value in memory.usage.items() if n in active})

    def plan(
        self,
        view: ClusterView,
        memory: ThresholdMemory,
        options: ThresholdOptions,
        now_ms: int,
        rng: Random,
    ) -> StrategyPlan[ThresholdMemory]:
        """Decide what brokers above the average shed; ``now_ms`` and ``rng`` are not used."""
        del now_ms, rng
        with np.errstate(all="ignore"):
            return self._plan(view, memory, options)

    def _plan(
        self, view: ClusterView, memory: ThresholdMemory, options: ThresholdOptions
    ) -> StrategyPlan[ThresholdMemory]:
        latest = view.weighted_usage(options.weights.modular)
        memory, cluster = _step(view, memory, latest, options)
        if cluster.average == 0:
            idle = _NO_LOAD.refuses("cluster", 0.0, 0.0) if view.brokers else no_broker()
            return StrategyPlan((), (idle,), memory)
        decisions = _above(cluster)
        if decisions or not options.lower_boundary:
            chosen = frozenset(decision.source for decision in decisions)
            return StrategyPlan(tuple(decisions), tuple(_rejections(cluster, chosen)), memory)
        memory, again = _step(view, memory, latest, options)
        decisions, stopped = _below(again)
        chosen = frozenset(decision.source for decision in decisions)
        return StrategyPlan(tuple(decisions), (*_rejections(cluster, chosen), *stopped), memory)


def _step(
    view: ClusterView, memory: ThresholdMemory, latest: Floats, options: ThresholdOptions
) -> tuple[ThresholdMemory, _Cluster]:
    """Smooth the usages by one step, and return the cluster with them."""
    past = memory.usage
    history = options.history_percentage
    known = np.array([name in past for name in view.brokers], dtype=np.bool_)
    before = np.array([past.get(name, 0.0) for name in view.brokers], dtype=np.float64)
    threshold = options.threshold_percentage / 100.0
    usage = np.where(known, before * history + (1 - history) * latest, latest)
    count = len(view.brokers)
    average = sum_in_order(usage) / count if count else 0.0
    need = view.broker.traffic.throughput() * (usage - average - threshold + MARGIN)
    moved = {**past, **dict(zip(view.brokers, usage.tolist(), strict=True))}
    floor = options.min_throughput_mib * MIB
    return ThresholdMemory(moved), _Cluster(view, usage, average, threshold, floor, need)


def _above(cluster: _Cluster) -> list[Decision]:
    """The decisions for brokers above the average."""
    bundles = cluster.view.broker.bundle_count
    sheds = cluster.over & ~(cluster.need < cluster.floor) & (bundles > 1)
    return _unload(cluster, np.flatnonzero(sheds), cluster.need.tolist(), "AboveAverage", _ABOVE)


def _unload(
    cluster: _Cluster, brokers: Indices, need: Sequence[float], reason: str, template: str
) -> list[Decision]:
    view, decisions = cluster.view, []
    ranking = by_throughput(view, brokers)
    for place, broker in enumerate(brokers.tolist()):
        ranked = ranking[place]
        figures = {
            "usage": float(cluster.usage[broker]),
            "average": cluster.average,
            "threshold": cluster.threshold,
            "need": need[broker],
        }
        count = how_many(ranked.values, need[broker])
        decisions += unload(view, broker, ranked, count, reason, template, figures)
    return decisions


def _below(cluster: _Cluster) -> tuple[list[Decision], list[Rejection]]:
    """Decisions for the busiest broker if another is far below the average, or why none."""
    view, bound = cluster.view, cluster.average - cluster.threshold
    if not (cluster.usage < bound).any():
        return [], [_none_below(cluster)]
    eligible = (view.broker.bundle_count > 1) & (cluster.usage > bound)
    if not eligible.any():
        return [], [_NO_RELIEF.refuses("cluster", None, bound)]
    broker = int(np.argmax(np.where(eligible, cluster.usage, -np.inf)))
    needs = view.broker.traffic.throughput() * cluster.threshold * LOWER_BOUNDARY_SHARE
    if cluster.floor > needs[broker]:
        return [], [_TOO_LITTLE.refuses(view.brokers[broker], float(needs[broker]), cluster.floor)]
    chosen = np.array([broker], dtype=np.intp)
    decisions = _unload(cluster, chosen, needs.tolist(), "LowerBoundary", _BELOW)
    return decisions, [] if decisions else [no_candidates(view, broker)]


def _none_below(cluster: _Cluster) -> Rejection:
    below = cluster.average - float(np.fmin.reduce(cluster.usage))
    if not below > 0:
        return _NONE_BELOW.refuses("cluster", 0.0, cluster.threshold)
    return _NONE_FAR_BELOW.refuses("cluster", below, cluster.threshold)


def _rejections(cluster: _Cluster, chosen: frozenset[str]) -> Iterable[Rejection]:
    """The reason for each broker that sheds nothing."""
    view, limit = cluster.view, cluster.average + cluster.threshold
    for index, broker in enumerate(view.brokers):
        if broker in chosen:
            continue
        if cluster.usage[index] < cluster.average:
            yield _BELOW_AVERAGE.refuses(broker, float(cluster.usage[index]), cluster.average)
        elif cluster.usage[index] < limit:
            yield _BELOW_THRESHOLD.refuses(broker, float(cluster.usage[index]), limit)
        elif cluster.need[index] < cluster.floor:
            yield _TOO_LITTLE.refuses(broker, float(cluster.need[index]), cluster.floor)
        elif view.broker.bundle_count[index] <= 1:
            yield lone_bundle(view, index)
        else:
            yield no_candidates(view, index)
