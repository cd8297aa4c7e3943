"""Makes a plan from a snapshot: repeats a goal's rounds as if traffic did not change meanwhile."""

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
from counterpoise.decide.balancing.measured import basis_of
from counterpoise.decide.balancing.moves import Move, Round, RoundMemory, imbalance_of
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.projection import moved_in, with_owners
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from counterpoise.decide.plan import Rejection
from counterpoise.decide.weights import DEFAULT_WEIGHTS
from counterpoise.load.view import ClusterView
from counterpoise.names.units import bytes_text

WORTH_MOVING = 0.01
"""A bundle that carries less than this part of the brokers' mean load is not worth moving."""


@dataclass(frozen=True, slots=True)
class AdviceOptions:
    """How many rounds and moves a plan may have, and the rules for them."""

    rounds: int = 10
    """The most rounds that a plan may have."""
    at_once: int = 4
    between_ms: int = BalanceOptions().decide_every_ms
    """Milliseconds between two rounds."""
    rules: ApprovalRules = field(default_factory=ApprovalRules)
    """The operator's rules. Moves that they withhold at the time of planning are left out."""
    moved_before: Collection[PastMove] = ()
    """Recent moves, which the rules' hourly limits count."""
    every_move: bool = False
    """Whether moves that even nothing out are part of the plan, too."""


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
    """Make a plan for a snapshot; equal arguments give equal plans.

    Each round is decided on the load that the moves before it would leave, if traffic stays as it
    is. A further round is added only if it makes the brokers more even.
    """
    options = options or AdviceOptions()
    draft = _PlanDraft(snapshot, goal, took, made_at_ms, memory or RoundMemory(), options)
    draft.add_rounds()
    if draft.swapped and not options.every_move:
        # Some moves left their destination fuller than their source. Smaller bundles may do
        # better, so a plan without these is made as well.
        other = _PlanDraft(snapshot, goal, took, made_at_ms, memory or RoundMemory(), options)
        other.leave_out(draft.swapped)
        other.add_rounds()
        draft = min(draft, other, key=_PlanDraft.worth)
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
    """A plan while rounds are being added to it."""

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
        self._gainless: dict[str, WhyNot] = {}
        self.swapped: dict[str, str] = {}
        """Bundles whose move leaves their destination with more than their source, and why."""
        self.notes: list[str] = []

    def worth(self) -> tuple[float, int]:
        """What plans are compared by, the least being best: imbalance in hundredths, then moves."""
        return round(imbalance_of(self.view), 2), len(self.steps)

    def leave_out(self, bundles: Mapping[str, str]) -> None:
        """Exclude these bundles from all further rounds, for these reasons."""
        for bundle, why in bundles.items():
            reason = f"{bundle} stays: {why} (--every-move plans it)"
            self._gainless[bundle] = WhyNot(bundle, "no-gain", reason)
        moved = {**self._memory.recently_unloaded, **dict.fromkeys(bundles, self.view.now_ms)}
        self._memory = replace(self._memory, recently_unloaded=moved)

    def add_rounds(self) -> None:
        """Add rounds until another one would not help."""
        for number in range(1, self._options.rounds + 1):
            if not self.add_round(number):
                break

    def add_round(self, number: int) -> bool:
        """Add the next round. Returns whether another may follow."""
        made, withheld = self._approved(self._asked())
        if not made.moves:
            self._refused(made.rejections, withheld)
            is_stable = made.memory.shedder == self._memory.shedder
            self._next(made)
            return not is_stable
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

    def _asked(self) -> Round:
        """Plan the goal's next round without moves that gain nothing; if none is left, plan it
        again.
        """
        while True:
            made = self._goal.plan(replace(self._snapshot, view=self.view), self._memory)
            if self._options.every_move:
                return made
            known = len(self._gainless)
            kept = self._worth_it(made)
            # Bundles that are left out count as just unloaded, so the goal chooses others.
            if kept.moves or len(self._gainless) == known:
                return kept

    def _worth_it(self, made: Round) -> Round:
        """Drop moves that gain nothing, and exclude their bundles from further rounds."""
        projected, kept = self.view, list[Move]()
        gainless: dict[str, str] = {}
        for move in made.moves:
            if why := gain_lacks(projected, move):
                gainless[move.bundle] = why
                continue
            kept.append(move)
            projected = moved_in(projected, move.decision)
            if why := swap_of(projected, move):
                self.swapped[move.bundle] = why
        self.leave_out(gainless)
        resting = dict.fromkeys(gainless, self.view.now_ms)
        unloaded = {**made.memory.recently_unloaded, **resting}
        return replace(
            made, moves=tuple(kept), memory=replace(made.memory, recently_unloaded=unloaded)
        )

    def _approved(self, made: Round) -> tuple[Round, list[WhyNot]]:
        """Drop the moves that the operator's rules withhold at this moment."""
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
        steps, projected = [], self.view
        for move in made.moves:
            projected = moved_in(projected, move.decision)
            cost = cost_of(self.view, move.bundle, self._snapshot.connections, self._took)
            steps.append(step_of(number, self._based(move), cost, projected))
        owners = {move.bundle: move.destination for move in made.moves}
        return steps, with_owners(projected, owners)

    def _based(self, move: Move) -> Move:
        """The move with its basis: the measured figures of its bundle, which are the same in each
        round.
        """
        state = self._snapshot.state
        if state is None:
            return move
        return replace(move, basis=basis_of(move, state, self._snapshot.view.now_ms))

    def _refused(self, rejections: Iterable[Rejection], withheld: Iterable[WhyNot]) -> None:
        refused = [WhyNot(r.subject, r.rule, r.sentence, r.setting) for r in rejections]
        for each in (*refused, *withheld, *self._gainless.values()):
            self.why_not[each.subject, each.rule] = each


