"""Why AvgShedder moves nothing between brokers that are uneven, or finds none uneven."""

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from counterpoise.decide.plan import Rejection
from counterpoise.decide.shedding.avg_moves import Moves, movable_bundles
from counterpoise.decide.shedding.avg_pairs import Pair
from counterpoise.decide.shedding.explain import lone_bundle, no_candidates
from counterpoise.decide.shedding.options import AvgOptions

_LOW = "loadBalancerAvgShedderLowThreshold"
_LOW_HITS = "loadBalancerAvgShedderHitCountLowThreshold"
_HIGH_HITS = "loadBalancerAvgShedderHitCountHighThreshold"
_MIN_THROUGHPUT = "minUnloadMessageThroughput"
_MAX = "maxUnloadPercentage"


class Counts(Protocol):
    """The hits of each broker after the call."""

    @property
    def low_hits(self) -> Mapping[str, int]:
        """Calls beyond the low threshold."""
        ...

    @property
    def high_hits(self) -> Mapping[str, int]:
        """Calls beyond the high threshold."""
        ...


def reasons(
    moves: Moves, pairs: list[Pair], ripe: list[Pair], after: Counts, moved: frozenset[str]
) -> Iterable[Rejection]:
    """Why nothing moves between the pairs that moved nothing."""
    names, options = moves.view.brokers, moves.options
    if not pairs:
        scores = moves.scores
        gap = float(scores.max()) - float(scores.min()) if len(scores) else 0.0
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
    broker: str, partner: str, pair: Pair, options: AvgOptions, after: Counts
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


def _nothing_fits(moves: Moves, pair: Pair) -> Rejection:
    quota = moves.quota(pair)
    view = moves.view
    broker = view.brokers[pair.high]
    if not quota.worth_it:
        return Rejection(
            broker,
            "below-minimum",
            quota.amount,
            float(moves.options.limits.min_unload_throughput),
            _MIN_THROUGHPUT,
            "{subject} would give up {value:,.0f} B/s (and too few messages/s), not more than the "
            "{limit:,.0f} that are worth an unload ({setting})",
        )
    if not view.broker.bundle_count[pair.high]:
        return lone_bundle(view, pair.high)
    rows, _ = view.candidates(np.array([pair.high], dtype=np.intp), movable_bundles(view))
    if not len(rows):
        return no_candidates(view, pair.high)
    return Rejection(
        broker,
        "too-big",
        None,
        quota.amount,
        _MAX,
        "no bundle of {subject} carries at most the {limit:,.0f} {unit} to be moved ({setting}); "
        "split its bundles",
        {"unit": quota.unit},
    )
