"""Anti-affinity groups: namespaces that should not share a broker, nor a failure domain."""

from collections import Counter
from collections.abc import Mapping, Sequence

from counterpoise.decide.filters.outcome import FilterOutcome, FilterStatus, applied, unchanged
from counterpoise.decide.plan import Rejection, Rule
from counterpoise.names.options import INT32_MAX

NAME = "anti_affinity"
DEFAULT_DOMAIN = "default"
_SERVES_MORE = Rule(NAME, "{subject} already serves {value} of the group, others only {limit}")
_SERVING_DOMAIN = Rule(
    "failure_domain",
    "{subject} is in a failure domain that serves the group {value} times, others {limit}",
    "failureDomainsEnabled",
)
_NO_TAKER = Rule(
    NAME, "{subject} stays: there is no broker to take a bundle of its anti-affinity group"
)
_SERVED_ALIKE = Rule(
    NAME, "{subject} stays: every candidate serves its anti-affinity group as much, {limit} times"
)


def same_group(left: str | None, right: str | None) -> bool:
    """Whether two namespaces are in the same anti-affinity group; case does not count."""
    if left is None or right is None or not left.strip() or not right.strip():
        return False
    return left.lower() == right.lower()


def namespaces_in_group(
    group: str, bundle_counts: Mapping[str, Mapping[str, int]], group_of: Mapping[str, str]
) -> dict[str, int]:
    """How many *namespaces* of a group each broker serves, as the modular manager counts.

    ``bundle_counts`` has the number of bundles by broker and namespace. Brokers that serve none of
    the group are absent from the result.
    """
    counts = {
        broker: sum(n > 0 and same_group(group_of.get(name), group) for name, n in served.items())
        for broker, served in bundle_counts.items()
    }
    return {broker: count for broker, count in counts.items() if count > 0}


def bundles_in_group(
    group: str, bundle_counts: Mapping[str, Mapping[str, int]], group_of: Mapping[str, str]
) -> dict[str, int]:
    """How many *bundles* of a group each broker owns, as the extensible manager counts.

    The parameters are those of `namespaces_in_group`.
    """
    counts = {
        broker: sum(n for name, n in namespaces.items() if same_group(group_of.get(name), group))
        for broker, namespaces in bundle_counts.items()
    }
    return {broker: count for broker, count in counts.items() if count > 0}


def spread(
    brokers: Sequence[str],
    counts: Mapping[str, int] | None,
    domains: Mapping[str, str] | None = None,
) -> FilterOutcome:
    """Keep the brokers that serve an anti-affinity group least often; with ``domains``, of the
    brokers in those failure domains that serve it least often.

    ``counts`` is how often each broker serves the group, None when the namespace is in none.
    Parity: ``LoadManagerShared.filterAntiAffinityGroupOwnedBrokers`` of 4.0.7: a domain's count is
    the sum over the candidates in it, and a broker of no known domain is in "default".
    """
    if counts is None:
        return unchanged(
            NAME, FilterStatus.OFF, brokers, "the namespace is in no anti-affinity group"
        )
    left = list(brokers)
    lost: list[Rejection] = []
    if domains:
        left, lost = _least_domains(brokers, counts, domains)
    least = min((counts.get(broker, 0) for broker in left), default=0)

    def judge(broker: str) -> Rejection | None:
        count = counts.get(broker, 0)
        return None if count == least else _SERVES_MORE.refuses(broker, count, least)

    outcome = applied(NAME, left, judge, f"the group is served {least} times where least")
    return FilterOutcome(
        NAME, outcome.status, outcome.kept, (*lost, *outcome.dropped), outcome.reason
    )


def _least_domains(
    brokers: Sequence[str], counts: Mapping[str, int], domains: Mapping[str, str]
) -> tuple[list[str], list[Rejection]]:
    sums: Counter[str] = Counter()
    for broker in brokers:
        sums[domains.get(broker, DEFAULT_DOMAIN)] += counts.get(broker, 0)
    least = min(sums.values(), default=0)
    served = {each: sums[domains.get(each, DEFAULT_DOMAIN)] for each in brokers}
    lost = [_SERVING_DOMAIN.refuses(b, n, least) for b, n in served.items() if n != least]
    return [each for each in brokers if served[each] == least], lost


def may_unload(
    bundle: str, broker: str, candidates: Sequence[str], counts: Mapping[str, int] | None
) -> Rejection | None:
    """The rejection if a bundle of an anti-affinity group should stay; None when it may move.

    It stays when every candidate serves the group equally often, at least once, and its own broker
    no more than that. Parity: ``LoadManagerShared.shouldAntiAffinityNamespaceUnload`` of 4.0.7.
    Quirks kept: a broker that is no candidate itself counts as serving the group not at all, and
    without candidates everything stays.
    """
    if not counts:
        return None
    served = [counts.get(each, 0) for each in candidates]
    least = min(served, default=INT32_MAX)
    current = counts.get(broker, 0) if broker in candidates else 0
    if least == 0 or current > least or any(each != least for each in served):
        return None
    return _SERVED_ALIKE.refuses(bundle, current, least) if served else _NO_TAKER.refuses(bundle)
