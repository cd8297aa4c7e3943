"""Where every bundle of a broker goes that is to be emptied: a pure function of what was read.

Each bundle is placed as if nobody had it, by the filters and the placement strategy that place any
other bundle, and entered into the picture before the next: what the broker is to be rid of has no
gain to show, and a hundred bundles do not pile up on whoever was emptiest at first.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from counterpoise.decide.balancing.moves import Move, move_id
from counterpoise.decide.balancing.projection import Projection
from counterpoise.decide.filters.facts import UNKNOWN, BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.selection import (
    Chooser,
    Selection,
    Surroundings,
    select_modular,
)
from counterpoise.decide.placement.strategy import PlacementStrategy
from counterpoise.decide.plan import Decision, DecisionKind, Rejection
from counterpoise.load.view import ClusterView
from counterpoise.names.bundle import namespace_of
from counterpoise.names.namespace import bound_to_broker

NAMED = 3
"""How many brokers that were passed over a reason names."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """What was read of a cluster before one of its brokers is emptied."""

    broker: str
    """Who is to be emptied."""
    view: ClusterView
    """Everybody's load."""
    owned: Mapping[str, Sequence[str]]
    """The bundles of each broker that answered, as it says itself."""
    facts: Mapping[str, BrokerFacts] = field(default_factory=dict)
    policies: Mapping[str, IsolationPolicy] = field(default_factory=dict)
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By namespace: those of its anti-affinity group, itself among them."""
    domains: Mapping[str, str] = field(default_factory=dict)
    """Failure domain by broker."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Brokers that could not be read, and why: they are given nothing."""


@dataclass(frozen=True, slots=True)
class DrainRules:
    """By which strategy and settings bundles are placed."""

    placement: PlacementStrategy[Any, Any] = field(default_factory=LeastUsage)
    placement_options: Any = field(default_factory=PlacementOptions)
    filters: FilterOptions = field(default_factory=FilterOptions)


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """Who gets what, and what cannot go anywhere."""

    broker: str
    moves: tuple[Move, ...]
    stuck: tuple[Rejection, ...]
    """A bundle each that no broker may have, and why."""
    bound: tuple[str, ...]
    """Bundles of the broker's own namespaces, such as heartbeats: they end with it."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Brokers that could not be read, and why: they are given nothing."""


def plan_drain(scene: ClusterSnapshot, rules: DrainRules) -> DrainPlan:
    """Place all of a broker's bundles elsewhere; the largest first, since they are hardest to fit.

    Without randomness: the same scene gives the same plan.
    """
    mine = list(scene.owned[scene.broker])
    view = _without_reports(scene.view, scene.broker, mine)
    bound = tuple(sorted(each for each in mine if bound_to_broker(namespace_of(each))))
    leaving = sorted(set(mine) - set(bound), key=lambda each: (-known_load(view, each), each))
    targets = [each for each in sorted(scene.owned) if each != scene.broker]
    owned = {broker: Counter(map(namespace_of, scene.owned[broker])) for broker in targets}
    facts = dict(scene.facts)
    projection, memory = Projection(view), rules.placement.initial_memory()
    moves: list[Move] = []
    stuck: list[Rejection] = []
    for bundle in leaving:
        namespace = namespace_of(bundle)
        around = Surroundings(
            brokers=targets,
            facts=facts,
            policies=scene.policies,
            namespace_bundles={broker: owned[broker][namespace] for broker in targets},
            anti_affinity=_group_counts(scene.groups.get(namespace), owned),
            domains=scene.domains,
            draining=(scene.broker,),
        )
        # No broker in the place of chance: equally good brokers are settled by value, then name.
        chooser = Chooser(rules.placement, projection.view, rules.placement_options, None)
        chosen = select_modular(bundle, around, chooser, memory, rules.filters)
        memory = chosen.placement.memory
        if chosen.broker is None:
            stuck.append(_stuck(bundle, chosen, scene.silent))
            continue
        decision = Decision(
            DecisionKind.TRANSFER,
            bundle,
            scene.broker,
            chosen.broker,
            "drain",
            "{source} is being emptied",
        )
        now_ms = view.now_ms
        moves.append(Move(move_id(now_ms, bundle), now_ms, decision, _why(chosen)))
        projection = projection.after(decision)
        owned[chosen.broker][namespace] += 1
        known = facts.get(chosen.broker, UNKNOWN)
        given = known.preallocated_topics + _topics(view, bundle)
        facts[chosen.broker] = replace(known, preallocated_topics=given)
    return DrainPlan(scene.broker, tuple(moves), tuple(stuck), bound, scene.silent)


def refusal(scene: ClusterSnapshot) -> str:
    """Why this broker cannot be emptied at all, as a sentence; empty when it can."""
    brokers = sorted({*scene.owned, *scene.silent})
    if scene.broker not in brokers:
        return f"{scene.broker} is no broker of this cluster: it has {', '.join(brokers) or 'none'}"
    if why := scene.silent.get(scene.broker):
        return f"{scene.broker} does not say what it owns: {why}"
    if len(scene.owned) < 2:
        alone = "no other broker answers" if scene.silent else "it is the only broker"
        return f"{scene.broker} cannot be emptied: {alone}"
    return ""


def known_load(view: ClusterView, bundle: str) -> float:
    """A bundle's bytes/s; 0 where that is no number, which would come before and after all others.

    Brokers do report NaN: a rate over no time.
    """
    carried = view.carried(bundle)
    return carried if math.isfinite(carried) else 0.0


def _without_reports(view: ClusterView, broker: str, mine: Sequence[str]) -> ClusterView:
    """The view in which a broker's bundles are reported by nobody, as those that await a broker.

    A broker that gave one of them away a moment ago may report it still.
    """
    rows = [row for row in map(view.bundle_index, mine) if row is not None]
    gone = np.isin(view.members, rows)
    if (row := view.broker_index(broker)) is not None:
        gone[int(view.offsets[row]) : int(view.offsets[row + 1])] = True
    before = np.concatenate(([0], np.cumsum(gone)))
    return view.with_reports(view.offsets - before[view.offsets], view.members[~gone])


def _group_counts(
    group: frozenset[str] | None, owned: Mapping[str, Counter[str]]
) -> dict[str, int] | None:
    """How many namespaces of the group each broker serves, as Pulsar counts."""
    if group is None:
        return None
    return {broker: sum(1 for each in group if of[each]) for broker, of in owned.items()}


def _why(chosen: Selection[Any]) -> str:
    """Why this broker: what spoke for it, and what against the others."""
    against = [
        each.sentence
        for outcome in chosen.outcomes
        for each in outcome.dropped
        if each.rule != "draining" and each.subject != chosen.broker
    ]
    return "; ".join((chosen.placement.reason, *against[:NAMED], *chosen.notes))


def _stuck(bundle: str, chosen: Selection[Any], silent: Mapping[str, str]) -> Rejection:
    reasons = [each.sentence for outcome in chosen.outcomes for each in outcome.dropped]
    reasons += [f"{broker} does not answer" for broker in sorted(silent)]
    reasons += [each.sentence for each in chosen.placement.rejections]
    why = "; ".join(dict.fromkeys(reasons)) or chosen.placement.reason
    return Rejection(bundle, "nowhere-to-go", None, None, "", "{why}", {"why": why})


def _topics(view: ClusterView, bundle: str) -> int:
    row = view.bundle_index(bundle)
    return 0 if row is None else int(view.bundle.topics[row])
