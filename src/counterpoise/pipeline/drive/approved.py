"""Carry out a plan that somebody approved: as it stands, or not at all.

Before each of the plan's rounds the world is looked at anew. What was approved and is not there any
more refuses the plan, unless a part of it will do.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import aiohttp

from counterpoise.decide.advice.changed import ClusterSnapshot, PlanCheck, check, moves_of
from counterpoise.decide.advice.plan import AdvisedPlan, PlanStep
from counterpoise.decide.advice.planned import imbalance_of
from counterpoise.decide.balancing.approval import HOUR_MS, ApprovalRules, approve
from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus, Round
from counterpoise.decide.balancing.thrash import trailed
from counterpoise.pipeline.balancer import refused_by_rule, told
from counterpoise.pipeline.collect.shedder import sheds_by_itself
from counterpoise.pipeline.drive.snapshot import ClusterReading, SnapshotReader
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.history.control import read_control
from counterpoise.pipeline.history.layout import newest_poll
from counterpoise.pipeline.history.moved import moved_since
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.history.tables import HistoryTables
from counterpoise.pipeline.policies import CannotSeeError

SPAN_MOST_MS = 24 * HOUR_MS
"""How long a plan's moves are remembered, whatever span a balancer goes by."""


class PlanRefusedError(RuntimeError):
    """The plan, or what is left of it, is not carried out; the message says why."""


@dataclass(frozen=True, slots=True)
class ApprovedOptions:
    """How an approved plan is carried out."""

    execute: bool = False
    """False: it is only held against the world."""
    valid_for_s: float = 3600.0
    partial: bool = False
    """Carry out the steps that still fit, even if others do not."""
    attempts: int = 3
    """How often a step is tried that the cluster fails at."""
    verify_within_s: float = 20.0
    rules: ApprovalRules = field(default_factory=ApprovalRules)


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """What came of a plan."""

    before: float
    """The imbalance when it was begun."""
    outcomes: tuple[MoveOutcome, ...]
    done_before: int
    """Steps that were done already."""
    left: dict[str, str]
    """Bundles whose step was not carried out, and why."""
    refused: str = ""
    """Why the rest was not carried out, where the world changed on the way."""


