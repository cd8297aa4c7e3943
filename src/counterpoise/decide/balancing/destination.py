"""Chooses destinations for the bundles of a round, among brokers that may own them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from counterpoise.decide.balancing.policies import OWNS_IT, PlacementDraft, PlacementPolicies
from counterpoise.decide.filters.anti_affinity import may_unload, same_group
from counterpoise.decide.filters.isolation import governing_policy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.only import Only
from counterpoise.decide.placement.selection import Chooser, Passed, choose_modular, pass_modular
from counterpoise.decide.placement.strategy import Candidates, Placement
from counterpoise.decide.plan import Decision, Rule
from counterpoise.load.view import ClusterView, bundle_namespace
from counterpoise.names.bundle import namespace_of
from counterpoise.names.namespace import SYSTEM_NAMESPACE_TEXT

ASKED = "the strategy chose it"
SILENT = "does not answer"
LEFT_LATELY = "gave it away lately (--thrash-span)"
_NOWHERE = Rule("nowhere-to-go", "{subject} stays: no other broker may have it ({why})")
_NOT_THERE = Rule(
    "not-allowed", "{subject} stays: {wanted}, which the strategy chose, may not have it ({why})"
)


class Destinations:
    """Chooses destinations for a round's bundles; each choice counts as load for the next."""

    def __init__(
        self, view: ClusterView, answering: Collection[str], policies: PlacementPolicies | None
    ) -> None:
        self._view = view
        self._answering = answering
        self._policies = (
            None if policies is None else _FilteredDestinations(view, answering, policies)
        )
        self._others: dict[tuple[str, frozenset[str]], Sequence[str]] = {}

    def of(
        self, decision: Decision, chooser: Chooser[Any], memory: Any, left_lately: frozenset[str]
    ) -> Placement[Any]:
        """The destination of a decision: the broker that it names, or any other that qualifies.

        The bundle's own broker is no candidate, nor are the brokers in `left_lately`, from which it
        was moved recently. Pulsar also offers its own broker, and the bundle stays if that is
        chosen: then soon nothing would move any more, since the fullest broker soon has the fewest
        bundles.
        """
        if self._policies is not None:
            return self._policies.destination(decision, chooser, memory, left_lately)
        wanted = decision.destination
        if wanted is not None:
            return Placement(wanted, (wanted,), "asked", ASKED, memory)
        return chooser.place(decision.bundle, self._but(decision.source, left_lately), memory)

    def enter(self, decision: Decision) -> None:
        """Count a decision's move as done in all following choices."""
        if self._policies is not None:
            self._policies.enter(decision)

    def _but(self, source: str, left_lately: frozenset[str]) -> Sequence[str]:
        key = (source, left_lately)
        if key not in self._others:
            others = [
                each
                for each in self._view.brokers
                if each in self._answering and each not in left_lately and each != source
            ]
            self._others[key] = Candidates.among(others, self._view)
        return self._others[key]


@dataclass(frozen=True)
class _Left:
    """The candidates that the filters leave for one broker's bundles under one isolation policy."""

    passed: Passed
    source: str

    @cached_property
    def why_none(self) -> str:
        """The reasons why the filters ruled out every broker but the bundle's own."""
        return _reasons(self.passed, lambda subject: subject != self.source)


