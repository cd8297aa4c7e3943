"""Drains a broker: plans, moves and checks again until it owns nothing, or gives up."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import aiohttp

from counterpoise.decide.balancing.drain import DrainRules, EmptyBroker
from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus, Round, RoundMemory
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from counterpoise.decide.balancing.warm_up import first_moves
from counterpoise.names.callbacks import MillisecondClock, SentenceSink
from counterpoise.names.errors import ExplainedError
from counterpoise.pipeline.drive import action_trail
from counterpoise.pipeline.drive.snapshot import SnapshotReader
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.policies import CannotSeeError


class DrainRefusedError(ExplainedError):
    """This broker cannot be drained; the message says why."""


@dataclass(frozen=True, slots=True)
class DrainOptions:
    """How a broker is drained: how often moves are tried, how many at a time, time-outs."""

    attempts: int = 3
    """How often a bundle's move is tried, each time to the broker where it fits best by then."""
    partial: bool = False
    """Move the other bundles even if some cannot go to any broker."""
    moves: ExecutorOptions = field(default_factory=lambda: ExecutorOptions(warm_up_s=5.0))
    """How bundles are moved: how many at a time, and when moves stop."""


@dataclass(frozen=True, slots=True)
class DrainResult:
    """The outcome of a drain."""

    outcomes: tuple[MoveOutcome, ...]
    """The outcome of each attempt to move a bundle, in the order in which they ended."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Bundles that the broker still owns, and why."""


class BrokerDrain:
    """Moves all bundles off one broker; `log` gets a sentence for each outcome."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        reader: SnapshotReader,
        broker: str,
        rules: DrainRules,
        clock_ms: MillisecondClock,
        log: SentenceSink,
        options: DrainOptions,
        action: action_trail.NewAction = action_trail.NOT_KEPT,
    ) -> None:
        """`broker` is the id of the broker to empty, and `reader` reads the cluster before each
        plan. `action` has the operator and the reason, and records the drain.
        """
        self._action = action
        self.at_once = options.moves.at_once
        self._reader = reader
        self.goal = EmptyBroker(broker, rules)
        self.snapshot: ClusterSnapshot | None = None
        """The snapshot on which the last plan is based."""
        self._log = log
        self._clock_ms = clock_ms
        self._options = options
        self._executor = Executor(
            session,
            clock_ms,
            # No move is stale: each attempt has a new plan, and the owner is asked before a move.
            replace(
                options.moves,
                execute=True,
                stale_after_s=float("inf"),
                failed_most=0,  # failures do not stop the drain: `attempts` limits them
            ),
            withheld=action.withheld,
            where=reader.where,
        )

    async def plan(self) -> Round:
        """Plan where each bundle goes; raises `DrainRefusedError` or `CannotSeeError`.

        A bundle that no other broker may own is among the round's rejections, with the reason.
        """
        trail = self._action.trail
        actions = await asyncio.to_thread(trail.actions) if trail else ()
        snapshot = await self._reader.read(self.goal.broker)
        self.snapshot = snapshot = replace(snapshot, cordoned=action_trail.cordons(actions))
        if reason := self.goal.refusal(snapshot):
            raise DrainRefusedError(reason)
        return self.goal.plan(snapshot, RoundMemory())

    async def carry_out(self, plan: Round) -> DrainResult:
        """Carry out a plan, and plan again for what is left.

        Before anything is moved, raises `DrainRefusedError` if a bundle cannot go anywhere or the
        operator has paused all moves, and `HistoryFaultError` if the drain cannot be recorded.
        """
        if plan.rejections and not self._options.partial:
            stuck = plan.rejections[0]
            raise DrainRefusedError(
                f"nothing is moved, since {len(plan.rejections)} of the bundles can go nowhere "
                f"({stuck.subject}: {stuck.sentence}); --partial moves the others"
            )
        try:
            async with self._action.recorded(self._clock_ms, self.goal.broker) as log:
                return await self._carry_out(plan, log)
        except action_trail.ActionRefusedError as error:
            raise DrainRefusedError(str(error)) from None

    async def _carry_out(self, plan: Round, log: action_trail.ActionLog) -> DrainResult:
        outcomes: list[MoveOutcome] = []
        tried: dict[str, int] = {}
        errors: dict[str, str] = {}

        def done(outcome: MoveOutcome) -> None:
            outcomes.append(outcome)
            tried[outcome.bundle] = tried.get(outcome.bundle, 0) + 1
            errors[outcome.bundle] = outcome.error or outcome.status.value
            self._log(_attempt_text(outcome, tried[outcome.bundle], self._options.attempts))

        while True:
            moves = [m for m in plan.moves if tried.get(m.bundle, 0) < self._options.attempts]
            if not moves:
                break
            await self._executor.pause_before(1 + max(tried.get(m.bundle, 0) for m in moves))
            owned = self.snapshot.owned if self.snapshot else {}
            destinations = sorted({move.destination for move in plan.moves})
            first = first_moves(moves, owned)
            if await log.carry_out(self._executor, moves, destinations, done, first):
                moved = {each.bundle for each in outcomes if each.status in _VERIFIED}
                stuck = {m.bundle: errors[m.bundle] for m in plan.moves if m.bundle not in moved}
                if stuck:
                    return DrainResult(tuple(outcomes), stuck)
            try:
                plan = await self.plan()
            except (DrainRefusedError, CannotSeeError) as error:
                # The broker was stopped or cannot be reached, so it may still own bundles.
                reason = f"it is not known who owns it: {error}"
                verified = {each.bundle for each in outcomes if each.status in _VERIFIED}
                unsure = tried.keys() - verified
                return DrainResult(tuple(outcomes), dict.fromkeys(sorted(unsure), reason))
        left = {each.subject: each.sentence for each in plan.rejections}
        left |= {
            move.bundle: f"given up after attempt {tried[move.bundle]}: {errors[move.bundle]}"
            for move in plan.moves
        }
        return DrainResult(tuple(outcomes), left)


_VERIFIED = (
    MoveStatus.MOVED,
    MoveStatus.ELSEWHERE,
    MoveStatus.ALREADY_THERE,
    MoveStatus.UNOWNED,
    MoveStatus.GONE,
)


def _attempt_text(outcome: MoveOutcome, attempt: int, attempts: int) -> str:
    took = f"after {outcome.seconds:.1f} s"
    if outcome.status is MoveStatus.FAILED:
        again = "it is tried again" if attempt < attempts else "it is given up"
        return f"failed {outcome.bundle} {took} ({outcome.error}); {again}"
    if outcome.astray:
        return f"{outcome.astray}; {took}"
    if outcome.status is MoveStatus.WITHHELD:
        return f"withheld {outcome.bundle}: {outcome.error}"
    owner = f", {outcome.owner} owns it" if outcome.owner else ", no client has looked it up yet"
    return f"{outcome.status.value} {outcome.bundle} {took}{owner}"


def sentence(move: Move) -> str:
    """A planned move as a sentence."""
    return f"{move.bundle} -> {move.destination}: {move.placement}"
