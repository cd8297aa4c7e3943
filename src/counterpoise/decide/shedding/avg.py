"""AvgShedder (PIP-364): pair the busiest broker with the idlest, and move between the two."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from counterpoise.decide.placement.planned import load_key
from counterpoise.decide.plan import Decision, Kind, Plan, Rejection, Rejections
from counterpoise.decide.shedding.candidates import (
    Ranked,
    ascending,
    by_rate,
    by_throughput,
)
from counterpoise.decide.shedding.explain import lone_bundle, no_candidates
from counterpoise.decide.shedding.options import AvgOptions
from counterpoise.load.fields import read_integer, read_object, read_text
from counterpoise.load.rates import Floats
from counterpoise.load.view import BOUND_TENANTS, ClusterView, Masks, bundle_namespace
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName

_LOW = "loadBalancerAvgShedderLowThreshold"
_LOW_HITS = "loadBalancerAvgShedderHitCountLowThreshold"
_HIGH_HITS = "loadBalancerAvgShedderHitCountHighThreshold"
_MIN_THROUGHPUT = "minUnloadMessageThroughput"
_MAX = "maxUnloadPercentage"
_BECAUSE = (
    "{source} scores {high:.1f}, {destination} {low:.1f}: {gap:.1f} points apart long enough, so "
    "{quota:,.0f} {unit} move between them; {bundle} carries {throughput:,.0f}"
)


@dataclass(frozen=True, slots=True)
class AvgMemory:
    """How often each broker was in an uneven pair, and where bundles were promised to go.

    ``destinations`` is what the placement half of the strategy heeds: the broker that a moved
    bundle was taken away for, by :func:`~counterpoise.decide.placement.planned.load_key`. As in
    Pulsar that is the bundle's *statistics* rather than its name, so an entry is not found again
    after the next sample, and bundles with equal statistics share one.
    """

    low_hits: Mapping[str, int] = field(default_factory=dict)
    high_hits: Mapping[str, int] = field(default_factory=dict)
    destinations: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The memory as a JSON object."""
        return {
            "lowHits": dict(self.low_hits),
            "highHits": dict(self.high_hits),
            "destinations": dict(self.destinations),
        }


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two brokers whose scores are apart: indices into the view."""

    low: int
    high: int
    gap: float


class AvgShedder:
    """Pulsar's ``AvgShedder``, decision for decision of 4.2.4's class.

    Brokers are sorted by score (weighted use times 100) and paired from the outside in. A pair
    beyond the low threshold in enough calls in a row, or beyond the high one in fewer, moves
    ``maxUnloadPercentage`` of its difference in messages/s, or in bytes/s when the former is not
    worth it, from the one to the other, as many of the busiest bundles as fit.

    Quirks kept: hits are counted per broker, not per pair, so a broker that changes partner keeps
    its count; a middle broker is paired with itself; a pair that has its hits loses them even when
    nothing can move; a broker's only bundle can be moved; counts of brokers that left stay.

    Different from 4.0.7 on purpose: its comparator cuts the difference of two scores to an integer,
    which is no order and can throw; 4.2.4 compares the scores themselves, and so does this class.
    As in 4.2.4 the namespaces that stay with their broker are ``pulsar/<host>:<port>`` and
    ``sla-monitor/<host>:<port>``; the names of three parts that 4.0.7 knows are not among them.
    Among brokers with equal scores any order is admissible, and any bundle among equals.
    """

    name = "AvgShedder"
    options = AvgOptions
    view = ClusterView

    def initial_memory(self) -> AvgMemory:
        """No hits, no promises."""
        return AvgMemory()

    def memory_from_json(self, value: Any) -> AvgMemory:
        """The memory that ``to_json`` wrote."""
        fields = read_object(value, "memory")
        low, high, destinations = (
            read_object(fields.get(name, {}), f"memory.{name}")
            for name in ("lowHits", "highHits", "destinations")
        )
        return AvgMemory(
            {name: read_integer(hits, f"memory.lowHits[{name!r}]") for name, hits in low.items()},
            {name: read_integer(hits, f"memory.highHits[{name!r}]") for name, hits in high.items()},
            {n: read_text(to, f"memory.destinations[{n!r}]") for n, to in destinations.items()},
        )

    def forget(self, memory: AvgMemory, active: Collection[str]) -> AvgMemory:
        """Nothing: Pulsar's class keeps the counts of brokers that left."""
        del active
        return memory

    def plan(
        self,
        view: ClusterView,
        memory: AvgMemory,
        options: AvgOptions,
        now_ms: int,
        rng: Random,
    ) -> Plan[AvgMemory]:
        """Decide what moves between uneven pairs; ``now_ms`` and ``rng`` are not used."""
        del now_ms, rng
        with np.errstate(all="ignore"):
            scores = view.weighted_usage(options.weights.modular) * 100.0
        hits = _Hits(dict(memory.low_hits), dict(memory.high_hits))
        pairs = _pairs(view, scores, options, hits)
        names = view.brokers
        ripe = [pair for pair in pairs if hits.ripe((names[pair.low], names[pair.high]), options)]
        moves = _Moves(view, scores, options, _movable(view) if ripe else view.bundle.movable)
        decisions = [decision for pair in ripe for decision in moves.of(pair)]
        promised = {load_key(view, move.bundle): str(move.destination) for move in decisions}
        after = AvgMemory(hits.low, hits.high, {**memory.destinations, **promised})
        moved = frozenset(decision.source for decision in decisions)
        return Plan(
            tuple(decisions),
            Rejections(lambda: _rejections(moves, pairs, ripe, after, moved)),
            after,
        )


