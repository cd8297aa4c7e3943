"""Restarts a cluster broker by broker: drains it, restarts it, waits until it is healthy."""

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import aiohttp

from counterpoise.decide.balancing.approval import in_window, window_text
from counterpoise.decide.balancing.drain import DrainRules
from counterpoise.decide.balancing.moves import MoveOutcome, RoundMemory
from counterpoise.decide.balancing.refill import FillBrokers
from counterpoise.decide.balancing.restarts import (
    RestartStage,
    moved_enough,
    restart_order,
    resumed_stage,
)
from counterpoise.decide.balancing.warm_up import first_moves
from counterpoise.decide.watchdog.judge import SLOW_BROKER
from counterpoise.names.callbacks import MillisecondClock, SentenceSink
from counterpoise.names.errors import ExplainedError
from counterpoise.pipeline.collect.admin import UNREADABLE
from counterpoise.pipeline.collect.restarted import BrokerHealth
from counterpoise.pipeline.collect.settings import leader_by
from counterpoise.pipeline.drive.action_trail import ActionKind, ActionTrail, NewAction
from counterpoise.pipeline.drive.drain import BrokerDrain, DrainOptions, DrainRefusedError
from counterpoise.pipeline.drive.restart_command import Restarter, RestartFailedError
from counterpoise.pipeline.drive.roll_state import (
    SILENT_AFTER_MS,
    RolledBroker,
    RollState,
    new_roll,
)
from counterpoise.pipeline.drive.snapshot import SnapshotReader
from counterpoise.pipeline.executor import Executor
from counterpoise.pipeline.policies import CannotSeeError
from counterpoise.pipeline.watchdog.watchdog import Watchdog

T = TypeVar("T")


class RollStoppedError(ExplainedError):
    """The rolling restart stopped; the message says why. Running it again continues it."""


@dataclass(frozen=True, slots=True)
class RollOptions:
    """How a cluster's brokers are restarted in turn: target version, waiting times, drains."""

    to_version: str = ""
    """The version that each broker is to have afterwards; one that has it already is left out."""
    back_within_s: float = 600.0
    """Seconds that a broker may take to be back and healthy."""
    healthy_for_s: float = 10.0
    """Seconds for which the cluster must be healthy before the next broker is drained."""
    patience_s: float = 600.0
    """Seconds that the cluster may take to become healthy before the rolling restart stops."""
    look_every_s: float = 2.0
    window: tuple[int, int] | None = None
    """The minutes of the day, UTC, between which the restart of a broker may begin; None: any
    time."""
    drain: DrainOptions = field(default_factory=DrainOptions)


