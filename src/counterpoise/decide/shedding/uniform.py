"""UniformLoadShedder: the busiest broker sheds part of its difference to the least busy one."""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np

from counterpoise.decide.memory import Memoryless, NoMemory
from counterpoise.decide.plan import Decision, Rejection, Rule, StrategyPlan
from counterpoise.decide.shedding.candidates import Ranked, by_rate, by_throughput
from counterpoise.decide.shedding.explain import lone_bundle, no_broker, no_candidates, unload
from counterpoise.decide.shedding.options import UniformOptions
from counterpoise.load import java_int
from counterpoise.load.rates import Floats
from counterpoise.load.view import ClusterView

EPSILON: Final = 1e-6
"""The least busy broker's load counts as 1 if it is at most this (a constant in Pulsar)."""
SLACK: Final = 1000
"""A bundle may exceed what is left to move by this much, in messages/s and bytes/s alike."""

_RATE = "loadBalancerMsgRateDifferenceShedderThreshold"
_THROUGHPUT = "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold"
_MIN_RATE = "minUnloadMessage"
_MIN_THROUGHPUT = "minUnloadMessageThroughput"
_MAX_BUNDLES = "maxUnloadBundleNumPerShedding"
_MAX = "maxUnloadPercentage"
_BY_RATE = (
    "{source} handles {most:,.0f} messages/s, more than {limit:,.10g}% above the idlest broker's "
    f"{{idlest}} ({_RATE}): "
    f"about {{need:,.0f}} messages/s go ({_MAX}); "
    "{bundle} carries {throughput:,.0f} messages/s"
)
_BY_THROUGHPUT = (
    "{source} handles {most:,.0f} B/s, more than {limit:,.10g} times the idlest broker's "
    f"{{idlest}} ({_THROUGHPUT}): "
    f"about {{need:,.0f}} B/s go ({_MAX}); "
    "{bundle} carries {throughput:,.0f} B/s"
)


_RATE_EVEN = (
    "the busiest broker handles {most:,.0f} messages/s and the idlest {idlest}; more than "
    "{limit:,.10g}% above that would be too much ({setting})"
)
_THROUGHPUT_EVEN = (
    "the busiest broker handles {most:,.0f} B/s and the idlest {idlest}; more than "
    "{limit:,.10g} times that would be too much ({setting})"
)

_NO_TRAFFIC = Rule("no-traffic", "no broker reports traffic that is a number")
_WORTH = (
    "{subject} would give up {value:,.0f} {unit}, less than the {limit:,.0f} {unit} that are worth "
    "an unload ({setting})"
)
_TOO_FEW_MESSAGES = Rule("below-minimum", _WORTH, _MIN_RATE)
_TOO_FEW_BYTES = Rule("below-minimum", _WORTH, _MIN_THROUGHPUT)
_NO_UNLOADS = Rule("bundle-limit", "{setting} = 0 allows no unload", _MAX_BUNDLES)
_OVERFLOWS = Rule(
    "too-big",
    "what {subject} should give up does not fit into 32 bits, and Pulsar then moves nothing; "
    "lower {setting}",
    _MAX,
)
_TOO_BIG = Rule(
    "too-big",
    "even the smallest bundle of {subject} carries {value:,.0f} {unit}, more than the "
    "{limit:,.0f} {unit} to give up; split it, or raise {setting}",
    _MAX,
)


@dataclass(frozen=True, slots=True)
class _Gap:
    """The difference between the busiest and the least busy broker, in messages/s or bytes/s."""

    source: int | None
    most: float
    least: float
    """The least busy broker's load as it is compared: 1 if it is 0, and at most 2147483647."""
    idlest: str
    """The least busy broker's load as text, with a note if another value is compared."""
    difference: float
    """Percent for rates, a ratio for throughputs."""
    limit: float
    need: int
    minimum: int

    @property
    def exceeded(self) -> bool:
        """Whether the threshold for this difference is enabled and exceeded."""
        return self.limit > 0 and self.difference > self.limit


class UniformLoadShedder(Memoryless):
    """Pulsar's ``UniformLoadShedder``, decision for decision.

    When the busiest broker's messages/s are more than a percentage above the idlest's, or else its
    bytes/s more than a multiple, it sheds ``maxUnloadPercentage`` of the difference.

    Quirks kept, all from the 4.0.7 class: a bundle is chosen if it carries no more than what is
    left *plus 1000*, whichever unit is counted; what is left is a 32-bit integer that truncates,
    saturates and wraps, so a broker more than 10.7 GB/s above the idlest (at 0.2) sheds nothing;
    the idlest broker's figure never counts as more than 2147483647; a difference in messages/s
    takes precedence even if no bundle can be moved for it. Among brokers of equal traffic, and
    bundles of equal traffic, any is admissible; here the first by name.
    """

    name = "UniformLoadShedder"
    options = UniformOptions
    view = ClusterView

    def plan(
        self, view: ClusterView, memory: NoMemory, options: UniformOptions, now_ms: int, rng: Random
    ) -> StrategyPlan[NoMemory]:
        """Decide what the busiest broker sheds; ``now_ms`` and ``rng`` are not used."""
        del now_ms, rng
        traffic = view.broker.traffic
        rate = _gap(traffic.rate(), options, by_messages=True)
        throughput = _gap(traffic.throughput(), options, by_messages=False)
        gap = rate if rate.exceeded else throughput
        stops = _stops(view, gap, rate, throughput)
        if stops or gap.source is None:
            return StrategyPlan((), stops, memory)
        rank = by_rate if gap is rate else by_throughput
        ranked = rank(view, np.array([gap.source], dtype=np.intp))[0]
        picked = _take(ranked, gap.need, options.max_bundles)
        decisions = _decisions(view, gap, gap is rate, picked)
        return StrategyPlan(
            tuple(decisions),
            ()
            if decisions
            else tuple(_leftovers(view, gap.source, gap, ranked, options, by_messages=gap is rate)),
            memory,
        )