class ApprovedPlan:
    """One plan on one cluster, with its history; `tell` hears whatever happens.

    The caller holds the history's lease.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        addresses: tuple[str, ...],
        store: Store,
        plan: AdvisedPlan,
        clock_ms: Callable[[], int],
        tell: Callable[[str], None],
        options: ApprovedOptions,
    ) -> None:
        self._addresses = addresses
        self._store = store
        self._history = HistoryTables(store)
        self._plan = plan
        self._clock_ms = clock_ms
        self._tell = tell
        self._options = options
        self._began_ms = clock_ms()
        self._reader = SnapshotReader(session, addresses, clock_ms, after_poll=newest_poll(store))
        self._executor = Executor(
            session,
            clock_ms,
            ExecutorOptions(
                execute=True,
                verify_within_s=options.verify_within_s,
                stale_after_s=options.valid_for_s,
                at_once=plan.at_once,
            ),
            self._withheld,
            self._reader.where,
        )

    async def carry_out(self) -> CarriedOut:
        """Check it, and carry it out if that was asked for.

        Raises `PlanRefusedError` before anything is moved, or `CannotSeeError`.
        """
        sight, checked = await self._checked()
        self._refuse(checked)
        left = dict(checked.changed)
        before, outcomes = imbalance_of(sight.view), list[MoveOutcome]()
        refused = ""
        if self._options.execute and checked.to_do:
            for number in sorted({step.round for step in checked.to_do}):
                if outcomes:
                    try:
                        sight, checked = await self._checked()
                        self._refuse(checked)
                    except (PlanRefusedError, CannotSeeError) as error:
                        refused = str(error)
                        break
                    left |= checked.changed
                steps = [step for step in checked.to_do if step.round == number]
                outcomes += await self._round(steps, sight)
        settled = {one.bundle: one for one in outcomes}
        for step in self._plan.steps:
            one = settled.get(step.bundle)
            if one is not None and one.status is not MoveStatus.MOVED:
                left[step.bundle] = one.error or _ended(one)
            elif one is None and step in checked.to_do and refused:
                left[step.bundle] = refused
        return CarriedOut(before, tuple(outcomes), len(checked.done), left, refused)

    async def _checked(self) -> tuple[ClusterReading, PlanCheck]:
        sight = await self._reader.look()
        await asyncio.to_thread(land, self._store, sight.rows)
        world = ClusterSnapshot(
            replace(sight.view, now_ms=self._clock_ms()), sight.owned, dict(sight.silent)
        )
        return sight, check(self._plan, world, round(self._options.valid_for_s * 1000))

    def _refuse(self, checked: PlanCheck) -> None:
        if checked.refusal:
            raise PlanRefusedError(f"plan {self._plan.id} is refused: {checked.refusal}")
        if checked.changed and not self._options.partial:
            bundle, reason = next(iter(checked.changed.items()))
            raise PlanRefusedError(
                f"plan {self._plan.id} is refused, since the world changed for "
                f"{len(checked.changed)} of its {len(self._plan.steps)} steps "
                f"({bundle}: {reason}); make a new one, or --partial carries out the others"
            )

    async def _round(self, steps: list[PlanStep], sight: ClusterReading) -> list[MoveOutcome]:
        poll_id = int(sight.rows["poll_id"][0])
        if reason := await sheds_by_itself(self._reader.admin, self._addresses):
            raise PlanRefusedError(reason)
        moves = moves_of(steps, self._plan.id, replace(sight.view, now_ms=poll_id))
        memory = self._history.memory_before(poll_id)
        made = Round(
            poll_id,
            f"plan {self._plan.id}",
            imbalance_of(sight.view),
            len(sight.view.brokers),
            len(sight.view.bundles),
            tuple(moves),
            (),
            replace(memory, decided_at_ms=poll_id),
        )
        self._history.record_round(made)
        outcomes = await self._see_through(moves, tuple(sight.owned), poll_id)
        recent = {one.bundle: poll_id for one in outcomes if one.settles}
        ended = [one.ended_at_ms for one in outcomes if one.carried_out]
        self._history.record_memory(
            poll_id,
            replace(
                made.memory,
                recently_unloaded={**memory.recently_unloaded, **recent},
                settled_at_ms=max(ended, default=memory.settled_at_ms),
                trails=trailed(
                    memory.trails,
                    [(one.bundle, one.hop) for one in outcomes if one.hop],
                    poll_id,
                    SPAN_MOST_MS,
                ),
            ),
        )
        return outcomes

    async def _see_through(
        self, moves: list[Move], brokers: tuple[str, ...], poll_id: int
    ) -> list[MoveOutcome]:
        """Each move's last outcome; what failed is tried again."""
        last: dict[str, MoveOutcome] = {}

        def done(outcome: MoveOutcome) -> None:
            last[outcome.id] = outcome
            if outcome.status is not MoveStatus.FAILED:
                self._history.record_outcome(outcome)
            self._tell(told(outcome))

        moved = await asyncio.to_thread(moved_since, self._store, self._clock_ms() - HOUR_MS)
        approved, withheld = approve(moves, moved, poll_id, self._options.rules)
        for each in withheld:
            done(refused_by_rule(each))
        for attempt in range(self._options.attempts):
            again = [m for m in approved if not attempt or last[m.id].status is MoveStatus.FAILED]
            if not again:
                break
            await self._executor.carry_out(again, brokers, done)
        for outcome in last.values():
            if outcome.status is MoveStatus.FAILED:
                self._history.record_outcome(outcome)
        return list(last.values())

    async def _withheld(self) -> str:
        held = (await asyncio.to_thread(read_control, self._store)).withholds(self._began_ms)
        await asyncio.to_thread(self._store.guard)
        return held


def _ended(one: MoveOutcome) -> str:
    """How a move ended that is not where it should be, and what comes next."""
    match one.status:
        case MoveStatus.UNOWNED:
            return (
                f"unloaded, and nobody, {one.destination} included, had taken it by then; whoever "
                "is looked up for it next has it: make a new plan"
            )
        case MoveStatus.ELSEWHERE:
            return f"{one.owner} took it in place of {one.destination}: make a new plan"
        case _:
            return f"{one.status.value}, owner {one.owner or 'none'}"
