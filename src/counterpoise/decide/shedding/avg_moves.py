"""Computes which bundles AvgShedder moves between a pair of brokers, in which unit, or why none."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from counterpoise.decide.plan import Decision, DecisionKind, Rejection, Rule
from counterpoise.decide.shedding.avg_pairs import Hits, Pair
from counterpoise.decide.shedding.candidates import Ranked, by_rate, by_throughput
from counterpoise.decide.shedding.explain import lone_bundle, no_broker, no_candidates
from counterpoise.decide.shedding.options import AvgOptions
from counterpoise.load.rates import Floats
from counterpoise.load.view import BOUND_TENANTS, ClusterView, Masks, bundle_namespace
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName

_LOW = "loadBalancerAvgShedderLowThreshold"
_LOW_HITS = "loadBalancerAvgShedderHitCountLowThreshold"
_HIGH_HITS = "loadBalancerAvgShedderHitCountHighThreshold"
_MIN_RATE = "minUnloadMessage"
_MIN_THROUGHPUT = "minUnloadMessageThroughput"
_MAX = "maxUnloadPercentage"

_UNEVEN = (
    "{source} scores {high:.1f}, {partner} {low:.1f}: {gap:.1f} points apart, and uneven for long "
    f"enough ({_LOW}, {_LOW_HITS}, {_HIGH_HITS}), "
    "so {quota:,.0f} {unit} may move between them "
    f"({_MAX}); "
    "{bundle} carries {throughput:,.0f} {unit}"
)
PROMISED = _UNEVEN + (
    ", and goes to {destination}: another bundle with the same statistics does, and Pulsar knows "
    "them by these"
)
"""The reason of a move whose destination is not the other broker of the pair."""
_EVEN = Rule(
    "even",
    "the busiest and the idlest broker are {value:.1f} points apart, less than the {limit:.0f} "
    "from which a pair counts ({setting})",
    _LOW,
)
_IDLE = Rule("idle-bundles", "none of the bundles of {subject} that may move carries any {unit}")
_NO_PART = Rule(
    "nothing-to-give",
    "{subject} gives up no part of what it has more than {partner} ({setting} is 0)",
    _MAX,
)
_NO_MORE = Rule(
    "nothing-to-give", "{subject} has neither more messages/s than {partner} to give, nor more B/s"
)
_WORTH = (
    "{subject} would give up {value:,.0f} {unit}, not more than the {limit:,.0f} {unit} that are "
    "worth an unload ({setting})"
)
_TOO_FEW_MESSAGES = Rule("below-minimum", _WORTH, _MIN_RATE)
_TOO_FEW_BYTES = Rule("below-minimum", _WORTH, _MIN_THROUGHPUT)


class Quota(NamedTuple):
    """How much a pair of brokers should move (messages/s if ``by_rate``, else bytes/s).

    ``worth_it``: whether that is enough to be worth an unload.
    """

    amount: float
    by_rate: bool
    worth_it: bool

    @property
    def unit(self) -> str:
        """The unit as text: messages/s or bytes/s."""
        return "messages/s" if self.by_rate else "B/s"


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Computes which bundles move between the pairs of brokers of one cluster."""

    view: ClusterView
    scores: Floats
    options: AvgOptions
    rates: Floats
    throughputs: Floats

    @staticmethod
    def of(view: ClusterView, scores: Floats, options: AvgOptions) -> "Moves":
        """Prepare the computation for a cluster's view and its brokers' scores."""
        traffic = view.broker.traffic
        return Moves(view, scores, options, traffic.rate(), traffic.throughput())

    def amounts(self, pair: Pair) -> tuple[float, float]:
        """How much a pair should move, in messages/s and in bytes/s."""
        part = self.options.limits.max_unload_percentage
        rate = float(self.rates[pair.high]) - float(self.rates[pair.low])
        throughput = float(self.throughputs[pair.high]) - float(self.throughputs[pair.low])
        return rate * part, throughput * part

    def quota(self, pair: Pair) -> Quota:
        """How much a pair should move: in messages/s or, if that is too little, in bytes/s."""
        limits = self.options.limits
        rate, throughput = self.amounts(pair)
        if rate > limits.min_unload_message:
            return Quota(rate, True, True)
        return Quota(throughput, False, throughput > limits.min_unload_throughput)

    def between(self, pairs: list[Pair]) -> list[Decision]:
        """The moves of these pairs, in their order."""
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
            "partner": view.brokers[pair.low],
            "high": float(self.scores[pair.high]),
            "low": float(self.scores[pair.low]),
            "gap": pair.gap,
            "quota": quota.amount,
            "unit": quota.unit,
        }
        return [
            Decision(
                DecisionKind.TRANSFER,
                view.bundles[row],
                view.brokers[pair.high],
                view.brokers[pair.low],
                "Uneven",
                _UNEVEN,
                {**figures, "throughput": value},
            )
            for row, value in _fitting(ranked, quota.amount)
        ]


