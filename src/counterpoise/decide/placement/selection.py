"""Selects a broker for a bundle: the filters in Pulsar's order, then a placement strategy."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from counterpoise.decide.filters import simple
from counterpoise.decide.filters.anti_affinity import spread
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy, isolate
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.filters.outcome import FilterOutcome, FilterStatus
from counterpoise.decide.filters.versions import latest_version
from counterpoise.decide.memory import Memory, NoMemory
from counterpoise.decide.placement.least_resource_usage import place_by_store_usage
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import Placement, PlacementStrategy
from counterpoise.load.usage import weighted_max
from counterpoise.load.view import ClusterView
from counterpoise.names.bundle import namespace_of
from counterpoise.names.namespace import SYSTEM_NAMESPACE_TEXT

M = TypeVar("M", bound=Memory)

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What placement filters need when one bundle is placed: everything besides load."""

    brokers: Sequence[str]
    """Every available broker once, in a fixed order."""
    facts: Mapping[str, BrokerFacts] = field(default_factory=lambda: _EMPTY)
    policies: Mapping[str, IsolationPolicy] = field(default_factory=lambda: _EMPTY)
    namespace_bundles: Mapping[str, int] = field(default_factory=lambda: _EMPTY)
    """How many bundles of this namespace each broker has, those just assigned included."""
    anti_affinity: Mapping[str, int] | None = None
    """How often each broker serves the namespace's anti-affinity group; None without one."""
    domains: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    """By broker: its failure domain."""
    draining: Collection[str] = ()
    barred: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    """Brokers that must not get this bundle, each with the reason. Isolation policies count them
    as available."""
    persistent: bool = True


@dataclass(frozen=True, slots=True)
class Selection(Generic[M]):
    """The chosen broker, and the outcome of every filter before it."""

    placement: Placement[M]
    outcomes: tuple[FilterOutcome, ...]
    notes: tuple[str, ...] = ()
    """Sentences that say where the usual order of filters was not followed, and why."""

    @property
    def broker(self) -> str | None:
        """The chosen broker; None if there is none."""
        return self.placement.broker


