"""Carries out a plan that the operator approved: unchanged, or not at all.

Before each of the plan's rounds the cluster is read again, once its brokers have measured the
effect of the round before. A step that no longer fits makes the plan refused, unless ``--partial``
is given.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import aiohttp

from counterpoise.decide.advice.changed import PlanCheck, check, moves_of
from counterpoise.decide.advice.plan import AdvisedPlan, PlanStep
from counterpoise.decide.balancing.approval import HOUR_MS, ApprovalRules
from counterpoise.decide.balancing.due import waits_for
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, Round, imbalance_of
from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.names.callbacks import MillisecondClock, SentenceSink
from counterpoise.names.errors import ExplainedError
from counterpoise.names.options import from_conf
from counterpoise.pipeline.collect.settings import sheds_by_itself
from counterpoise.pipeline.drive.action_trail import ActionTrail, cordons
from counterpoise.pipeline.drive.snapshot import ClusterReading, SnapshotReader
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.policies import CannotSeeError
from counterpoise.pipeline.round_reporter import RoundReporter
from counterpoise.pipeline.rounds import RoundEnd, RoundRunner
from counterpoise.pipeline.tables.control import read_control
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.reports import land, newest_poll

SPAN_MOST_MS = 24 * HOUR_MS
"""For how long a plan's moves are remembered, so that later rounds do not undo them."""


class PlanRefusedError(ExplainedError):
    """The plan, or the rest of it, is not carried out; the message says why."""


@dataclass(frozen=True, slots=True)
class ApprovedOptions:
    """How an approved plan is carried out."""

    execute: bool = False
    """Whether the plan is carried out; otherwise it is only compared with the cluster."""
    valid_for_s: float = 3600.0
    """The greatest age of a plan that is carried out."""
    partial: bool = False
    """Whether to carry out the steps that still fit if others do not."""
    attempts: int = 3
    """How often a step is tried if it fails."""
    rules: ApprovalRules = field(default_factory=ApprovalRules)
    moves: ExecutorOptions = field(default_factory=ExecutorOptions)
    """How bundles are moved, and when that stops. The number of moves at once is the plan's."""
    balance: BalanceOptions | None = None
    """How often brokers measure; None: as the cluster's own settings say."""
    fills: Collection[str] = ()
    """Cordoned brokers that are given bundles all the same."""
    look_every_s: float = 5.0
    """Seconds between two polls while a round waits for brokers to measure again."""


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """The result of carrying out a plan: moves' outcomes, and the steps left out with reasons."""

    before: float
    """The imbalance when the plan was begun."""
    outcomes: tuple[MoveOutcome, ...]
    done_before: int
    """The number of steps whose destination had the bundle already."""
    left: dict[str, str]
    """Bundles whose step was not carried out, and why."""
    refused: str = ""
    """Why the remaining steps were not carried out; empty if nothing stopped the plan."""