def _fitting(ranked: Ranked, quota: float) -> Iterator[tuple[int, float]]:
    """The bundles that fit into what is left of the quota, from the busiest down."""
    for row, value in zip(ranked.rows.tolist(), ranked.values.tolist(), strict=True):
        if 0 < value <= quota:
            quota -= value
            yield row, value


def reasons(
    moves: Moves, pairs: list[Pair], ripe: list[Pair], after: Hits, moved: frozenset[str]
) -> Iterable[Rejection]:
    """Why pairs of brokers have no move, or why there are no pairs.

    ``ripe`` pairs have reached their hit count, ``after`` is the counters after this call,
    ``moved`` the brokers with moves.
    """
    names, options = moves.view.brokers, moves.options
    if not names:
        yield no_broker()
    elif not pairs:
        scores = moves.scores
        gap = float(scores.max()) - float(scores.min())
        yield _EVEN.refuses("cluster", gap, float(options.low_threshold))
    waiting = set(pairs) - set(ripe)
    for pair in pairs:
        if pair in waiting:
            yield _waiting(names[pair.high], names[pair.low], pair, options, after)
        elif names[pair.high] not in moved:
            yield _nothing_fits(moves, pair)


def _waiting(broker: str, partner: str, pair: Pair, options: AvgOptions, after: Hits) -> Rejection:
    high = not pair.gap < options.high_threshold
    counts = after.high if high else after.low
    apart = (
        "{subject} is paired with itself"
        if broker == partner
        else "{subject} is {gap:.1f} points above {partner}"
    )
    return Rejection(
        broker,
        "hit-count",
        float(max(counts.get(broker, 0), counts.get(partner, 0))),
        float(options.high_hits if high else options.low_hits),
        _HIGH_HITS if high else _LOW_HITS,
        f"{apart}, in an uneven pair in {{value:.0f}} calls by now; at {{limit:.0f}} something "
        "moves ({setting})",
        {"gap": pair.gap, "partner": partner},
    )


def _nothing_fits(moves: Moves, pair: Pair) -> Rejection:
    quota = moves.quota(pair)
    view = moves.view
    broker = view.brokers[pair.high]
    if not quota.worth_it:
        return _too_little(moves, pair)
    if not view.broker.bundle_count[pair.high]:
        return lone_bundle(view, pair.high)
    brokers = np.array([pair.high], dtype=np.intp)
    ranking = (by_rate if quota.by_rate else by_throughput)(view, brokers, movable_bundles(view))
    values = ranking[0].values
    if not len(values):
        return no_candidates(view, pair.high)
    busy = values[values > 0]
    if not len(busy):
        return _IDLE.refuses(broker, 0.0, quota.amount, unit=quota.unit)
    # With ``maxUnloadPercentage`` 1, the quota would be the pair's whole difference.
    enough = float(busy.min()) <= quota.amount / moves.options.limits.max_unload_percentage
    template = (
        "the smallest bundle of {subject} with traffic carries {value:,.0f} {unit}, more than the "
        "{limit:,.0f} {unit} to be moved; split it"
    )
    if enough:
        template += ", or raise {setting}"
    rule = Rule("too-big", template, _MAX if enough else "")
    return rule.refuses(broker, float(busy.min()), quota.amount, unit=quota.unit)


def _too_little(moves: Moves, pair: Pair) -> Rejection:
    """Why two brokers move nothing: they differ too little, in the unit closer to the limit."""
    limits, names = moves.options.limits, moves.view.brokers
    broker, partner = names[pair.high], names[pair.low]
    if not limits.max_unload_percentage:
        return _NO_PART.refuses(broker, 0.0, 0.0, partner=partner)
    rate, throughput = moves.amounts(pair)
    by_rate = rate / (limits.min_unload_message or 1) > throughput / (
        limits.min_unload_throughput or 1
    )
    amount, limit, rule, unit = (
        (rate, limits.min_unload_message, _TOO_FEW_MESSAGES, "messages/s")
        if by_rate
        else (throughput, limits.min_unload_throughput, _TOO_FEW_BYTES, "B/s")
    )
    if not amount > 0:
        return _NO_MORE.refuses(broker, 0.0, 0.0, partner=partner)
    return rule.refuses(broker, amount, float(limit), unit=unit)


def movable_bundles(view: ClusterView) -> Masks:
    """Which bundles may move: not those of brokers' own namespaces (Pulsar 4.2.4's rule)."""
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