@dataclass(frozen=True, slots=True)
class Passed:
    """What is left after the modular manager's filters, for the bundles of one namespace."""

    left: Sequence[str]
    """The candidates that passed all filters."""
    allowed: Sequence[str]
    """The brokers that policies allow: candidates if the strategy's first choice is overloaded."""
    outcomes: tuple[FilterOutcome, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chooser(Generic[M]):
    """A placement strategy with its options, its random generator and the view of the cluster."""

    strategy: PlacementStrategy[M, PlacementOptions]
    view: ClusterView
    options: PlacementOptions
    rng: Random | None = None

    def place(self, bundle: str, candidates: Sequence[str], memory: M) -> Placement[M]:
        """Let the strategy choose a broker for the bundle among the candidates."""
        return self.strategy.place(bundle, candidates, self.view, memory, self.options, self.rng)

    def overloaded(self, broker: str | None) -> bool:
        """Whether a broker is above ``loadBalancerBrokerOverloadedThresholdPercentage``."""
        row = None if broker is None else self.view.broker_index(broker)
        if row is None:
            return False
        limit = self.options.overloaded_threshold_percentage / 100.0
        usage = self.view.broker.usage[row : row + 1]
        return weighted_max(usage, self.options.weights.modular).item() > limit


def select_modular(
    bundle: str, around: Surroundings, chooser: Chooser[M], memory: M, options: FilterOptions
) -> Selection[M]:
    """Select a broker as the modular manager does: isolation policies, topic limit, anti-affinity,
    fewest bundles of the namespace, load manager and version.

    If the last two leave no broker or cannot be applied, all brokers that the policies allow are
    candidates again. If the strategy's choice is overloaded, it chooses once more among all brokers
    that the policies allow.

    Parity: ``ModularLoadManagerImpl.selectBroker`` of 4.0.7. Unlike Pulsar, it excludes draining
    brokers first, and barred ones after the policies.
    """
    passed = pass_modular(namespace_of(bundle), around, options)
    return choose_modular(bundle, passed, chooser, memory)


def pass_modular(namespace: str, around: Surroundings, options: FilterOptions) -> Passed:
    """Apply the modular manager's filters for a namespace: first half of `select_modular`."""
    staying = simple.not_draining(around.brokers, around.draining)
    allowed = isolate(
        namespace, staying.kept, around.policies, around.facts, persistent=around.persistent
    )
    # After the policies: a primary that is barred still counts, so no secondary has to join.
    free = simple.not_barred(allowed.kept, around.barred)
    outcomes = [staying, allowed, free]

    def apply(outcome: FilterOutcome) -> tuple[str, ...]:
        outcomes.append(outcome)
        return outcome.kept

    left = apply(simple.below_max_topics(free.kept, around.facts, options.max_topics))
    domains = around.domains if options.failure_domains else None
    left = apply(spread(left, around.anti_affinity, domains))
    even = options.distribute_evenly or namespace == SYSTEM_NAMESPACE_TEXT
    left = apply(simple.fewest_of_namespace(left, around.namespace_bundles, enabled=even))
    left = apply(simple.same_load_manager(left, around.facts, options.load_manager_class))
    left = apply(latest_version(left, around.facts, enabled=options.prefer_later_versions))
    notes = []
    if not left or outcomes[-1].status is FilterStatus.FAILED:
        why = outcomes[-1].reason if left else "no broker passes every filter"
        notes.append(f"{why}; all that the policies allow are candidates again")
        left = free.kept
    return Passed(left, free.kept, tuple(outcomes), tuple(notes))


def choose_modular(bundle: str, passed: Passed, chooser: Chooser[M], memory: M) -> Selection[M]:
    """Let the strategy choose among brokers that passed: second half of `select_modular`."""
    notes = passed.notes
    placed = chooser.place(bundle, passed.left, memory)
    if chooser.overloaded(placed.broker):
        note = f"{placed.broker} is overloaded; chosen again among all the policies allow"
        notes = (*notes, note)
        again = chooser.place(bundle, passed.allowed, placed.memory)
        placed = again if again.broker is not None else placed
    return Selection(placed, passed.outcomes, notes)


def select_extensible(
    bundle: str,
    around: Surroundings,
    usage_ema: Mapping[str, float],
    options: FilterOptions,
    placement: PlacementOptions,
    rng: Random | None = None,
) -> Selection[NoMemory]:
    """Select a broker as the extensible manager does: load manager, topic limit, version,
    anti-affinity, isolation policies.

    A broker that a filter has removed stays removed; a filter that cannot be applied removes none.

    Parity: ``ExtensibleLoadManagerImpl`` of 4.0.7 with its own LeastResourceUsageWithWeight.
    """
    left, outcomes = pass_extensible(namespace_of(bundle), around, options)
    placed = place_by_store_usage(left, usage_ema, placement, rng)
    return Selection(placed, outcomes)


def pass_extensible(
    namespace: str, around: Surroundings, options: FilterOptions
) -> tuple[tuple[str, ...], tuple[FilterOutcome, ...]]:
    """The brokers that pass every filter of the extensible manager, and what each filter did."""
    outcomes: list[FilterOutcome] = []

    def apply(outcome: FilterOutcome) -> tuple[str, ...]:
        outcomes.append(outcome)
        return outcome.kept

    left = apply(simple.not_draining(around.brokers, around.draining))
    left = apply(simple.same_load_manager(left, around.facts, options.load_manager_class))
    left = apply(simple.under_max_topics(left, around.facts, options.max_topics))
    left = apply(latest_version(left, around.facts, enabled=options.prefer_later_versions))
    domains = around.domains if options.failure_domains else None
    left = apply(spread(left, around.anti_affinity, domains))
    left = apply(
        isolate(namespace, left, around.policies, around.facts, persistent=around.persistent)
    )
    return left, tuple(outcomes)
