"""UniformLoadShedder: the busiest broker gives part of its lead over the idlest."""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np

from counterpoise.decide.plan import Decision, Plan, Rejection, Rejections
from counterpoise.decide.shedding import java_int
from counterpoise.decide.shedding.candidates import Ranked, by_rate, by_throughput
from counterpoise.decide.shedding.explain import lone_bundle, no_candidates, unload
from counterpoise.decide.shedding.options import UniformOptions
from counterpoise.decide.shedding.strategy import Memoryless, NoMemory
from counterpoise.load.rates import Floats
from counterpoise.load.view import ClusterView

EPSILON: Final = 1e-6
"""An idlest broker within this of zero counts as having 1 (a constant in Pulsar)."""
SLACK: Final = 1000
"""A bundle may exceed what is left to move by this much, in messages/s and bytes/s alike."""

_RATE = "loadBalancerMsgRateDifferenceShedderThreshold"
_THROUGHPUT = "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold"
_MIN_RATE = "minUnloadMessage"
_MIN_THROUGHPUT = "minUnloadMessageThroughput"
_MAX_BUNDLES = "maxUnloadBundleNumPerShedding"
_BY_RATE = (
    "{source} handles {most:,.0f} messages/s, the idlest {least:,.0f}, more than {limit:.0f}% "
    "apart: about {need:,.0f} messages/s go; {bundle} carries {throughput:,.0f}"
)
_BY_THROUGHPUT = (
    "{source} handles {most:,.0f} B/s, the idlest {least:,.0f}, more than {limit:g} times as much: "
    "about {need:,.0f} B/s go; {bundle} carries {throughput:,.0f}"
)


@dataclass(frozen=True, slots=True)
class _Gap:
    """Between the busiest and the idlest broker, in messages/s or in bytes/s."""

    source: int | None
    most: float
    least: float
    difference: float
    """Percent for rates, a ratio for throughputs."""
    limit: float
    need: int
    minimum: int

    @property
    def exceeded(self) -> bool:
        """Whether the gap is switched on and wide enough."""
        return self.limit > 0 and self.difference > self.limit


class UniformLoadShedder(Memoryless):
    """Pulsar's ``UniformLoadShedder``, decision for decision.

    When the busiest broker's messages/s are more than a percentage above the idlest's, or else its
    bytes/s more than a multiple, it gives up ``maxUnloadPercentage`` of the difference.

    Quirks kept, all from the 4.0.7 class: a bundle is taken when it carries no more than what is
    left *plus 1000*, whichever unit is counted; what is left is a 32-bit integer that cuts,
    saturates and wraps, so a broker more than 10.7 GB/s above the idlest (at 0.2) sheds nothing;
    the idlest broker's figure never counts as more than 2147483647; a rate gap wins even when it
    can move nothing. Among brokers of equal traffic, and bundles of equal traffic, any is
    admissible; here the first by name.
    """

    name = "UniformLoadShedder"
    options = UniformOptions
    view = ClusterView

    def plan(
        self,
        view: ClusterView,
        memory: NoMemory,
        options: UniformOptions,
        now_ms: int,
        rng: Random,
    ) -> Plan[NoMemory]:
        """Decide what the busiest broker gives up; ``now_ms`` and ``rng`` are not used."""
        del now_ms, rng
        rate, throughput = _rate_gap(view, options), _throughput_gap(view, options)
        gap = rate if rate.exceeded else throughput
        stops = _stops(view, gap, rate, throughput)
        if stops or gap.source is None:
            return Plan((), stops, memory)
        rank = by_rate if gap is rate else by_throughput
        ranked = rank(view, np.array([gap.source], dtype=np.intp))[0]
        picked = _take(ranked, gap.need, options.max_bundles)
        decisions = _decisions(view, gap, gap is rate, picked)
        source = gap.source
        return Plan(
            tuple(decisions),
            Rejections(lambda: _leftovers(view, source, gap, ranked, options, bool(decisions))),
            memory,
        )


def _extremes(values: Floats) -> tuple[int | None, float, float]:
    """Index of the busiest broker, its value, and the idlest value, as Java's loop finds them."""
    if not len(values):
        return None, -1.0, float(java_int.INT_MAX)
    clean = np.where(np.isnan(values), -np.inf, values)
    source = int(np.argmax(clean))
    least = float(np.fmin.reduce(values, initial=float(java_int.INT_MAX)))
    if not clean[source] > -1.0:
        return None, -1.0, least
    return source, float(clean[source]), least


