"""A plan from a snapshot: its goal is asked again and again, as if the load stayed as it is."""

from collections.abc import Collection, Iterable, Mapping
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
from counterpoise.decide.balancing.approval import ApprovalRules, PastMove, approve
from counterpoise.decide.balancing.goal import Goal
from counterpoise.decide.balancing.moves import Move, Round, RoundMemory, imbalance_of
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.projection import Projection, with_owners
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from counterpoise.decide.plan import Rejection
from counterpoise.decide.weights import DEFAULT_WEIGHTS
from counterpoise.load.view import ClusterView


@dataclass(frozen=True, slots=True)
class AdviceOptions:
    """How far a plan goes."""

    rounds: int = 10
    """How often the goal is asked, at most."""
    at_once: int = 4
    between_ms: int = BalanceOptions().decide_every_ms
    """Between two rounds."""
    rules: ApprovalRules = field(default_factory=ApprovalRules)
    """What these rules withhold at this moment is not part of the plan."""
    moved_before: Collection[PastMove] = ()
    """What counts for the rules' hour."""


def advise(
    snapshot: ClusterSnapshot,
    goal: Goal,
    took: MoveTime,
    made_at_ms: int,
    memory: RoundMemory | None = None,
    splits: tuple[SplitAdvice, ...] = (),
    options: AdviceOptions | None = None,
    notes: tuple[str, ...] = (),
) -> AdvisedPlan:
    """The plan for a snapshot; the same for the same arguments.

    Each round is decided on the picture that the moves before it would leave, if the load stays as
    it is. A further round is part of the plan only if it leaves the brokers more even.
    """
    options = options or AdviceOptions()
    draft = _PlanDraft(snapshot, goal, took, made_at_ms, memory or RoundMemory(), options)
    for number in range(1, options.rounds + 1):
        if not draft.add_round(number):
            break
    return AdvisedPlan(
        FORMAT,
        made_at_ms,
        snapshot.view.now_ms,
        snapshot.source,
        goal.name,
        goal.placed_by,
        picture(snapshot.view),
        picture(with_hosts_usage(draft.view, snapshot.view)),
        tuple(draft.steps),
        tuple(draft.why_not.values()),
        splits,
        took,
        options.at_once,
        (*notes, *draft.notes),
    ).sealed()


class _PlanDraft:
    """A plan while its rounds are added."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        goal: Goal,
        took: MoveTime,
        made_at_ms: int,
        memory: RoundMemory,
        options: AdviceOptions,
    ) -> None:
        self._snapshot = snapshot
        self._goal = goal
        self._took = took
        self._made_at_ms = made_at_ms
        self._memory = memory
        self._options = options
        self.view = snapshot.view
        self.steps: list[PlanStep] = []
        self.why_not: dict[tuple[str, str], WhyNot] = {}
        self.notes: list[str] = []

    def add_round(self, number: int) -> bool:
        """Add the next round; whether another may follow."""
        made, withheld = self._approved(
            self._goal.plan(replace(self._snapshot, view=self.view), self._memory)
        )
        if not made.moves:
            self._refused(made.rejections, withheld)
            settled = made.memory.shedder == self._memory.shedder
            self._next(made)
            return not settled
        steps, after = self._carried_out(number, made)
        if self.steps and imbalance_of(after) >= imbalance_of(self.view):
            self.notes.append(
                f"a further round of {self._goal.name} would move {len(made.moves)} "
                f"more and leave an imbalance of {imbalance_of(after):.2f} instead of "
                f"{imbalance_of(self.view):.2f}: it is not part of the plan"
            )
            return False
        if number > 1 and not self.steps:
            self.notes.append(
                f"{self._goal.name} acts only when it has found the same in {number} "
                "rounds in a row; the plan takes for granted that the load stays as it is"
            )
        self.why_not.clear()
        self._refused(made.rejections, withheld)
        self.steps += steps
        self.view = after
        self._next(made)
        return True

    def _approved(self, made: Round) -> tuple[Round, list[WhyNot]]:
        """The round without what the operator's rules withhold at this moment."""
        options = self._options
        approved, withheld = approve(
            made.moves, options.moved_before, self._made_at_ms, options.rules
        )
        return replace(made, moves=tuple(approved)), [
            WhyNot(each.move.bundle, "rule", f"{each.move.bundle} stays: {each.reason}")
            for each in withheld
        ]

    def _next(self, made: Round) -> None:
        self._memory = made.memory.after(made.as_moved(made.poll_id))
        self.view = replace(self.view, now_ms=self.view.now_ms + self._options.between_ms)

    def _carried_out(self, number: int, made: Round) -> tuple[list[PlanStep], ClusterView]:
        steps, projection = [], Projection(self.view)
        for move in made.moves:
            projection = projection.after(move.decision)
            cost = cost_of(self.view, move.bundle, self._snapshot.connections, self._took)
            steps.append(step_of(number, move, cost, projection.view))
        owners = {move.bundle: move.destination for move in made.moves}
        return steps, with_owners(projection.view, owners)

    def _refused(self, rejections: Iterable[Rejection], withheld: Iterable[WhyNot]) -> None:
        refused = [WhyNot(r.subject, r.rule, r.sentence, r.setting) for r in rejections]
        for each in (*refused, *withheld):
            self.why_not[each.subject, each.rule] = each


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
