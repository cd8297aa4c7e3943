"""When a broker under the extensible manager splits one of its bundles."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from counterpoise.decide.plan import Decision, Rejection, Rule, StrategyPlan
from counterpoise.decide.splitting.limits import (
    MIN_TOPICS,
    first_reasons,
    limits_of,
    nearest_to_limits,
    single_topic,
)
from counterpoise.decide.splitting.loads import BundleLoads
from counterpoise.decide.splitting.modular import at_maximum, of_unknown_namespace, split_decision
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.request import SplitPoints
from counterpoise.load.fields import JsonMapping
from counterpoise.names.bundle import BundleName, range_of
from counterpoise.names.errors import InvalidName

HIT_COUNT = "loadBalancerNamespaceBundleSplitConditionHitCountThreshold"
PER_CYCLE = "loadBalancerMaxNumberOfBundlesToSplitPerCycle"

_NOT_OURS = Rule(
    "not_owned", "{subject} is above a limit, but this broker does not own it any more"
)
_NEIGHBOUR = Rule("neighbour_splitting", "{subject} waits: {other} is splitting")
_FAILURE = Rule("failure", "{subject} cannot be split: {why}")
_NEXT_TIME = Rule(
    "splits_per_cycle",
    "{subject} is above a limit, and was not looked at: {limit} are split already, as many as may "
    "be at once ({setting})",
    PER_CYCLE,
)
_TOO_FEW_HITS = Rule(
    "hit_count",
    "{subject} has been above a limit {value} times in a row; it is split when that is more than "
    "{limit} ({setting})",
    HIT_COUNT,
)


@dataclass(frozen=True, slots=True)
class SplitMemory(JsonMapping):
    """In how many consecutive checks each bundle has been above a limit."""

    hits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SplitScope:
    """What a broker knows about bundles besides their loads, when it looks for one to split."""

    owned: Collection[str]
    """Bundles this broker owns."""
    splitting: Sequence[str] = ()
    """Bundles that any broker is splitting now."""
    bundle_counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """How many bundles each namespace has."""


def find_own_bundles_to_split(
    loads: BundleLoads,
    ownership: SplitScope,
    memory: SplitMemory,
    options: SplitOptions,
    split_points: Callable[[BundleName], SplitPoints],
) -> StrategyPlan[SplitMemory]:
    """The bundles this broker is to split now, each with its one boundary.

    ``loads`` are `BundleLoads.measured`; ``split_points`` is the default algorithm over a bundle's
    topics. A bundle is split when it has been above a limit in more consecutive checks than
    ``loadBalancerNamespaceBundleSplitConditionHitCountThreshold``, by default in the fourth.

    Parity: ``DefaultNamespaceBundleSplitStrategyImpl`` of 4.0.7. Quirks kept: an algorithm that
    returns more than one boundary fails (P#22254); a bundle of ``t/ns2`` that is being split can
    delay one of ``t/ns``; a bundle that is skipped keeps its hits. A boundary on the bundle's own
    edge throws in Pulsar and is a rejection here. Which bundles come first follows the order of
    ``loads``.
    """
    limits = limits_of(loads, options)
    reasons = first_reasons(limits, loads.topics >= MIN_TOPICS)
    present = set(loads.bundles)
    hits = {name: count for name, count in memory.hits.items() if name in present}
    chosen: list[Decision] = []
    taken: Counter[str] = Counter()
    refused: list[Rejection] = []
    for row, bundle in enumerate(loads.bundles):
        if loads.topics[row] < MIN_TOPICS:
            continue
        if bundle not in ownership.owned:
            refused += [_NOT_OURS.refuses(bundle)] if row in reasons else []
            continue
        name = _splittable(bundle)
        if name is None:
            refused.append(_FAILURE.refuses(bundle, why="it is too narrow to be split"))
            continue
        limit = reasons.get(row)
        if limit is None:
            hits.pop(bundle, None)
            continue
        hits[bundle] = hits.get(bundle, 0) + 1
        if hits[bundle] <= options.hit_count_threshold:
            refused.append(_TOO_FEW_HITS.refuses(bundle, hits[bundle], options.hit_count_threshold))
            continue
        stopped = _stopped(name, ownership, taken, options)
        points = None if stopped else split_points(name)
        if points is not None:
            stopped = _unusable(name, points)
        if stopped or points is None:
            refused += [stopped] if stopped else []
            continue
        chosen.append(
            split_decision(bundle, loads.brokers[row], limit, limits, row, points.boundaries)
        )
        taken[str(name.namespace)] += 1
        del hits[bundle]
        if len(chosen) == options.max_splits_per_cycle:
            refused += [
                _NEXT_TIME.refuses(loads.bundles[each], None, options.max_splits_per_cycle)
                for each in reasons
                if each > row
            ]
            break
    refused += single_topic(loads, limits)
    if not reasons:
        refused += nearest_to_limits(loads, limits)
    return StrategyPlan(tuple(chosen), tuple(refused), SplitMemory(MappingProxyType(hits)))


def _splittable(bundle: str) -> BundleName | None:
    try:
        name = BundleName.parse(bundle)
    except InvalidName:
        return None
    return name if name.range.upper - name.range.lower > 1 else None


def _stopped(
    bundle: BundleName, ownership: SplitScope, taken: Mapping[str, int], options: SplitOptions
) -> Rejection | None:
    """Why a bundle that was above a limit for long enough is not split; None if it is split."""
    namespace = str(bundle.namespace)
    count = ownership.bundle_counts.get(namespace)
    if count is None:
        return of_unknown_namespace(str(bundle))
    if count + taken.get(namespace, 0) >= options.maximum_bundles:
        return at_maximum(str(bundle), count, taken.get(namespace, 0), options)
    lower, _, upper = str(bundle.range).partition("_")
    for other in ownership.splitting:
        bounds = range_of(other)
        if other.startswith(namespace) and (bounds.startswith(lower) or bounds.endswith(upper)):
            return _NEIGHBOUR.refuses(str(bundle), other=other)
    return None


def _unusable(bundle: BundleName, points: SplitPoints) -> Rejection | None:
    """Why an algorithm's boundaries cannot be used; None if they can."""
    found = points.boundaries
    if len(found) != 1:
        what = (
            f"{len(found)} boundaries instead of one" if found else f"no boundary: {points.reason}"
        )
        return _FAILURE.refuses(str(bundle), why=f"the algorithm answers {what}")
    if not bundle.range.lower < found[0] < bundle.range.upper:
        edge = "the algorithm's boundary is the bundle's own edge"
        return _FAILURE.refuses(str(bundle), why=edge)
    return None