def _rate_gap(view: ClusterView, options: UniformOptions) -> _Gap:
    source, most, least = _extremes(view.broker.traffic.rate())
    least = 1.0 if -EPSILON <= least <= EPSILON else least
    return _Gap(
        source,
        most,
        least,
        (most - least) * 100 / least,
        options.rate_threshold_percentage,
        java_int.cast((most - least) * options.limits.max_unload_percentage),
        options.limits.min_unload_message,
    )


def _throughput_gap(view: ClusterView, options: UniformOptions) -> _Gap:
    source, most, least = _extremes(view.broker.traffic.throughput())
    least = 1.0 if -EPSILON <= least <= EPSILON else least
    return _Gap(
        source,
        most,
        least,
        most / least,
        options.throughput_threshold_ratio,
        java_int.cast((most - least) * options.limits.max_unload_percentage),
        options.limits.min_unload_throughput,
    )


def _take(ranked: Ranked, need: int, max_bundles: int) -> Ranked:
    """The bundles that fit into what is left, going down from the busiest."""
    taken: list[int] = []
    left = need
    for place, value in enumerate(ranked.values.tolist()):
        if max_bundles != -1 and len(taken) >= max_bundles:
            break
        if value <= java_int.add(left, SLACK):
            taken.append(place)
            left = java_int.add(left, java_int.cast(-value))
    places = np.array(taken, dtype=np.intp)
    return Ranked(ranked.rows[places], ranked.values[places])


def _decisions(view: ClusterView, gap: _Gap, by_messages: bool, picked: Ranked) -> list[Decision]:
    figures = {
        "most": gap.most,
        "least": gap.least,
        "difference": gap.difference,
        "limit": gap.limit,
        "need": gap.need,
    }
    reason, template = (
        ("MessageRate", _BY_RATE) if by_messages else ("MessageThroughput", _BY_THROUGHPUT)
    )
    source = gap.source or 0
    return unload(view, source, picked, len(picked.rows), reason, template, figures)


def _stops(view: ClusterView, gap: _Gap, rate: _Gap, throughput: _Gap) -> tuple[Rejection, ...]:
    """Why nothing can move at all, or nothing to say."""
    if gap.source is None:
        return (Rejection("cluster", "no-traffic", 0.0, 0.0, "", "no broker reports any traffic"),)
    if not gap.exceeded:
        return (_even("rate-gap", rate, _RATE), _even("throughput-gap", throughput, _THROUGHPUT))
    broker = view.brokers[gap.source]
    if view.broker.bundle_count[gap.source] <= 1:
        return (lone_bundle(view, gap.source),)
    if gap.need < gap.minimum:
        return (
            Rejection(
                broker,
                "below-minimum",
                float(gap.need),
                float(gap.minimum),
                _MIN_RATE if gap is rate else _MIN_THROUGHPUT,
                "{subject} would give up {value:,.0f}, less than the {limit:,.0f} that are worth "
                "an unload ({setting})",
            ),
        )
    return ()


def _even(rule: str, gap: _Gap, setting: str) -> Rejection:
    template = "the busiest and the idlest broker differ by {value:g}, allowed is {limit:g}"
    off = "the gap in {setting} is switched off (0)"
    return Rejection(
        "cluster",
        rule,
        gap.difference,
        gap.limit,
        setting,
        template + " ({setting})" if gap.limit > 0 else off,
    )


def _leftovers(
    view: ClusterView,
    source: int,
    gap: _Gap,
    ranked: Ranked,
    options: UniformOptions,
    moved: bool,
) -> Iterable[Rejection]:
    """Why nothing was taken from a broker that should give something up."""
    if moved:
        return
    if not len(ranked.rows):
        yield no_candidates(view, source)
        return
    broker = view.brokers[source]
    if options.max_bundles == 0:
        yield Rejection(
            broker, "bundle-limit", 0.0, 0.0, _MAX_BUNDLES, "{setting} = 0 allows no unload"
        )
        return
    smallest = float(ranked.values[-1])
    limit = java_int.add(gap.need, SLACK)
    template = (
        "what {subject} should give up does not fit into 32 bits, and Pulsar then moves nothing; "
        "lower {setting}"
        if limit < 0
        else "even the smallest bundle of {subject} carries {value:,.0f}, more than the "
        "{limit:,.0f} to give up; split it, or raise {setting}"
    )
    yield Rejection(broker, "too-big", smallest, float(limit), "maxUnloadPercentage", template)
