"""What placing bundles depends on besides load: facts about brokers, namespaces' policies."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from counterpoise.decide.filters.anti_affinity import namespaces_in_group
from counterpoise.decide.filters.facts import UNKNOWN, BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy, governing_policy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.selection import Surroundings, pass_extensible
from counterpoise.decide.plan import Decision
from counterpoise.load.store_view import BundleRules
from counterpoise.load.view import ClusterView, bundle_namespace

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})

OWNS_IT: Final = "owns it now"
"""Why a bundle's own broker is not its destination, as a phrase."""

CountGroup = Callable[[str, Mapping[str, Mapping[str, int]], Mapping[str, str]], Mapping[str, int]]
"""Returns how often each broker serves an anti-affinity group, from the group's name, the number of
bundles by broker and namespace, and the group of each namespace."""


@dataclass(frozen=True, slots=True)
class PlacementPolicies:
    """The input of placement filters: the brokers, and the policies of the namespaces."""

    facts: Mapping[str, BrokerFacts]
    """The facts about each registered broker."""
    bundle_counts: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: _NONE)
    """By broker and namespace: the number of bundles, including those just assigned to the
    broker."""
    isolation: Mapping[str, IsolationPolicy] = field(default_factory=lambda: _NONE)
    groups: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """By namespace: its anti-affinity group; namespaces without one are absent."""
    domains: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """By broker: its failure domain."""
    filters: FilterOptions = field(default_factory=FilterOptions)
    count: CountGroup = namespaces_in_group

    def as_reported(self, view: ClusterView) -> "PlacementPolicies":
        """A copy with the numbers of bundles and topics that a view's reports give."""
        bundle_counts = {
            broker: Counter(
                bundle_namespace(view.bundles[each]) for each in view.reported_by(row).tolist()
            )
            for row, broker in enumerate(view.brokers)
        }
        topics = dict(zip(view.brokers, view.broker.topics.tolist(), strict=True))
        facts = {
            broker: replace(known, topics=topics.get(broker, known.topics))
            for broker, known in self.facts.items()
        }
        return replace(self, bundle_counts=bundle_counts, facts=facts)

    def around(
        self, namespace: str, draining: Collection[str] = (), barred: Mapping[str, str] = _NONE
    ) -> Surroundings:
        """What placement filters need for one bundle of a namespace.

        ``draining`` brokers are excluded, and so are ``barred`` ones, for the reasons given.
        """
        return Surroundings(
            brokers=list(self.facts),
            facts=self.facts,
            policies=self.isolation,
            namespace_bundles={
                broker: namespaces.get(namespace, 0)
                for broker, namespaces in self.bundle_counts.items()
            },
            anti_affinity=self.served(namespace),
            domains=self.domains,
            draining=draining,
            barred=barred,
        )

    def served(self, namespace: str) -> Mapping[str, int] | None:
        """How often each broker serves the namespace's anti-affinity group; None without one."""
        group = self.groups.get(namespace)
        return None if group is None else self.count(group, self.bundle_counts, self.groups)


class PlacementDraft:
    """The placement policies while a round is planned: each planned move changes the counts."""

    def __init__(self, policies: PlacementPolicies) -> None:
        self._facts = dict(policies.facts)
        self._bundle_counts = {
            broker: Counter(counts) for broker, counts in policies.bundle_counts.items()
        }
        self.policies = replace(policies, facts=self._facts, bundle_counts=self._bundle_counts)
        """The policies after the moves entered so far."""

    def enter(self, decision: Decision, view: ClusterView) -> None:
        """Count a decision's move as done."""
        source, destination = decision.source, decision.destination or ""
        namespace, row = bundle_namespace(decision.bundle), view.bundle_index(decision.bundle)
        for broker, more in ((source, -1), (destination, 1)):
            self._bundle_counts.setdefault(broker, Counter())[namespace] += more
        known = self._facts.get(destination, UNKNOWN)
        topics = 0 if row is None else view.bundle.topics.item(row)
        self._facts[destination] = replace(
            known, preallocated_topics=known.preallocated_topics + topics
        )


def bundle_rules(
    policies: PlacementPolicies, bundles: Iterable[str], owners: Mapping[str, str | None]
) -> BundleRules:
    """Which of these bundles may leave their owners, and where to, for TransferShedder."""
    every = frozenset(policies.facts)
    passing: dict[str, frozenset[str]] = {}
    restricted, allowed = set(), {}
    for bundle in bundles:
        namespace = bundle_namespace(bundle)
        if (
            namespace in policies.groups
            or governing_policy(namespace, policies.isolation) is not None
        ):
            restricted.add(bundle)
        if namespace not in passing:
            left, _ = pass_extensible(namespace, policies.around(namespace), policies.filters)
            passing[namespace] = frozenset(left)
        if passing[namespace] != every:
            allowed[bundle] = passing[namespace]
    known = {bundle: owner for bundle, owner in owners.items() if owner is not None}
    return BundleRules(known, frozenset(restricted), allowed)
