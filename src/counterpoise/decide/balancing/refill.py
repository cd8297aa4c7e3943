"""What brokers are given that carry too little: after a restart, or because they are new.

No strategy's threshold need be crossed for that: five brokers at half of what they can do, and a
sixth at nothing, are in nobody's way. Each broker to be filled gets bundles until it carries the
mean, the largest that fit first, so that few clients have to move; each comes from whoever carries
the most by then.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from counterpoise.decide.balancing.drain import ClusterSnapshot, known_load
from counterpoise.decide.balancing.moves import Move, move_id
from counterpoise.decide.balancing.policies import HAS_IT
from counterpoise.decide.balancing.round import part_of
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.only import Only
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.selection import Chooser, Surroundings, select_modular
from counterpoise.decide.plan import Decision, DecisionKind, Rejection
from counterpoise.names.bundle import namespace_of
from counterpoise.names.namespace import SYSTEM_NAMESPACE_TEXT, bound_to_broker

ENOUGH = 0.98
"""A broker that carries so much of the mean is full."""


@dataclass(frozen=True, slots=True)
class RefillPlan:
    """Who gets what from whom, and why not more."""

    moves: tuple[Move, ...]
    rejections: tuple[Rejection, ...]


def plan_refill(
    scene: ClusterSnapshot,
    targets: Collection[str],
    filters: FilterOptions,
    leave_alone: Collection[str] = frozenset(),
) -> RefillPlan:
    """Fill `targets` up to the mean; without randomness: the same scene gives the same plan.

    Isolation policies, anti-affinity groups, failure domains, topic caps and versions are heeded;
    that namespaces have as many bundles on each broker is not, since load is what counts here.
    """
    return _Refill(scene, targets, filters, leave_alone).plan()


def refill_refusal(scene: ClusterSnapshot, targets: Collection[str]) -> str:
    """Why these brokers cannot be filled, as a sentence; empty when they can."""
    brokers = sorted({*scene.owned, *scene.silent})
    for target in targets:
        if target not in brokers:
            return f"{target} is no broker of this cluster: it has {', '.join(brokers) or 'none'}"
        if why := scene.silent.get(target):
            return f"{target} does not answer: {why}"
    if not set(scene.owned) - set(targets):
        return "there is no other broker whose bundles could be moved"
    return ""


class _Refill:
    def __init__(
        self,
        scene: ClusterSnapshot,
        targets: Collection[str],
        filters: FilterOptions,
        leave_alone: Collection[str],
    ) -> None:
        self._scene = scene
        self._targets = sorted(set(targets))
        self._filters = replace(filters, distribute_evenly=False)
        self._leave_alone = leave_alone
        self._moves: list[Move] = []
        self._rejections: dict[tuple[str, str], Rejection] = {}
        self._load = {
            broker: sum(known_load(scene.view, bundle) for bundle in sorted(scene.owned[broker]))
            for broker in sorted(scene.owned)
        }
        self._bundles = {broker: sorted(self._movable(broker)) for broker in self._load}
        self._mean = sum(self._load.values()) / len(self._load)
        self._owned = {each: Counter(map(namespace_of, scene.owned[each])) for each in self._load}

    def plan(self) -> RefillPlan:
        donors = set(self._load) - set(self._targets)
        if self._mean <= 0:
            nothing = "no bundle carries anything: there is no load to give"
            return RefillPlan((), (Rejection("cluster", "no-load", 0.0, 0.0, "", nothing),))
        while donors:
            target = min(self._targets, key=lambda each: (self._load[each], each))
            donor = max(donors, key=lambda each: (self._load[each], each))
            if self._load[target] >= ENOUGH * self._mean or self._load[donor] <= self._mean:
                break
            if not self._given(donor, target):
                donors.discard(donor)
        self._short_of_the_mean()
        return RefillPlan(tuple(self._moves), tuple(self._rejections.values()))

    def _given(self, donor: str, target: str) -> bool:
        """Move the bundle of the donor that fits best; False when none does."""
        bundles = self._bundles[donor]
        place = bisect_right(bundles, (self._mean - self._load[target], "\U0010ffff"))
        # The largest that keeps the target below the mean; else the smallest above that.
        for at in (*range(place - 1, -1, -1), *range(place, len(bundles))):
            carried, bundle = bundles[at]
            if self._load[target] + 1.5 * carried >= self._load[donor]:
                break  # the two would all but change places
            if self._may_have(bundle, donor, target):
                del bundles[at]
                self._move(bundle, carried, donor, target)
                return True
        return False

    def _may_have(self, bundle: str, donor: str, target: str) -> bool:
        namespace, scene = namespace_of(bundle), self._scene
        group = scene.groups.get(namespace)
        around = Surroundings(
            brokers=list(self._load),
            facts=scene.facts,
            policies=scene.policies,
            anti_affinity=None if group is None else {
                broker: sum(1 for each in group if of[each]) for broker, of in self._owned.items()
            },
            domains=scene.domains,
            barred={donor: HAS_IT},
        )  # fmt: skip
        chooser = Chooser(Only(target, "it is to be filled"), scene.view, PlacementOptions(), None)
        chosen = select_modular(bundle, around, chooser, chooser.strategy.initial_memory(),
                                self._filters)  # fmt: skip
        if chosen.broker == target:
            return True
        dropped = [
            each.sentence for outcome in chosen.outcomes for each in outcome.dropped
            if each.subject == target
        ]  # fmt: skip
        why = "; ".join(dropped) or "others have less of its anti-affinity group"
        self._rejections[bundle, target] = Rejection(
            bundle, "not-allowed", None, None, "",
            "{subject} does not go to {target}: {why}", {"target": target, "why": why},
        )  # fmt: skip
        return False

    def _move(self, bundle: str, carried: float, donor: str, target: str) -> None:
        view = self._scene.view
        decision = Decision(
            DecisionKind.TRANSFER, bundle, donor, target, "refill",
            "{destination} carries {has:.0%} of the mean, {source} {gives:.0%}",
            {"has": self._load[target] / self._mean, "gives": self._load[donor] / self._mean},
        )  # fmt: skip
        named = "asked for: it is to be filled"
        self._moves.append(
            Move(move_id(view.now_ms, bundle), view.now_ms, decision, named, part_of(view, bundle))
        )
        self._load[donor] -= carried
        self._load[target] += carried
        for broker, more in ((donor, -1), (target, 1)):
            self._owned[broker][namespace_of(bundle)] += more

    def _short_of_the_mean(self) -> None:
        for target in self._targets:
            part = self._load[target] / self._mean
            if part < ENOUGH:
                self._rejections[target, ""] = Rejection(
                    target, "nothing-fits", part, ENOUGH, "",
                    "{subject} would carry {value:.0%} of the mean: no other bundle may go there "
                    "and makes a broker above the mean cooler",
                )  # fmt: skip

    def _movable(self, broker: str) -> Iterator[tuple[float, str]]:
        """A broker's bundles that carry anything and that nobody wants left alone."""
        for bundle in self._scene.owned[broker]:
            namespace, carried = namespace_of(bundle), known_load(self._scene.view, bundle)
            if bound_to_broker(namespace) or namespace == SYSTEM_NAMESPACE_TEXT or carried <= 0:
                continue
            left = next((each for each in (bundle, namespace) if each in self._leave_alone), "")
            if left:
                why = "{subject} is left alone (--leave-alone)"
                self._rejections[left, ""] = Rejection(left, "left-alone", None, None, "", why)
            else:
                yield carried, bundle
