"""What a pair of brokers moves under AvgShedder, and in which unit it is counted."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from counterpoise.decide.plan import Decision, Kind
from counterpoise.decide.shedding.avg_pairs import Pair
from counterpoise.decide.shedding.candidates import Ranked, by_rate, by_throughput
from counterpoise.decide.shedding.options import AvgOptions
from counterpoise.load.rates import Floats
from counterpoise.load.view import BOUND_TENANTS, ClusterView, Masks, bundle_namespace
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName

_BECAUSE = (
    "{source} scores {high:.1f}, {destination} {low:.1f}: {gap:.1f} points apart long enough, so "
    "{quota:,.0f} {unit} move between them; {bundle} carries {throughput:,.0f}"
)


class Quota(NamedTuple):
    """How much a pair should move, in messages/s or in bytes/s, and whether that is worth it."""

    amount: float
    by_rate: bool
    worth_it: bool

    @property
    def unit(self) -> str:
        """The unit in words."""
        return "messages/s" if self.by_rate else "B/s"


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Works out what pairs move in one cluster."""

    view: ClusterView
    scores: Floats
    options: AvgOptions
    rates: Floats
    throughputs: Floats

    @staticmethod
    def of(view: ClusterView, scores: Floats, options: AvgOptions) -> "Moves":
        """Moves in this cluster."""
        traffic = view.broker.traffic
        return Moves(view, scores, options, traffic.rate(), traffic.throughput())

    def quota(self, pair: Pair) -> Quota:
        """Part of the pair's difference in messages/s or, where that is too little, in bytes/s."""
        limits = self.options.limits
        apart = float(self.rates[pair.high]) - float(self.rates[pair.low])
        amount = apart * limits.max_unload_percentage
        if amount > limits.min_unload_message:
            return Quota(amount, True, True)
        apart = float(self.throughputs[pair.high]) - float(self.throughputs[pair.low])
        amount = apart * limits.max_unload_percentage
        return Quota(amount, False, amount > limits.min_unload_throughput)

    def between(self, pairs: list[Pair]) -> list[Decision]:
        """What these pairs move, in their order."""
        movable = movable_bundles(self.view)
        brokers = np.array([pair.high for pair in pairs], dtype=np.intp)
        rates = by_rate(self.view, brokers, movable)
        throughputs = by_throughput(self.view, brokers, movable)
        decisions = []
        for place, pair in enumerate(pairs):
            quota = self.quota(pair)
            if quota.worth_it:
                ranked = (rates if quota.by_rate else throughputs)[place]
                decisions += self._decisions(pair, quota, ranked)
        return decisions

    def _decisions(self, pair: Pair, quota: Quota, ranked: Ranked) -> list[Decision]:
        view = self.view
        figures = {
            "high": float(self.scores[pair.high]),
            "low": float(self.scores[pair.low]),
            "gap": pair.gap,
            "quota": quota.amount,
            "unit": quota.unit,
        }
        return [
            Decision(
                Kind.TRANSFER,
                view.bundles[row],
                view.brokers[pair.high],
                view.brokers[pair.low],
                "Uneven",
                _BECAUSE,
                {**figures, "throughput": value},
            )
            for row, value in _fitting(ranked, quota.amount)
        ]


def _fitting(ranked: Ranked, quota: float) -> Iterator[tuple[int, float]]:
    """The bundles that fit into what is left of the quota, going down from the busiest."""
    for row, value in zip(ranked.rows.tolist(), ranked.values.tolist(), strict=True):
        if 0 < value <= quota:
            quota -= value
            yield row, value


def movable_bundles(view: ClusterView) -> Masks:
    """Which bundles may move by 4.2.4's rule; the names are sorted, so few need a look."""
    movable = np.ones(len(view.bundles), dtype=np.bool_)
    for tenant in BOUND_TENANTS:
        start = bisect_left(view.bundles, tenant)
        end = bisect_left(view.bundles, tenant[:-1] + "0")  # "0" follows "/"
        for row in range(start, end):
            movable[row] = not _bound(bundle_namespace(view.bundles[row]))
    return movable


def _bound(namespace: str) -> bool:
    try:
        return NamespaceName.parse(namespace).bound_broker is not None
    except InvalidName:
        return False
