"""OverloadShedder: a broker above a fixed usage sheds its busiest bundles."""

from collections.abc import Iterable
from random import Random
from typing import Final

import numpy as np

from counterpoise.decide.memory import Memoryless, NoMemory
from counterpoise.decide.plan import Decision, Rejection, Rule, StrategyPlan
from counterpoise.decide.shedding import explain
from counterpoise.decide.shedding.candidates import by_throughput, how_many
from counterpoise.decide.shedding.options import OverloadOptions
from counterpoise.load.rates import Floats
from counterpoise.load.usage import RESOURCES
from counterpoise.load.view import ClusterView

MARGIN: Final = 0.05
"""A broker sheds this much more than it takes to reach the limit (a constant in Pulsar)."""

_SETTING = "loadBalancerBrokerOverloadedThresholdPercentage"
_BECAUSE = (
    "{source} uses {usage:.1%} of its {resource}{weighted}, and sheds from {limit:.0%} on "
    f"({_SETTING}): its busiest bundles go until "
    "{need:,.0f} B/s have left; {bundle} carries {throughput:,.0f} B/s"
)

_NO_USAGE = Rule("no-usage", "{subject} reports no usage that is a number")
_BELOW = Rule(
    "below-threshold",
    "{subject} uses {value:.1%} of its scarcest resource, below {limit:.0%}, where shedding begins "
    "({setting})",
    _SETTING,
)


class OverloadShedder(Memoryless):
    """Pulsar's ``OverloadShedder``, decision for decision.

    A broker whose weighted use is *at or* above the threshold sheds
    ``(use - threshold + 0.05)`` of its bytes/s, busiest bundles first, at least one bundle, and
    only if it reports more than one. Among bundles of equal throughput any is admissible.
    """

    name = "OverloadShedder"
    options = OverloadOptions
    view = ClusterView

    def plan(
        self,
        view: ClusterView,
        memory: NoMemory,
        options: OverloadOptions,
        now_ms: int,
        rng: Random,
    ) -> StrategyPlan[NoMemory]:
        """Decide what every overloaded broker sheds; ``now_ms`` and ``rng`` are not used."""
        del now_ms, rng
        weights = options.weights.modular
        usage = view.weighted_usage(weights)
        limit = options.overloaded_threshold_percentage / 100.0
        with np.errstate(all="ignore"):
            excess = usage - limit + MARGIN
            need = (view.broker.traffic.throughput() * excess).tolist()
            decisions = _decide(view, usage, limit, need, weights)
        chosen = frozenset(decision.source for decision in decisions)
        return StrategyPlan(
            tuple(decisions), tuple(_rejections(view, usage, limit, chosen)), memory
        )


def _decide(
    view: ClusterView, usage: Floats, limit: float, need: list[float], weights: Floats
) -> list[Decision]:
    sheds = np.flatnonzero(~(usage < limit) & (view.broker.bundle_count > 1))
    ranking = by_throughput(view, sheds)
    resources = explain.scarcest(view, sheds, weights)
    decisions: list[Decision] = []
    for place, broker in enumerate(sheds.tolist()):
        ranked = ranking[place]
        figures = {
            "usage": float(usage[broker]),
            "limit": limit,
            "need": need[broker],
            "resource": resources[place],
            "weighted": "" if weights[RESOURCES.index(resources[place])] == 1 else ", weighted",
        }
        count = how_many(ranked.values, need[broker])
        decisions += explain.unload(view, broker, ranked, count, "Overloaded", _BECAUSE, figures)
    return decisions


def _rejections(
    view: ClusterView, usage: Floats, limit: float, chosen: frozenset[str]
) -> Iterable[Rejection]:
    if not view.brokers:
        yield explain.no_broker()
    for index, broker in enumerate(view.brokers):
        if usage[index] == -np.inf:
            yield _NO_USAGE.refuses(broker, None, limit)
        elif usage[index] < limit:
            yield _BELOW.refuses(broker, float(usage[index]), limit)
        elif view.broker.bundle_count[index] <= 1:
            yield explain.lone_bundle(view, index)
        elif broker not in chosen:
            yield explain.no_candidates(view, index)