class _FilteredDestinations:
    """Chooses destinations by the placement filters first, then by the placement strategy."""

    def __init__(
        self, view: ClusterView, answering: Collection[str], policies: PlacementPolicies
    ) -> None:
        self._view = view
        self._draft = PlacementDraft(policies)
        self._count = policies.count
        self._counts: dict[str, Mapping[str, int]] = {}
        """By anti-affinity group: how many of its namespaces (or bundles) each broker serves."""
        self._placing = replace(self._draft.policies, count=self._counted)
        self._silent = {broker: SILENT for broker in policies.facts if broker not in answering}
        self._governing: dict[str, str | None] = {}
        """By namespace: the isolation policy that governs it."""
        self._left: dict[tuple[str | None, str, frozenset[str]], _Left] = {}

    def destination(
        self, decision: Decision, chooser: Chooser[Any], memory: Any, left_lately: frozenset[str]
    ) -> Placement[Any]:
        """Choose a decision's destination: the one that it names, or another that qualifies."""
        bundle, source, wanted = decision.bundle, decision.source, decision.destination
        served = self._placing.served(bundle_namespace(bundle))
        why = may_unload(bundle, source, list(self._placing.facts), served) if served else None
        if why is not None:
            return Placement(None, (), why.rule, why.sentence, memory, (why,))
        filters = self._placing.filters
        if wanted is not None:
            chooser = replace(chooser, strategy=Only(wanted, ASKED))
            filters = replace(filters, distribute_evenly=False)
        left = self._passing(bundle, source, left_lately, filters)
        chosen = choose_modular(bundle, left.passed, chooser, memory)
        if served and served.get(chosen.broker or "", 0) >= served.get(source, 0) > 0:
            closer = f"{chosen.broker} serves its anti-affinity group as much"
            return chosen.placement._replace(
                broker=None, rejections=(_NOWHERE.refuses(bundle, why=closer),)
            )
        if chosen.broker is not None or chosen.placement.rejections:
            return chosen.placement
        about = "" if wanted is None else _reasons(left.passed, wanted.__eq__)
        reasons = about or left.why_none or chosen.placement.reason
        why = (
            _NOWHERE.refuses(bundle, why=reasons)
            if wanted is None
            else _NOT_THERE.refuses(bundle, wanted=wanted, why=reasons)
        )
        return chosen.placement._replace(rejections=(why,))

    def enter(self, decision: Decision) -> None:
        """Count a decision's move as done in all following choices."""
        self._draft.enter(decision, self._view)
        source, destination = decision.source, decision.destination or ""
        known, bundle_counts = self._placing.facts[destination], self._placing.bundle_counts
        if known.topics + known.preallocated_topics > self._placing.filters.max_topics:
            self._left.clear()
        mine = self._placing.groups.get(bundle_namespace(decision.bundle))
        moved = {broker: bundle_counts[broker] for broker in (source, destination)}
        for group in [each for each in self._counts if same_group(each, mine)]:
            kept = {b: count for b, count in self._counts[group].items() if b not in moved}
            self._counts[group] = {**kept, **self._count(group, moved, self._placing.groups)}

    def _counted(
        self, group: str, bundle_counts: Mapping[str, Mapping[str, int]], groups: Mapping[str, str]
    ) -> Mapping[str, int]:
        if group not in self._counts:
            self._counts[group] = self._count(group, bundle_counts, groups)
        return self._counts[group]

    def _passing(
        self, bundle: str, source: str, left_lately: frozenset[str], filters: FilterOptions
    ) -> _Left:
        namespace, policies = namespace_of(bundle), self._placing
        grouped = bundle_namespace(bundle) in policies.groups
        if grouped or filters.distribute_evenly or namespace == SYSTEM_NAMESPACE_TEXT:
            return _Left(self._pass(bundle, source, left_lately, filters), source)
        if namespace not in self._governing:
            found = governing_policy(namespace, policies.isolation)
            self._governing[namespace] = found and found[0]
        # Here the namespace has no anti-affinity group and its bundles are not counted, so all
        # namespaces under one isolation policy have the same candidates.
        key = (self._governing[namespace], source, left_lately)
        if key not in self._left:
            passed = self._pass(bundle, source, left_lately, filters)
            self._left[key] = _Left(
                replace(
                    passed,
                    left=Candidates.among(passed.left, self._view),
                    allowed=Candidates.among(passed.allowed, self._view),
                ),
                source,
            )
        return self._left[key]

    def _pass(
        self, bundle: str, source: str, left_lately: frozenset[str], filters: FilterOptions
    ) -> Passed:
        barred = {**self._silent, **dict.fromkeys(left_lately, LEFT_LATELY), source: OWNS_IT}
        around = self._placing.around(bundle_namespace(bundle), barred=barred)
        return pass_modular(namespace_of(bundle), around, filters)


def _reasons(passed: Passed, about: Callable[[str], bool]) -> str:
    """The reasons for which the filters excluded these brokers, as text."""
    dropped = [each for outcome in passed.outcomes for each in outcome.dropped]
    return "; ".join(dict.fromkeys(each.sentence for each in dropped if about(each.subject)))
