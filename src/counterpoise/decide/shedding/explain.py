"""Makes the decisions and rejections whose explanations several shedding strategies share."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from counterpoise.decide.plan import Decision, DecisionKind, Rejection, Rule
from counterpoise.decide.shedding.candidates import Ranked
from counterpoise.load.rates import Floats, Indices
from counterpoise.load.usage import RESOURCES
from counterpoise.load.view import ClusterView

GRACE_PERIOD = "loadBalancerSheddingGracePeriodMinutes"

_NO_BROKER = Rule("no-broker", "no broker has sent a load report")
_ONE_BUNDLE = Rule(
    "single-bundle",
    "{subject} would shed, but has only one bundle: moving it would move the problem; split it",
)
_NO_BUNDLE = Rule(
    "single-bundle", "{subject} would shed, but has no bundle: its load is not Pulsar's traffic"
)
_NONE_MOVABLE = Rule(
    "no-movable-bundle",
    "{subject} would shed, but none of its {limit:.0f} bundles can move: no data yet, or bound to "
    "the broker (heartbeat, SLA monitor)",
)


def scarcest(view: ClusterView, brokers: Indices, weights: Floats) -> list[str]:
    """The resource with the highest weighted usage of each broker, by its name in load reports."""
    products = view.broker.usage[brokers].astype(np.float64) * weights
    products[np.isnan(products)] = -np.inf
    return [RESOURCES[column] for column in products.argmax(axis=1).tolist()]


def unload(
    view: ClusterView,
    broker: int,
    ranked: Ranked,
    count: int,
    reason: str,
    template: str,
    figures: Mapping[str, Any],
) -> list[Decision]:
    """Decisions to unload the first ``count`` of a broker's ranked bundles.

    Each has the broker's ``figures`` and its own bundle's ``throughput``.
    """
    source = view.brokers[broker]
    bundles = view.bundles
    return [
        Decision(
            DecisionKind.UNLOAD,
            bundles[row],
            source,
            None,
            reason,
            template,
            {**figures, "throughput": value},
        )
        for row, value in zip(
            ranked.rows[:count].tolist(), ranked.values[:count].tolist(), strict=True
        )
    ]


def no_broker() -> Rejection:
    """The rejection when the view has no broker."""
    return _NO_BROKER.refuses("cluster", 0.0, 1.0)


def lone_bundle(view: ClusterView, broker: int) -> Rejection:
    """The rejection of a broker that should shed load and has at most one bundle."""
    count = int(view.broker.bundle_count[broker])
    rule = _ONE_BUNDLE if count else _NO_BUNDLE
    return rule.refuses(view.brokers[broker], float(count), 2.0)


def no_candidates(view: ClusterView, broker: int) -> Rejection:
    """The rejection of a broker that should shed load and whose bundles may not move now."""
    rows = view.reported_by(broker)
    name = view.brokers[broker]
    recent = int(view.bundle.recently_unloaded[rows].sum())
    count = int(view.broker.bundle_count[broker])
    if recent:
        which = "{value:.0f} of its {limit:.0f} bundles" if recent < count else "all its bundles"
        rest = " and the others cannot move" if recent < count else ""
        why = (
            f"{{subject}} would shed, but {which} moved a moment ago{rest}; it waits ({{setting}})"
        )
        rule = Rule("recently-unloaded", why, GRACE_PERIOD)
        return rule.refuses(name, float(recent), float(count))
    return _NONE_MOVABLE.refuses(name, 0.0, float(count))