class RollingRestart:
    """One rolling restart of one cluster; `log` gets a sentence for each step."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        reader: SnapshotReader,
        watchdog: Watchdog,
        trail: ActionTrail,
        restarter: Restarter,
        rules: DrainRules,
        clock_ms: MillisecondClock,
        log: SentenceSink,
        options: RollOptions,
    ) -> None:
        self._session = session
        self._reader = reader
        self._watchdog = watchdog
        self._trail = trail
        self._restarter = restarter
        self._rules = rules
        self._clock_ms = clock_ms
        self._log = log
        self._options = options
        self._runner = uuid.uuid4().hex

    async def plan(self, brokers: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The brokers to restart, in order: those named, or else all of the cluster's.

        Those that have the version `to_version` already are left out. Raises `RollStoppedError`
        for an unknown broker or the only one, and `CannotSeeError`.
        """
        reading = await self._reader.poll()
        listed = reading.snapshot.brokers
        for each in brokers:
            if each not in listed:
                raise RollStoppedError(
                    f"{each} is no broker of this cluster: it has {', '.join(listed)}"
                )
        if len(listed) < 2:
            raise RollStoppedError("it is the only broker: no other could have its bundles")
        chosen = [each for each in brokers or listed if not await self._is_done(each)]
        base = f"{self._reader.where(listed[0])}/admin/v2"
        domains = await self._reader.policies.domains(base, reading.cluster)
        return restart_order(chosen, domains, await self._leader(listed))

    async def begin(self, brokers: tuple[str, ...], who: str, why: str) -> RollState:
        """Record that a rolling restart of these brokers begins, by whom and why."""
        state = new_roll(brokers, self._clock_ms(), who, why)
        return await self._keep(state)

    async def take_over(self, state: RollState) -> RollState:
        """Continue the rolling restart that the history says is under way.

        Raises `RollStoppedError` if another process carries it out, or if it was given up.
        """
        if self._clock_ms() - state.seen_ms < SILENT_AFTER_MS:
            self._log(
                f"{state.label} was carried out a moment ago: waiting to see that no process does "
                "it any more"
            )
        while True:
            if await asyncio.to_thread(self._trail.roll) != state:
                raise RollStoppedError(
                    f"{state.label} was given up, or another process carries it out"
                )
            if self._clock_ms() - state.seen_ms >= SILENT_AFTER_MS:
                return await self._keep(state)
            await asyncio.sleep(self._options.look_every_s)

    async def run(self, state: RollState) -> RollState:
        """Restart the remaining brokers; raises `RollStoppedError`."""
        for number, each in enumerate(state.brokers, 1):
            if each.stage is RestartStage.RESTARTED:
                continue
            self._log(f"{each.broker}, {number} of {len(state.brokers)}: {each.stage.value}")
            state = await self._one(state, each)
        await self._fill(state, state.brokers[-1].broker)
        return await self._keep(replace(state, ended_ms=self._clock_ms()))

    async def _one(self, state: RollState, rolled: RolledBroker) -> RollState:
        if rolled.stage is RestartStage.WAITING:
            await self._all_well(state)
        broker, health = rolled.broker, await self._reader.health(rolled.broker)
        if rolled.stage is RestartStage.WAITING:
            rolled = replace(rolled, started_ms=health.started_ms)
            stage = RestartStage.DRAINING
        else:
            stage = resumed_stage(
                rolled.stage, has_restarted=_has_restarted(rolled, health), answers=health.answers
            )
        if stage is RestartStage.DRAINING:
            rolled = replace(rolled, stage=stage)
            state = await self._keep(state.with_broker(rolled))
            await self._drain(state, broker)
            rolled = replace(rolled, stage=RestartStage.RESTARTING)
            state = await self._keep(state.with_broker(rolled))
        if not _has_restarted(rolled, health):
            try:
                await self._beating(state, self._restarter.restart(broker))
            except RestartFailedError as error:
                raise RollStoppedError(str(error)) from None
        state = await self._back(state, rolled)
        action = NewAction(self._trail, ActionKind.RELEASE, state.who, state.label)
        now_ms = self._clock_ms()
        await asyncio.to_thread(lambda: action.begin(now_ms, broker).close(now_ms))
        return await self._keep(state.with_broker(replace(rolled, stage=RestartStage.RESTARTED)))

    async def _all_well(self, state: RollState) -> None:
        """Wait until the cluster has been healthy for `healthy_for_s`.

        Raises `RollStoppedError` if it is not healthy after `patience_s`.
        """
        clock = asyncio.get_running_loop().time
        began, well_since, last_reason = clock(), None, ""
        while True:
            reason = await self._trouble(state)
            now = clock()
            if reason:
                well_since = None
                if reason != last_reason:
                    self._log(f"no further broker is restarted meanwhile: {reason}")
            elif well_since is None:
                well_since = now
            elif now - well_since >= self._options.healthy_for_s:
                return
            last_reason = reason
            if now - began > self._options.patience_s and reason:
                raise RollStoppedError(f"no further broker is restarted: {reason}")
            state = await self._keep(state)
            await asyncio.sleep(self._options.look_every_s)

    async def _trouble(self, state: RollState) -> str:
        """Return why no further broker may be restarted now; empty if one may."""
        if why := await asyncio.to_thread(self._trail.withheld):
            return why
        window = self._options.window
        if window and not in_window(self._clock_ms(), window):
            return f"brokers are restarted {window_text(window)}"
        try:
            reading = await self._reader.poll()
        except CannotSeeError as error:
            return str(error)
        for broker, why in sorted(reading.snapshot.silent.items()):
            return f"{broker} cannot be given bundles: {why}"
        there = reading.snapshot.brokers
        for each in state.brokers:
            if each.broker not in there:
                return f"{each.broker} is not there"
        await self._watchdog.judge_poll(reading.rows)
        # Slowness is no reason to stop: a broker that was just started is slow for a while.
        passing = ("leader-does-not-shed", SLOW_BROKER)
        return "; ".join(
            each.sentence for each in self._watchdog.findings if each.kind not in passing
        )

    async def _drain(self, state: RollState, broker: str) -> None:
        """Drain a broker; raises `RollStoppedError` if something is left on it."""
        restarted = frozenset(state.restarted)
        drain = BrokerDrain(
            self._session,
            self._reader,
            broker,
            replace(
                self._rules, first_to=restarted, last_move_of=frozenset(await self._moved(state))
            ),
            self._clock_ms,
            self._log,
            self._options.drain,
            NewAction(self._trail, ActionKind.DRAIN, state.who, state.label),
        )
        try:
            drained = await self._beating(state, self._emptied(drain))
        except (DrainRefusedError, CannotSeeError) as error:
            raise RollStoppedError(f"{broker} is not restarted: {error}") from None
        if drained and not self._options.drain.partial:
            bundle, why = next(iter(drained.items()))
            raise RollStoppedError(
                f"{broker} is not restarted, since {len(drained)} bundles are left on it "
                f"({bundle}: {why})"
            )

    async def _emptied(self, drain: BrokerDrain) -> Mapping[str, str]:
        """Carry out a drain; returns the bundles that are left on the broker, and why."""
        return (await drain.carry_out(await drain.plan())).left

    async def _back(self, state: RollState, rolled: RolledBroker) -> RollState:
        """Wait until a broker is back, healthy, and of the expected version.

        Raises `RollStoppedError` if it has another version, or is not back after `back_within_s`.
        """
        clock = asyncio.get_running_loop().time
        began, away, last_reason = clock(), False, ""
        while True:
            health = await self._reader.health(rolled.broker)
            away = away or not health.answers
            reason = health.trouble
            restarted = _has_restarted(rolled, health) or (away and not rolled.started_ms)
            if not reason and not restarted:
                reason = f"{rolled.broker} runs as it did: it was not restarted yet"
            if not reason and not self._is_wanted(health):
                raise RollStoppedError(
                    f"{rolled.broker} is back with version {health.version}, not "
                    f"{self._options.to_version}"
                )
            if not reason and not await self._is_listed(rolled.broker):
                reason = f"{rolled.broker} is not among the cluster's brokers yet"
            if not reason:
                self._log(f"{rolled.broker} is back, version {health.version}")
                return state
            if reason != last_reason:
                self._log(reason)
            last_reason = reason
            if clock() - began > self._options.back_within_s:
                raise RollStoppedError(
                    f"{rolled.broker} is not back after {self._options.back_within_s:g} s: {reason}"
                )
            state = await self._keep(state)
            await asyncio.sleep(self._options.look_every_s)

    async def _is_listed(self, broker: str) -> bool:
        """Whether the cluster lists the broker and its report is readable."""
        try:
            snapshot = (await self._reader.poll()).snapshot
        except CannotSeeError:
            return False
        return broker in snapshot.owned

    async def _fill(self, state: RollState, broker: str) -> None:
        """Move load to the broker that was restarted last, since no later drain fills it.

        Bundles that this rolling restart has moved as often as it may (`moved_enough`) stay.
        """
        await self._all_well(state)
        label, moved = state.label, await self._moved(state)
        goal = FillBrokers((broker,), self._rules.filters, moved_enough(moved))
        snapshot = await self._reader.read(broker, all_groups=True)
        plan = goal.plan(snapshot, RoundMemory())
        if not plan.moves:
            return
        action = NewAction(self._trail, ActionKind.MOVE, state.who, label)

        def done(outcome: MoveOutcome) -> None:
            self._log(f"{outcome.status.value} {outcome.bundle} -> {outcome.owner or broker}")

        executor = Executor(
            self._session,
            self._clock_ms,
            replace(self._options.drain.moves, execute=True, stale_after_s=float("inf")),
            action.withheld,
            self._reader.where,
        )
        first = first_moves(plan.moves, snapshot.owned)
        async with action.recorded(self._clock_ms, broker) as log:
            moving = log.carry_out(executor, plan.moves, snapshot.brokers, done, first)
            rise = await self._beating(state, moving)
        if rise:
            raise RollStoppedError(f"{broker} has not got its whole share: {rise.sentence}")

    async def _moved(self, state: RollState) -> list[str]:
        """The bundles that this rolling restart has moved so far, one entry for each move."""
        actions = await asyncio.to_thread(self._trail.actions)
        return [m.bundle for a in actions if a.why == state.label for m in a.moves if m.moved]

    async def _is_done(self, broker: str) -> bool:
        version = self._options.to_version
        return bool(version) and (await self._reader.health(broker)).version == version

    def _is_wanted(self, health: BrokerHealth) -> bool:
        return self._options.to_version in ("", health.version)

    async def _leader(self, brokers: Sequence[str]) -> str:
        """The cluster's leader according to the first of `brokers` that names one; empty if none
        does.
        """
        for broker in brokers:
            with contextlib.suppress(*UNREADABLE):
                if leader := await leader_by(self._reader.admin, self._reader.where(broker)):
                    return leader
        return ""

    async def _beating(self, state: RollState, work: Awaitable[T]) -> T:
        """Await `work`, and meanwhile record regularly that this process is alive."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(SILENT_AFTER_MS / 1000 / 6)
                await self._keep(state)

        tasks = (asyncio.create_task(beat()), asyncio.ensure_future(work))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                tasks[0].result()  # raises if another process took over, or a write failed
            return await tasks[1]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, state: RollState) -> RollState:
        """Record the progress; raises `RollStoppedError` if another process took over."""
        if state.runner == self._runner:
            now = await asyncio.to_thread(self._trail.roll)
            if now is None or now.runner != self._runner or now.abandoned:
                raise RollStoppedError(f"{state.label} was given up, or taken over by another")
        kept = replace(state, runner=self._runner, seen_ms=self._clock_ms())
        writing = asyncio.create_task(asyncio.to_thread(self._trail.keep_roll, kept))
        try:
            await asyncio.shield(writing)
        finally:
            # If it were left running, the thread would overwrite a later state.
            await asyncio.wait({writing})
        return kept


def _has_restarted(rolled: RolledBroker, health: BrokerHealth) -> bool:
    return 0 < rolled.started_ms < health.started_ms