@dataclass(slots=True)
class _Hits:
    """The counters while one call works on them."""

    low: dict[str, int]
    high: dict[str, int]

    def drop(self, *names: str) -> None:
        """Forget these brokers' counts."""
        for name in names:
            self.low.pop(name, None)
            self.high.pop(name, None)

    def count(self, pair: tuple[str, str], far_apart: bool) -> None:
        """One more call in which both brokers were in an uneven pair."""
        for name in pair:
            self.low[name] = self.low.get(name, 0) + 1
        for name in pair:
            if far_apart:
                self.high[name] = self.high.get(name, 0) + 1
            else:
                self.high.pop(name, None)

    def ripe(self, pair: tuple[str, str], options: AvgOptions) -> bool:
        """Whether a pair has its hits; a pair that has them loses them."""
        low, high = self.low.get, self.high.get
        ripe = any(
            high(name, 0) >= options.high_hits or low(name, 0) >= options.low_hits for name in pair
        )
        if ripe:
            self.drop(*pair)
        return ripe


def _pairs(view: ClusterView, scores: Floats, options: AvgOptions, hits: _Hits) -> list[_Pair]:
    """The uneven pairs from the outside in, counted into ``hits``."""
    order = ascending(scores)
    half = (len(order) + 1) // 2
    with np.errstate(all="ignore"):
        gaps = (scores[order[::-1][:half]] - scores[order[:half]]).tolist()
    places, names = order.tolist(), view.brokers
    pairs = []
    for rank, gap in enumerate(gaps):
        low, high = places[rank], places[-1 - rank]
        if gap < options.low_threshold:
            hits.drop(names[low], names[high])
            continue
        pairs.append(_Pair(low, high, gap))
        hits.count((names[low], names[high]), not gap < options.high_threshold)
    if not pairs:
        hits.low.clear()
        hits.high.clear()
    return pairs


def _movable(view: ClusterView) -> Masks:
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


