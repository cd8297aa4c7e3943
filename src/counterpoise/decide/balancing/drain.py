"""The goal of a drain: each bundle of a broker moves to some other broker.

Each bundle is placed by the same filters and placement strategy as a bundle without an owner, and
counts for those after it. So a hundred bundles do not all go to the broker that was least loaded at
first. The moves need not make the cluster more even.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from counterpoise.decide.balancing.moves import Move, Round, RoundMemory, move_id
from counterpoise.decide.balancing.policies import PlacementDraft, PlacementPolicies
from counterpoise.decide.balancing.projection import moved_in
from counterpoise.decide.balancing.snapshot import ClusterSnapshot, part_of
from counterpoise.decide.balancing.warm_up import warming
from counterpoise.decide.filters.facts import UNKNOWN
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.selection import Chooser, Selection, select_modular
from counterpoise.decide.placement.strategy import PlacementStrategy
from counterpoise.decide.plan import Decision, DecisionKind, Rejection
from counterpoise.load.view import ClusterView
from counterpoise.names.bundle import namespace_of
from counterpoise.names.namespace import is_left_in_place

_LATER = "comes after the brokers that are to get bundles first"
NAMED = 3
"""How many of the brokers that were not chosen are named in a reason."""
FULL = 1.25
"""A broker of `DrainRules.first_to` that carries more than this many times the mean load of the
remaining brokers gets no further bundles before the others."""


@dataclass(frozen=True, slots=True)
class DrainRules:
    """The placement strategy and settings of a drain."""

    placement: PlacementStrategy[Any, Any] = field(default_factory=LeastUsage)
    placement_options: Any = field(default_factory=PlacementOptions)
    filters: FilterOptions = field(default_factory=FilterOptions)
    first_to: Collection[str] = frozenset()
    """Brokers that get bundles first; others get only what these may not own or cannot carry."""
    last_move_of: Collection[str] = frozenset()
    """Bundles that go to a broker of `first_to` even if it is full, so that they move only once."""


@dataclass(frozen=True, slots=True)
class EmptyBroker:
    """The goal of a drain: place every bundle of a broker elsewhere.

    A bundle that cannot leave is among the round's rejections. Without randomness: ties between
    brokers are broken by value, then by name.
    """

    broker: str
    rules: DrainRules = field(default_factory=DrainRules)

    @property
    def name(self) -> str:
        """The name under which the history records a round of this goal."""
        return f"drain {self.broker}"

    @property
    def placed_by(self) -> str:
        """The name of the placement strategy."""
        return self.rules.placement.name

    def refusal(self, snapshot: ClusterSnapshot) -> str:
        """Why the broker cannot be emptied at all, as a sentence; empty when it can."""
        broker, known = self.broker, snapshot.brokers
        if broker not in known:
            return f"{broker} is no broker of this cluster: it has {', '.join(known) or 'none'}"
        if why := snapshot.silent.get(broker):
            return f"{broker} does not list the bundles that it owns: {why}"
        if not snapshot.owned.keys() - snapshot.cordoned.keys() - {broker}:
            alone = "no other broker answers" if snapshot.silent else "it is the only broker"
            if snapshot.cordoned:
                alone = "; ".join(_cordons(snapshot, broker))
            return f"{broker} cannot be emptied: {alone}"
        return ""

    def bound(self, snapshot: ClusterSnapshot) -> tuple[str, ...]:
        """The broker's bundles that a drain leaves alone, sorted by name.

        These are bundles of its own namespaces, such as heartbeats, which end with it, and those of
        `pulsar/system`, which the cluster moves when the broker stops.
        """
        mine = snapshot.owned.get(self.broker, ())
        return tuple(sorted(each for each in mine if is_left_in_place(namespace_of(each))))

    def plan(self, snapshot: ClusterSnapshot, memory: RoundMemory) -> Round:
        """Plan moves of all bundles of the broker, the largest first, since they are the hardest to
        place.

        Before them, each broker of `DrainRules.first_to` that owns nothing of a namespace gets the
        lightest bundle of it, so that few clients wait until it serves it (`warm_up.py`). Without a
        clock, I/O or randomness.
        """
        mine = snapshot.owned[self.broker]
        view = _without_reports(snapshot.view, self.broker, mine)
        draft = PlacementDraft(_of_others(snapshot, self.broker))
        projected, remembered = view, self.rules.placement.initial_memory()
        moves: list[Move] = []
        stuck: list[Rejection] = []
        leaving = sorted(
            {*mine} - {*self.bound(snapshot)}, key=lambda each: (-known_load(view, each), each)
        )
        new_to = warming(leaving, snapshot.view, snapshot.owned, self.rules.first_to)
        for bundle in sorted(leaving, key=lambda each: each not in new_to):
            around = draft.policies.around(namespace_of(bundle))
            options = self.rules.placement_options
            chooser = Chooser(self.rules.placement, projected, options, None)
            only = dict.fromkeys(snapshot.owned.keys() - new_to.get(bundle, ()), _LATER)
            later = self._later(bundle, projected, snapshot)
            for barred in (*([only] if bundle in new_to else ()), later, {}):
                where = replace(around, barred=barred)
                chosen = select_modular(bundle, where, chooser, remembered, self.rules.filters)
                if chosen.broker is not None or not barred:
                    break
            remembered = chosen.placement.memory
            if chosen.broker is None:
                stuck.append(_stuck(bundle, chosen, snapshot, self.broker))
                continue
            decision = Decision(
                DecisionKind.TRANSFER,
                bundle,
                self.broker,
                chosen.broker,
                "drain",
                "{source} is being emptied",
            )
            now_ms = view.now_ms
            part = part_of(snapshot.view, bundle)
            moves.append(Move(move_id(now_ms, bundle), now_ms, decision, _why(chosen), part))
            projected = moved_in(projected, decision)
            draft.enter(decision, view)
        return Round.of(snapshot.view, self.name, moves, stuck, memory)

    def _later(
        self, bundle: str, view: ClusterView, snapshot: ClusterSnapshot
    ) -> Mapping[str, str]:
        """The brokers that get a bundle only if none of `DrainRules.first_to` can, each with the
        reason.
        """
        load = view.broker.traffic.throughput()
        full = FULL * float(load[np.isfinite(load)].sum()) / max(1, len(snapshot.owned) - 1)
        first = {
            each
            for each in self.rules.first_to
            if bundle in self.rules.last_move_of
            or ((row := view.broker_index(each)) is not None and not load[row] > full)
        }
        others = snapshot.owned.keys() - first if first else ()
        return dict.fromkeys(others, _LATER)


def known_load(view: ClusterView, bundle: str) -> float:
    """A bundle's bytes/s; 0 for NaN, which would sort neither before nor after other loads.

    Brokers report NaN when a rate was taken over no time.
    """
    carried = view.carried(bundle)
    return carried if math.isfinite(carried) else 0.0


def owned_policies(snapshot: ClusterSnapshot) -> PlacementPolicies:
    """The snapshot's placement policies, with owners as the brokers themselves list them."""
    read = snapshot.policies or PlacementPolicies({})
    return replace(
        read,
        facts={broker: read.facts.get(broker, UNKNOWN) for broker in sorted(snapshot.owned)},
        bundle_counts={
            broker: Counter(map(namespace_of, has)) for broker, has in snapshot.owned.items()
        },
    )