class ApprovedPlan:
    """Carries out one approved plan if it still fits the cluster; `log` gets a sentence per
    outcome.

    The caller must be the history's writer (`writer`).
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        addresses: tuple[str, ...],
        writer: TablesWriter,
        plan: AdvisedPlan,
        clock_ms: MillisecondClock,
        log: SentenceSink,
        options: ApprovedOptions,
    ) -> None:
        self._addresses = addresses
        self._writer = writer
        self._journal = JournalWriter(writer)
        self._plan = plan
        self._clock_ms = clock_ms
        self._log = log
        self._options = options
        self._began_ms = clock_ms()
        self._reader = SnapshotReader(session, addresses, clock_ms, after_poll=newest_poll(writer))
        self._executor = Executor(
            session,
            clock_ms,
            replace(
                options.moves, execute=True, stale_after_s=options.valid_for_s, at_once=plan.at_once
            ),
            self._withheld,
            self._reader.where,
        )

    async def carry_out(self) -> CarriedOut:
        """Check the plan, and carry it out if the options say `execute`.

        Raises `PlanRefusedError` before anything is moved, or `CannotSeeError`.
        """
        reading, checked = await self._checked()
        self._refuse(checked)
        left, done_before = dict(checked.changed), len(checked.done)
        before, outcomes = imbalance_of(reading.snapshot.view), list[MoveOutcome]()
        refused = ""
        if self._options.execute and checked.to_do:
            rounds = sorted({step.round for step in checked.to_do})
            for number in rounds:
                if outcomes:
                    try:
                        reading, checked = await self._measured(number, rounds[-1])
                        self._refuse(checked)
                    except (PlanRefusedError, CannotSeeError) as error:
                        refused = str(error)
                        break
                    left |= checked.changed
                steps = [step for step in checked.to_do if step.round == number]
                made, refused = await self._round(steps, reading)
                outcomes += made
                if refused:
                    break
        ended = {one.bundle: one for one in outcomes}
        for step in self._plan.steps:
            one = ended.get(step.bundle)
            if one is not None and one.status is not MoveStatus.MOVED:
                left[step.bundle] = one.error or _ended(one)
            elif one is None and refused and step not in checked.done:
                left[step.bundle] = checked.changed.get(step.bundle, refused)
        return CarriedOut(before, tuple(outcomes), done_before, left, refused)

    async def _measured(self, number: int, last: int) -> tuple[ClusterReading, PlanCheck]:
        """Read the cluster again and check the plan before round `number`.

        It waits until brokers have measured the effect of the round before.
        """
        balance, last_reason = self._options.balance or await self._balance(), ""
        while True:
            reading, checked = await self._checked()
            poll_id = int(reading.rows["poll_id"][0])
            memory = await asyncio.to_thread(self._journal.memory_before, poll_id)
            waits = waits_for(self._reader.state, memory, balance)
            if not waits:
                return reading, checked
            if waits != last_reason:
                self._log(f"round {number} of {last}: {waits}")
            last_reason = waits
            await asyncio.sleep(self._options.look_every_s)

    async def _balance(self) -> BalanceOptions:
        """Read how often the cluster's brokers measure: from their settings, or else Pulsar's
        defaults.
        """
        try:
            conf = await self._reader.policies.settings(self._addresses)
        except CannotSeeError:
            return BalanceOptions()
        found = from_conf(BalanceOptions, conf.values)
        return replace(found, enabled=True, shedding_enabled=True)

    async def _checked(self) -> tuple[ClusterReading, PlanCheck]:
        reading = await self._reader.poll()
        await asyncio.to_thread(land, self._writer, reading.rows)
        seen = reading.snapshot
        actions = await asyncio.to_thread(ActionTrail(self._writer.location).actions)
        known = cordons(actions).items()
        cordoned = {each: why for each, why in known if each not in self._options.fills}
        view = replace(seen.view, now_ms=self._clock_ms())
        now = replace(seen, view=view, cordoned=cordoned)
        return reading, check(self._plan, now, round(self._options.valid_for_s * 1000))

    def _refuse(self, checked: PlanCheck) -> None:
        if checked.refusal:
            raise PlanRefusedError(f"plan {self._plan.id} is refused: {checked.refusal}")
        if checked.changed and not self._options.partial:
            bundle, reason = next(iter(checked.changed.items()))
            raise PlanRefusedError(
                f"plan {self._plan.id} is refused, since the cluster changed for "
                f"{len(checked.changed)} of its {len(self._plan.steps)} steps "
                f"({bundle}: {reason}); make a new one, or --partial carries out the others"
            )

    async def _round(self, steps: list[PlanStep], reading: ClusterReading) -> RoundEnd:
        poll_id, snapshot = int(reading.rows["poll_id"][0]), reading.snapshot
        if reason := await sheds_by_itself(self._reader.admin, self._addresses):
            raise PlanRefusedError(reason)
        view = replace(snapshot.view, now_ms=poll_id)
        moves = moves_of(steps, self._plan.id, view)
        memory = await asyncio.to_thread(self._journal.memory_before, poll_id)
        made = Round.of(view, f"plan {self._plan.id}", moves, (), memory)
        await asyncio.to_thread(self._journal.record_round, made)
        before = await asyncio.to_thread(self._journal.moved_since, self._clock_ms() - HOUR_MS)
        runner = RoundRunner(
            self._journal,
            self._executor,
            RoundReporter(self._log),
            rules=self._options.rules,
            moved_before=before,
            span_ms=SPAN_MOST_MS,
            attempts=self._options.attempts,
        )
        return await runner.see_through(made, tuple(snapshot.owned), self._reader.state)

    async def _withheld(self) -> str:
        control = await asyncio.to_thread(read_control, self._writer.location)
        await asyncio.to_thread(self._writer.expect_held)
        return control.withholds(self._began_ms)


def _ended(one: MoveOutcome) -> str:
    """A phrase that says how an unsuccessful move ended, and what to do if a new plan is needed."""
    if one.astray:
        return f"{one.astray}: make a new plan"
    return f"{one.status.words}, owner {one.owner or 'none'}"
