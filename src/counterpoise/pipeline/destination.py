"""Where a bundle goes, when several move in one round.

Pulsar asks its placement strategy about each bundle against the same, unchanged picture, so a round
of several bundles can pile them onto one broker. Here each move is entered into the picture before
the next is placed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import Memoryless, Placement, known_candidates, nobody
from counterpoise.decide.plan import Decision, Rejection
from counterpoise.load.rates import Rates
from counterpoise.load.view import ClusterView
from counterpoise.pipeline.rows import Column


class LeastUsage(Memoryless):
    """The broker with the least weighted usage, as long as the move makes the hottest cooler.

    One of our own. Ties go by bytes/s, then by name. A bundle that would make its destination
    as hot as its source is stays where it is: moving it would only move the problem.
    """

    name = "LeastUsage"

    def place(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: ClusterView,
        memory: None,
        options: PlacementOptions,
        rng: Random | None = None,
    ) -> Placement[None]:
        """Choose among `candidates`; the bundle's present broker is the one that reports it."""
        names, rows, unknown = known_candidates(candidates, view)
        if not names:
            return nobody(None, unknown)
        every = view.weighted_usage(options.weights.modular)
        usage, throughput = every[rows], view.broker.traffic.throughput(rows)
        best = min(range(len(names)), key=lambda i: (usage[i], throughput[i], names[i]))
        source = _reporter(view, bundle)
        if source is not None:
            after = usage[best] + _share(view, source, bundle, every[source])
            if not after < every[source]:
                return nobody(
                    None, [*unknown, _no_gain(bundle, float(after), float(every[source]))]
                )
        reason = f"{names[best]} is the least used, at {usage[best]:.1%}"
        return Placement(names[best], (names[best],), "least-usage", reason, None, unknown)


def _no_gain(bundle: str, after: float, before: float) -> Rejection:
    return Rejection(
        bundle,
        "no-gain",
        after,
        before,
        "",
        "{subject} stays: wherever it went, that broker would be used {value:.1%}, no less than "
        "the {limit:.1%} of the one it is on; split it",
    )


def _reporter(view: ClusterView, bundle: str) -> int | None:
    row = view.bundle_index(bundle)
    where = np.flatnonzero(view.members == row) if row is not None else np.zeros(0, np.intp)
    if not len(where):
        return None
    return int(np.searchsorted(view.offsets, where[0], side="right")) - 1


def _share(view: ClusterView, broker: int, bundle: str, usage: float) -> float:
    """How much of its broker's usage a bundle causes, by its part of the bytes/s."""
    row = view.bundle_index(bundle)
    total = float(view.broker.traffic.throughput()[broker])
    if row is None or total <= 0:
        return 0.0
    return float(usage * min(1.0, view.bundle.short.throughput()[row] / total))


@dataclass(frozen=True, slots=True)
class Projection:
    """The picture as it will be once the moves so far have happened."""

    view: ClusterView

    def after(self, decision: Decision) -> "Projection":
        """The picture with one more move in it."""
        view = self.view
        source = view.broker_index(decision.source)
        target = view.broker_index(decision.destination or "")
        bundle = view.bundle_index(decision.bundle)
        if source is None or target is None or bundle is None:
            return self
        broker, averages = view.broker, view.bundle
        total = float(broker.traffic.throughput()[source])
        moved = float(averages.short.throughput()[bundle])
        part = min(1.0, moved / total) if total > 0 else 0.0
        usage = broker.usage.copy()
        # What the bundle costs its source it will cost its destination, whose limits are the same.
        usage[target] += usage[source] * np.float32(part)
        usage[source] -= usage[source] * np.float32(part)
        count = broker.bundle_count.copy()
        count[source] -= 1
        count[target] += 1
        topics = broker.topics.copy()
        topics[source] -= averages.topics[bundle]
        topics[target] += averages.topics[bundle]
        moved_columns = replace(
            broker,
            usage=usage,
            bundle_count=count,
            topics=topics,
            traffic=_shifted(broker.traffic, averages.short, source, target, bundle),
            short_average=_shifted(broker.short_average, averages.short, source, target, bundle),
            long_average=_shifted(broker.long_average, averages.long, source, target, bundle),
        )
        return Projection(replace(view, broker=moved_columns))


def _shifted(brokers: Rates, bundles: Rates, source: int, target: int, bundle: int) -> Rates:
    def shift(column: Column, of_bundle: Column) -> Column:
        column = column.copy()
        amount = min(column[source], of_bundle[bundle])
        column[source] -= amount
        column[target] += amount
        return column

    names = ("rate_in", "rate_out", "throughput_in", "throughput_out")
    return Rates(*(shift(getattr(brokers, name), getattr(bundles, name)) for name in names))
