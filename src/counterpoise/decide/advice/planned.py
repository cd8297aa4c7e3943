"""A plan from what was seen: the strategy is asked again and again, as if the load stayed so."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from counterpoise.decide.advice.plan import (
    FORMAT,
    AdvisedPlan,
    BrokerLoad,
    Cost,
    MoveTime,
    Picture,
    PlanStep,
    SplitAdvice,
    WhyNot,
)
from counterpoise.decide.balancing.moves import Move, Round, RoundMemory
from counterpoise.decide.balancing.policies import PlacementPolicies
from counterpoise.decide.balancing.projection import Projection, with_owners
from counterpoise.decide.balancing.round import Strategy, decide_on, imbalance
from counterpoise.decide.plan import Rejection
from counterpoise.decide.weights import DEFAULT_WEIGHTS
from counterpoise.load.view import ClusterView, unloaded_mask


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """What a plan is made of: what was seen, and what is remembered."""

    view: ClusterView
    """Without marks of what was moved a moment ago: `recent` has them."""
    answering: Collection[str]
    """Brokers that may be given something."""
    recent: Mapping[str, int] = field(default_factory=dict)
    """Bundles that are to stay, and when they were moved."""
    memory: RoundMemory = field(default_factory=RoundMemory)
    connections: Mapping[str, int] = field(default_factory=dict)
    """Producers and consumers by bundle."""
    policies: PlacementPolicies | None = None
    """Which brokers may have what; None: nobody could be asked."""
    source: str = ""
    """Whence it was read, for a person."""


@dataclass(frozen=True, slots=True)
class AdviceOptions:
    """How far a plan goes."""

    rounds: int = 10
    """How often the strategy is asked, at most."""
    at_once: int = 4


def advise(
    scene: ClusterSnapshot,
    strategy: Strategy,
    took: MoveTime,
    made_at_ms: int,
    splits: tuple[SplitAdvice, ...] = (),
    options: AdviceOptions | None = None,
    notes: tuple[str, ...] = (),
) -> AdvisedPlan:
    """The plan for a scene; the same for the same arguments.

    Each round is decided on the picture that the moves before it would leave, if the load stays as
    it is. A further round is part of the plan only if it leaves the brokers more even.
    """
    options = options or AdviceOptions()
    play = _PlanDraft(scene, strategy, took)
    for number in range(1, options.rounds + 1):
        if not play.round(number):
            break
    return AdvisedPlan(
        FORMAT,
        made_at_ms,
        scene.view.now_ms,
        scene.source,
        strategy.shedder.name,
        strategy.placement.name,
        picture(scene.view),
        picture(with_hosts_usage(play.view, scene.view)),
        tuple(play.steps),
        tuple(play.why_not.values()),
        splits,
        took,
        options.at_once,
        (*notes, *play.notes),
    ).sealed()


class _PlanDraft:
    def __init__(self, scene: ClusterSnapshot, strategy: Strategy, took: MoveTime) -> None:
        self._scene = scene
        self._strategy = strategy
        self._took = took
        self._recent = dict(scene.recent)
        self._memory = scene.memory
        self.view = scene.view
        self.steps: list[PlanStep] = []
        self.why_not: dict[tuple[str, str], WhyNot] = {}
        self.notes: list[str] = []

    def round(self, number: int) -> bool:
        """Play one; whether another may follow."""
        made = self._asked()
        if not made.moves:
            self._refused(made.rejections)
            settled = made.memory.shedder == self._memory.shedder
            self._next(made)
            return not settled
        steps, after = self._carried_out(number, made)
        if self.steps and imbalance_of(after) >= imbalance_of(self.view):
            self.notes.append(
                f"a further round of {self._strategy.shedder.name} would move {len(made.moves)} "
                f"more and leave an imbalance of {imbalance_of(after):.2f} instead of "
                f"{imbalance_of(self.view):.2f}: it is not part of the plan"
            )
            return False
        if number > 1 and not self.steps:
            self.notes.append(
                f"{self._strategy.shedder.name} acts only when it has found the same in {number} "
                "rounds in a row; the plan takes for granted that the load stays as it is"
            )
        self.why_not.clear()
        self._refused(made.rejections)
        self.steps += steps
        self.view = after
        self._recent |= {move.bundle: made.poll_id for move in made.moves}
        self._next(made)
        return True

    def _asked(self) -> Round:
        view = self.view
        marked = unloaded_mask(view.bundles, self._recent)
        view = replace(view, bundle=replace(view.bundle, recently_unloaded=marked))
        return decide_on(
            view,
            self._scene.answering,
            self._recent,
            self._memory,
            self._strategy,
            self._scene.policies,
        )

    def _next(self, made: Round) -> None:
        self._memory = replace(made.memory, recently_unloaded=dict(self._recent))
        later = self.view.now_ms + self._strategy.balance.decide_every_ms
        self.view = replace(self.view, now_ms=later)

    def _carried_out(self, number: int, made: Round) -> tuple[list[PlanStep], ClusterView]:
        steps, projection = [], Projection(self.view)
        for move in made.moves:
            projection = projection.after(move.decision)
            cost = cost_of(self.view, move.bundle, self._scene.connections, self._took)
            steps.append(step_of(number, move, cost, projection.view))
        owners = {move.bundle: move.destination for move in made.moves}
        return steps, with_owners(projection.view, owners)

    def _refused(self, rejections: Collection[Rejection]) -> None:
        for each in rejections:
            self.why_not[each.subject, each.rule] = WhyNot(
                each.subject, each.rule, each.sentence, each.setting
            )


def cost_of(view: ClusterView, bundle: str, connections: Mapping[str, int], took: MoveTime) -> Cost:
    """What the move of a bundle costs its clients, by what it carries now."""
    row, count = view.bundle_index(bundle), connections.get(bundle, 0)
    if row is None:
        return Cost(0, count, 0.0, took.seconds)
    return Cost(int(view.bundle.topics[row]), count, view.carried(bundle), took.seconds)


def step_of(number: int, move: Move, cost: Cost, after: ClusterView) -> PlanStep:
    """A move as a step of a plan's round; ``after`` is the cluster once it is made."""
    return PlanStep(
        number,
        move.bundle,
        move.source,
        move.destination,
        move.decision.reason,
        move.decision.sentence,
        move.placement,
        cost,
        imbalance_of(after),
    )


def picture(view: ClusterView) -> Picture:
    """The brokers of a view as a person looks at them."""
    broker = view.broker
    usage = view.weighted_usage(DEFAULT_WEIGHTS.modular)
    return Picture(
        imbalance_of(view),
        tuple(
            BrokerLoad(name, *figures)
            for name, *figures in zip(
                view.brokers,
                broker.traffic.throughput().tolist(),
                broker.traffic.rate().tolist(),
                np.where(np.isfinite(usage), usage, 0.0).tolist(),
                broker.bundle_count.tolist(),
                broker.topics.tolist(),
                strict=True,
            )
        ),
    )


def with_hosts_usage(after: ClusterView, before: ClusterView) -> ClusterView:
    """The view after, where brokers of one host go on measuring the same machine."""
    hosts = [name.rpartition(":")[0] for name in after.brokers]
    shared = np.array([hosts.count(host) > 1 for host in hosts], np.bool_)
    usage = np.where(shared[:, None], before.broker.usage, after.broker.usage)
    return replace(after, broker=replace(after.broker, usage=usage))


def imbalance_of(view: ClusterView) -> float:
    """How uneven the brokers of a view are, by bytes/s."""
    return imbalance(view.broker.traffic.throughput().tolist())
