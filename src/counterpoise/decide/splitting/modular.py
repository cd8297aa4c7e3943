"""When the modular manager splits a bundle (``BundleSplitterTask``)."""

from collections import Counter
from collections.abc import Mapping

from counterpoise.decide.plan import Decision, DecisionKind, Rejection, Rule, StrategyPlan
from counterpoise.decide.splitting.limits import (
    MIN_TOPICS,
    SplitLimit,
    first_reasons,
    limits_of,
    nearest_to_limits,
    single_topic,
)
from counterpoise.decide.splitting.loads import BundleLoads
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.names.bundle import namespace_of

MAXIMUM_BUNDLES = "loadBalancerNamespaceMaximumBundles"
_UNKNOWN = Rule("failure", "{subject} is above a limit, but its namespace's bundles are not known")
_AT_MAXIMUM = Rule(
    "maximum_bundles",
    "{subject} is above a limit, but its namespace has{now} {value} bundles of {limit} ({setting})",
    MAXIMUM_BUNDLES,
)


def find_bundles_to_split(
    loads: BundleLoads, bundle_counts: Mapping[str, int], options: SplitOptions
) -> StrategyPlan[None]:
    """The bundles above a limit, as the leader under the modular manager finds them.

    ``loads`` are `BundleLoads.averaged`; ``bundle_counts`` says how many bundles each namespace
    has, and a namespace it does not know is passed over. Topics, sessions, rate and bandwidth are
    strict limits; a bundle needs two topics; a namespace stops at
    ``loadBalancerNamespaceMaximumBundles``.

    Parity: ``BundleSplitterTask`` of 4.0.7. Quirks kept: the bandwidth limit overflows 32 bits from
    2048 MiB on, and a bundle that two brokers report counts twice towards the maximum. Which
    bundles of a namespace near its maximum are taken follows the order of ``loads`` (in Java: of
    hash tables).
    """
    limits = limits_of(loads, options)
    reasons = first_reasons(limits, loads.topics >= MIN_TOPICS)
    chosen: dict[str, Decision] = {}
    taken: Counter[str] = Counter()
    refused: list[Rejection] = []
    for row, limit in reasons.items():
        bundle = loads.bundles[row]
        namespace = namespace_of(bundle)
        count = bundle_counts.get(namespace)
        if count is None:
            refused.append(of_unknown_namespace(bundle))
            continue
        if count + taken[namespace] >= options.maximum_bundles:
            refused.append(at_maximum(bundle, count, taken[namespace], options))
            continue
        taken[namespace] += 1
        chosen[bundle] = split_decision(bundle, loads.brokers[row], limit, limits, row)

    refused += single_topic(loads, limits)
    if not chosen:
        refused += nearest_to_limits(loads, limits)
    return StrategyPlan(tuple(chosen.values()), tuple(refused), None)


def split_decision(
    bundle: str,
    broker: str,
    limit: SplitLimit,
    limits: tuple[SplitLimit, ...],
    row: int,
    boundaries: tuple[int, ...] = (),
) -> Decision:
    """The decision to split a bundle, for a limit; other limits that it exceeds are named."""
    others = (each for each in limits if each is not limit and each.exceeded[row])
    figures = {
        "value": float(limit.values[row]),
        "limit": float(limit.limit),
        "setting": limit.setting,
        "also": "".join(each.also(row) for each in others),
    }
    return Decision(
        DecisionKind.SPLIT, bundle, broker, None, limit.reason, limit.sentence, figures, boundaries
    )


def at_maximum(bundle: str, count: int, taken: int, options: SplitOptions) -> Rejection:
    """The rejection of a split because its namespace has as many bundles as it may have.

    ``taken`` is the number of bundles that the other splits of this check add.
    """
    now = ", with those that are split now," if taken else ""
    return _AT_MAXIMUM.refuses(bundle, count + taken, options.maximum_bundles, now=now)


def of_unknown_namespace(bundle: str) -> Rejection:
    """The rejection of a bundle whose namespace is not known."""
    return _UNKNOWN.refuses(bundle)