def _extremes(values: Floats) -> tuple[int | None, float, float]:
    """Index and value of the busiest broker, and the smallest value, as Java's loop finds them."""
    if not len(values):
        return None, -1.0, float(java_int.INT_MAX)
    clean = np.where(np.isnan(values), -np.inf, values)
    source = int(np.argmax(clean))
    least = float(np.fmin.reduce(values, initial=float(java_int.INT_MAX)))
    if not clean[source] > -1.0:
        return None, -1.0, least
    return source, float(clean[source]), least


def _idlest(least: float, counted: float) -> str:
    if least >= java_int.INT_MAX:
        return f"{java_int.INT_MAX:,} (more does not count)"
    return f"{least:,.0f}" if least == counted else "0 (counted as 1)"


def _gap(values: Floats, options: UniformOptions, *, by_messages: bool) -> _Gap:
    """The difference between the busiest and the least busy broker in `values` (messages/s, or
    bytes/s), with the limits that apply to it.
    """
    source, most, least = _extremes(values)
    counted = 1.0 if -EPSILON <= least <= EPSILON else least
    limits = options.limits
    if by_messages:
        difference = (most - counted) * 100 / counted
        limit, minimum = options.rate_threshold_percentage, limits.min_unload_message
    else:
        difference = most / counted
        limit, minimum = options.throughput_threshold_ratio, limits.min_unload_throughput
    need = java_int.cast((most - counted) * limits.max_unload_percentage)
    return _Gap(source, most, counted, _idlest(least, counted), difference, limit, need, minimum)


def _take(ranked: Ranked, need: int, max_bundles: int) -> Ranked:
    """The bundles that fit into the amount that is left, from the busiest down."""
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
        "idlest": gap.idlest,
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
    """The rejection if nothing can move at all; otherwise empty."""
    if not view.brokers:
        return (no_broker(),)
    if gap.source is None:
        return (_NO_TRAFFIC.refuses("cluster", 0.0, 0.0),)
    if not gap.exceeded:
        return (
            _even("rate-gap", rate, _RATE, _RATE_EVEN),
            _even("throughput-gap", throughput, _THROUGHPUT, _THROUGHPUT_EVEN),
        )
    broker = view.brokers[gap.source]
    if view.broker.bundle_count[gap.source] <= 1:
        return (lone_bundle(view, gap.source),)
    if gap.need < gap.minimum:
        rule, unit = (_TOO_FEW_MESSAGES, "messages/s") if gap is rate else (_TOO_FEW_BYTES, "B/s")
        return (rule.refuses(broker, float(gap.need), float(gap.minimum), unit=unit),)
    return ()


def _even(rule: str, gap: _Gap, setting: str, template: str) -> Rejection:
    figures = {"idlest": gap.idlest, "most": gap.most}
    if not gap.difference > 0:
        why = "the busiest broker carries {most:,.0f} and the idlest {idlest} UNIT: there is no gap"
        unit = "messages/s" if setting == _RATE else "B/s"
        return Rejection("cluster", rule, 0.0, gap.limit, "", why.replace("UNIT", unit), figures)
    if not gap.limit > 0:
        template = "the gap that {setting} allows is switched off (0)"
    return Rejection("cluster", rule, gap.difference, gap.limit, setting, template, figures)


def _leftovers(
    view: ClusterView,
    source: int,
    gap: _Gap,
    ranked: Ranked,
    options: UniformOptions,
    *,
    by_messages: bool,
) -> Iterable[Rejection]:
    """Why no bundle was taken from a broker that should shed load."""
    if not len(ranked.rows):
        yield no_candidates(view, source)
        return
    broker = view.brokers[source]
    if options.max_bundles == 0:
        yield _NO_UNLOADS.refuses(broker, 0.0, 0.0)
        return
    smallest = float(ranked.values[-1])
    limit = java_int.add(gap.need, SLACK)
    unit = "messages/s" if by_messages else "B/s"
    yield (_OVERFLOWS if limit < 0 else _TOO_BIG).refuses(broker, smallest, float(limit), unit=unit)