@dataclass(frozen=True, slots=True, eq=False)
class _Moves:
    """What a ripe pair moves."""

    view: ClusterView
    scores: Floats
    options: AvgOptions
    movable: Masks

    def quota(self, pair: _Pair) -> tuple[float, str]:
        """How much to move, and in which unit; the rate counts unless it is not worth it."""
        limits, traffic = self.options.limits, self.view.broker.traffic
        rates, throughputs = traffic.rate(), traffic.throughput()
        quota = float(rates[pair.high] - rates[pair.low]) * limits.max_unload_percentage
        if quota > limits.min_unload_message:
            return quota, "messages/s"
        quota = float(throughputs[pair.high] - throughputs[pair.low])
        return quota * limits.max_unload_percentage, "B/s"

    def worth_it(self, quota: float, unit: str) -> bool:
        """Whether a quota is large enough to unload anything."""
        return unit != "B/s" or quota > self.options.limits.min_unload_throughput

    def of(self, pair: _Pair) -> list[Decision]:
        """As many of the busier broker's busiest bundles as fit into the quota."""
        quota, unit = self.quota(pair)
        if not self.worth_it(quota, unit):
            return []
        view = self.view
        rank = by_throughput if unit == "B/s" else by_rate
        ranked = rank(view, pair.high, self.movable)
        figures = {
            "high": float(self.scores[pair.high]),
            "low": float(self.scores[pair.low]),
            "gap": pair.gap,
            "quota": quota,
            "unit": unit,
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
            for row, value in _fitting(ranked, quota)
        ]


def _fitting(ranked: Ranked, quota: float) -> Iterable[tuple[int, float]]:
    """The bundles that fit into what is left of the quota, going down from the busiest."""
    for row, value in zip(ranked.rows.tolist(), ranked.values.tolist(), strict=True):
        if 0 < value <= quota:
            quota -= value
            yield row, value


def _rejections(
    moves: _Moves, pairs: list[_Pair], ripe: list[_Pair], after: AvgMemory, moved: frozenset[str]
) -> Iterable[Rejection]:
    """Why nothing moves between the pairs that moved nothing."""
    names, options = moves.view.brokers, moves.options
    if not pairs:
        scores = moves.scores
        gap = float(scores.max() - scores.min()) if len(scores) else 0.0
        yield Rejection(
            "cluster",
            "even",
            gap,
            float(options.low_threshold),
            _LOW,
            "the busiest and the idlest broker are {value:.1f} points apart, less than the "
            "{limit:.0f} from which a pair counts ({setting})",
        )
    waiting = set(pairs) - set(ripe)
    for pair in pairs:
        if pair in waiting:
            yield _waiting(names[pair.high], names[pair.low], pair, options, after)
        elif names[pair.high] not in moved:
            yield _nothing_fits(moves, pair)


def _waiting(
    broker: str, partner: str, pair: _Pair, options: AvgOptions, after: AvgMemory
) -> Rejection:
    high = not pair.gap < options.high_threshold
    counts = after.high_hits if high else after.low_hits
    return Rejection(
        broker,
        "hit-count",
        float(max(counts.get(broker, 0), counts.get(partner, 0))),
        float(options.high_hits if high else options.low_hits),
        _HIGH_HITS if high else _LOW_HITS,
        "{subject} is {gap:.1f} points above {partner} for {value:.0f} calls now; at {limit:.0f} "
        "something moves ({setting})",
        {"gap": pair.gap, "partner": partner},
    )


def _nothing_fits(moves: _Moves, pair: _Pair) -> Rejection:
    quota, unit = moves.quota(pair)
    broker = moves.view.brokers[pair.high]
    if not moves.worth_it(quota, unit):
        return Rejection(
            broker,
            "below-minimum",
            quota,
            float(moves.options.limits.min_unload_throughput),
            _MIN_THROUGHPUT,
            "{subject} would give up {value:,.0f} B/s (and too few messages/s), not more than the "
            "{limit:,.0f} that are worth an unload ({setting})",
        )
    if not moves.view.broker.bundle_count[pair.high]:
        return lone_bundle(moves.view, pair.high)
    if not len(moves.view.candidates(pair.high, moves.movable)):
        return no_candidates(moves.view, pair.high)
    return Rejection(
        broker,
        "too-big",
        None,
        quota,
        _MAX,
        "no bundle of {subject} carries at most the {limit:,.0f} {unit} to be moved ({setting}); "
        "split its bundles",
        {"unit": unit},
    )