def _cordons(snapshot: ClusterSnapshot, broker: str) -> list[str]:
    """A sentence for each cordoned broker except the one that is drained."""
    others = sorted(snapshot.cordoned.keys() - {broker})
    return [f"{each} is cordoned: {snapshot.cordoned[each]}" for each in others]


def _of_others(snapshot: ClusterSnapshot, broker: str) -> PlacementPolicies:
    """The placement policies without the drained broker and cordoned ones, which get no bundles."""
    policies, out = owned_policies(snapshot), {broker, *snapshot.cordoned}
    return replace(
        policies,
        facts={each: known for each, known in policies.facts.items() if each not in out},
        bundle_counts={
            each: counts for each, counts in policies.bundle_counts.items() if each not in out
        },
    )


def _without_reports(view: ClusterView, broker: str, mine: Sequence[str]) -> ClusterView:
    """The view in which no broker reports these bundles, as if they had no owner.

    A broker that released one of them a moment ago may report it still.
    """
    rows = [row for row in map(view.bundle_index, mine) if row is not None]
    gone = np.isin(view.members, rows)
    if (row := view.broker_index(broker)) is not None:
        gone[int(view.offsets[row]) : int(view.offsets[row + 1])] = True
    before = np.concatenate(([0], np.cumsum(gone)))
    return view.with_reports(view.offsets - before[view.offsets], view.members[~gone])


def _why(chosen: Selection[Any]) -> str:
    """Why the destination was chosen, and why some of the other brokers were not."""
    against = [
        each.sentence
        for outcome in chosen.outcomes
        for each in outcome.dropped
        if each.subject != chosen.broker
    ]
    return "; ".join((chosen.placement.reason, *against[:NAMED], *chosen.notes))


def _stuck(
    bundle: str, chosen: Selection[Any], snapshot: ClusterSnapshot, broker: str
) -> Rejection:
    reasons = [each.sentence for outcome in chosen.outcomes for each in outcome.dropped]
    reasons += [f"{silent} does not answer" for silent in sorted(snapshot.silent)]
    reasons += _cordons(snapshot, broker)
    reasons += [each.sentence for each in chosen.placement.rejections]
    why = "; ".join(dict.fromkeys(reasons)) or chosen.placement.reason
    return Rejection(bundle, "nowhere-to-go", None, None, "", "{why}", {"why": why})