def gain_lacks(view: ClusterView, move: Move) -> str:
    """Why a move is not worth making, as a sentence; empty if it is."""
    source, target = view.broker_index(move.source), view.broker_index(move.destination)
    loads = view.broker.traffic.throughput()
    mean, carried = float(loads.mean()) if len(loads) else 0.0, view.carried(move.bundle)
    if source is None or target is None or not mean > 0:
        return ""
    if carried < WORTH_MOVING * mean:
        return (
            f"it carries {bytes_text(carried)}, less than {WORTH_MOVING:.0%} of the "
            f"{bytes_text(mean)} that a broker carries on average"
        )
    has, gets = float(loads[source]), float(loads[target])
    if gets + carried >= has:
        return (
            f"it carries {bytes_text(carried)}, and the two would all but change places: "
            f"{move.source} carries {bytes_text(has)}, {move.destination} {bytes_text(gets)}"
        )
    return ""


def swap_of(after: ClusterView, move: Move) -> str:
    """A warning if the move makes its destination carry more than its source; otherwise empty.

    ``after`` is the cluster once the move is made.
    """
    source, target = after.broker_index(move.source), after.broker_index(move.destination)
    if source is None or target is None:
        return ""
    loads, carried = after.broker.traffic.throughput(), after.carried(move.bundle)
    if loads[target] <= loads[source]:
        return ""
    return (
        f"it carries {bytes_text(carried)} and would leave {move.destination} fuller than "
        f"{move.source}, while smaller bundles make them more even"
    )


def cost_of(view: ClusterView, bundle: str, connections: Mapping[str, int], took: MoveTime) -> Cost:
    """What a move of a bundle costs its clients, if its load stays as it is."""
    row, count = view.bundle_index(bundle), connections.get(bundle, 0)
    if row is None:
        return Cost(0, count, 0.0, took.seconds)
    out = float(view.bundle.short.rate_out[row])
    return Cost(int(view.bundle.topics[row]), count, view.carried(bundle), took.seconds, out)


def step_of(number: int, move: Move, cost: Cost, after: ClusterView) -> PlanStep:
    """A move as a step of the plan. ``after`` is the cluster once the move is made."""
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
        move.basis_text,
    )


def picture(view: ClusterView) -> Picture:
    """Each broker's load, and how uneven they are, as a plan shows them."""
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
    """The view ``after`` moves, but with the usage in ``before`` of brokers that share a host.

    Such brokers all report their host's usage, which a move between them does not change.
    """
    hosts = [name.rpartition(":")[0] for name in after.brokers]
    shared = np.array([hosts.count(host) > 1 for host in hosts], np.bool_)
    usage = np.where(shared[:, None], before.broker.usage, after.broker.usage)
    return replace(after, broker=replace(after.broker, usage=usage))
