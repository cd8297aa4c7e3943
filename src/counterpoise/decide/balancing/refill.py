"""The goal of a refill: move bundles to brokers that carry too little, being new or restarted.

No strategy's threshold need be exceeded: if five brokers are at half of their capacity and a sixth
at none, no broker is overloaded. Each broker to be filled gets bundles until it carries the mean,
from the broker with the most load at that moment. The largest bundles that fit come first, so that
few clients have to move.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from counterpoise.decide.balancing.drain import known_load, owned_policies
from counterpoise.decide.balancing.moves import Move, Round, RoundMemory, move_id
from counterpoise.decide.balancing.policies import OWNS_IT, PlacementDraft
from counterpoise.decide.balancing.snapshot import ClusterSnapshot, part_of
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.only import Only
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.selection import Chooser, select_modular
from counterpoise.decide.plan import Decision, DecisionKind, Rejection
from counterpoise.names.bundle import namespace_of
from counterpoise.names.namespace import is_left_in_place

ENOUGH = 0.98
"""A new broker counts as filled once it carries this part of the brokers' mean load."""


@dataclass(frozen=True, slots=True)
class FillBrokers:
    """The goal of a refill: move bundles to some brokers until they carry the mean.

    Without randomness. Respects isolation policies, anti-affinity groups, failure domains, topic
    caps and versions. Ignores how evenly a namespace's bundles are spread, since load is what
    counts here.
    """

    targets: Collection[str]
    filters: FilterOptions = field(default_factory=FilterOptions)
    leave_alone: Collection[str] = frozenset()
    """Namespaces and bundles that stay where they are."""

    @property
    def name(self) -> str:
        """The name under which the history records a round of this goal."""
        return "refill"

    @property
    def placed_by(self) -> str:
        """What the history records in place of a placement strategy."""
        return "the brokers that were named"

    def refusal(self, snapshot: ClusterSnapshot) -> str:
        """Why these brokers cannot be filled, as a sentence; empty when they can."""
        known = snapshot.brokers
        for target in self.targets:
            if target not in known:
                return f"{target} is no broker of this cluster: it has {', '.join(known) or 'none'}"
            if why := snapshot.silent.get(target):
                return f"{target} cannot be given bundles: {why}"
        if not {*snapshot.owned} - {*self.targets}:
            return "there is no other broker whose bundles could be moved"
        return ""

    def plan(self, snapshot: ClusterSnapshot, memory: RoundMemory) -> Round:
        """Plan moves that fill the brokers up to the mean, without a clock, I/O or randomness."""
        filling = _Filling(snapshot, self)
        filling.run()
        rejections = filling.rejections.values()
        return Round.of(snapshot.view, self.name, filling.moves, rejections, memory)


class _Filling:
    """The state of a refill while its moves are planned."""

    def __init__(self, snapshot: ClusterSnapshot, goal: FillBrokers) -> None:
        self._view = snapshot.view
        self._targets = sorted(set(goal.targets))
        self._filters = replace(goal.filters, distribute_evenly=False)
        self._leave_alone = goal.leave_alone
        self._draft = PlacementDraft(owned_policies(snapshot))
        self.moves: list[Move] = []
        self.rejections: dict[tuple[str, str], Rejection] = {}
        self._load = {
            broker: sum(known_load(self._view, bundle) for bundle in sorted(snapshot.owned[broker]))
            for broker in sorted(snapshot.owned)
        }
        self._bundles = {
            broker: sorted(self._movable(snapshot.owned[broker])) for broker in self._load
        }
        self._mean = sum(self._load.values()) / len(self._load)

    def run(self) -> None:
        """Plan moves until the targets carry the mean, or no donor has a bundle that fits."""
        donors = set(self._load) - set(self._targets)
        if self._mean <= 0:
            nothing = "no bundle carries anything: there is no load to give"
            self.rejections["", ""] = Rejection("cluster", "no-load", 0.0, 0.0, "", nothing)
            return
        while donors:
            target = min(self._targets, key=lambda each: (self._load[each], each))
            donor = max(donors, key=lambda each: (self._load[each], each))
            if self._load[target] >= ENOUGH * self._mean or self._load[donor] <= self._mean:
                break
            if not self._given(donor, target):
                donors.discard(donor)
        self._short_of_the_mean()

    def _given(self, donor: str, target: str) -> bool:
        """Plan to move the donor's bundle that fits best; return False if none fits."""
        bundles = self._bundles[donor]
        place = bisect_right(bundles, (self._mean - self._load[target], "\U0010ffff"))
        # Those that keep the target below the mean, largest first; then the others, smallest first.
        for at in (*range(place - 1, -1, -1), *range(place, len(bundles))):
            carried, bundle = bundles[at]
            if self._load[target] + 1.5 * carried >= self._load[donor]:
                continue  # the two would almost swap loads; a smaller one may fit
            if self._may_have(bundle, donor, target):
                del bundles[at]
                self._move(bundle, carried, donor, target)
                return True
        return False

    def _may_have(self, bundle: str, donor: str, target: str) -> bool:
        around = self._draft.policies.around(namespace_of(bundle), barred={donor: OWNS_IT})
        chooser = Chooser(Only(target, "it is to be filled"), self._view, PlacementOptions(), None)
        chosen = select_modular(
            bundle, around, chooser, chooser.strategy.initial_memory(), self._filters
        )
        if chosen.broker == target:
            return True
        dropped = [
            each.sentence
            for outcome in chosen.outcomes
            for each in outcome.dropped
            if each.subject == target
        ]
        why = "; ".join(dropped) or "others have less of its anti-affinity group"
        self.rejections[bundle, target] = Rejection(
            bundle,
            "not-allowed",
            None,
            None,
            "",
            "{subject} does not go to {target}: {why}",
            {"target": target, "why": why},
        )
        return False

    def _move(self, bundle: str, carried: float, donor: str, target: str) -> None:
        view = self._view
        decision = Decision(
            DecisionKind.TRANSFER,
            bundle,
            donor,
            target,
            "refill",
            "{destination} carries {has:.0%} of the mean, {source} {gives:.0%}",
            {"has": self._load[target] / self._mean, "gives": self._load[donor] / self._mean},
        )
        named = "asked for: it is to be filled"
        self.moves.append(
            Move(move_id(view.now_ms, bundle), view.now_ms, decision, named, part_of(view, bundle))
        )
        self._load[donor] -= carried
        self._load[target] += carried
        self._draft.enter(decision, view)

    def _short_of_the_mean(self) -> None:
        for target in self._targets:
            part = self._load[target] / self._mean
            if part < ENOUGH:
                self.rejections[target, ""] = Rejection(
                    target,
                    "nothing-fits",
                    part,
                    ENOUGH,
                    "",
                    "{subject} would carry {value:.0%} of the mean: no other bundle may go there "
                    "and makes a broker above the mean cooler",
                )

    def _movable(self, bundles: Collection[str]) -> Iterator[tuple[float, str]]:
        """The bundles that carry load and may move, with that load."""
        for bundle in bundles:
            namespace, carried = namespace_of(bundle), known_load(self._view, bundle)
            if is_left_in_place(namespace) or carried <= 0:
                continue
            left = next((each for each in (bundle, namespace) if each in self._leave_alone), "")
            if left:
                why = "{subject} is left alone (--leave-alone)"
                self.rejections[left, ""] = Rejection(left, "left-alone", None, None, "", why)
            else:
                yield carried, bundle
