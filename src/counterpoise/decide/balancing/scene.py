"""What placing bundles depends on besides load, frozen for a whole round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from counterpoise.decide.filters.anti_affinity import namespaces_in_group
from counterpoise.decide.filters.facts import UNKNOWN, BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.selection import Surroundings
from counterpoise.load.view import bundle_namespace

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})

CountGroup = Callable[[str, Mapping[str, Mapping[str, int]], Mapping[str, str]], Mapping[str, int]]
"""How often each broker serves a group, by what it has and the group of each namespace."""


def count_namespaces(
    group: str, held: Mapping[str, Mapping[str, int]], groups: Mapping[str, str]
) -> Mapping[str, int]:
    """By namespaces, as the modular load manager counts."""
    served = {
        broker: {name for name, bundles in namespaces.items() if bundles > 0}
        for broker, namespaces in held.items()
    }
    return namespaces_in_group(group, served, groups)


@dataclass(frozen=True, slots=True)
class Scene:
    """Brokers, and the policies of the namespaces whose bundles are to be placed."""

    facts: Mapping[str, BrokerFacts]
    """Every broker that is there."""
    held: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: _NONE)
    """How many bundles of each namespace each broker has, those just given to it included."""
    policies: Mapping[str, IsolationPolicy] = field(default_factory=lambda: _NONE)
    groups: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """The anti-affinity group of each namespace that is in one."""
    domains: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """Failure domain by broker."""
    filters: FilterOptions = field(default_factory=FilterOptions)
    count: CountGroup = count_namespaces

    def around(self, namespace: str, draining: Collection[str] = ()) -> Surroundings:
        """What one bundle of a namespace is placed in."""
        return Surroundings(
            brokers=list(self.facts),
            facts=self.facts,
            policies=self.policies,
            namespace_bundles={
                broker: namespaces.get(namespace, 0) for broker, namespaces in self.held.items()
            },
            anti_affinity=self.served(namespace),
            domains=self.domains,
            draining=draining,
        )

    def served(self, namespace: str) -> Mapping[str, int] | None:
        """How often each broker serves the namespace's group; None when it is in none."""
        group = self.groups.get(namespace)
        return None if group is None else self.count(group, self.held, self.groups)

    def after(self, bundle: str, source: str, destination: str, topics: int) -> Scene:
        """The scene once a bundle has moved."""
        namespace = bundle_namespace(bundle)
        held = {broker: Counter(namespaces) for broker, namespaces in self.held.items()}
        held.setdefault(source, Counter())[namespace] -= 1
        held.setdefault(destination, Counter())[namespace] += 1
        known = self.facts.get(destination, UNKNOWN)
        given = replace(known, preallocated_topics=known.preallocated_topics + topics)
        return replace(self, held=held, facts={**self.facts, destination: given})
