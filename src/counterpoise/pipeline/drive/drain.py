"""Empty a broker: plan, carry out, look again, until it owns nothing or it is given up why."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import aiohttp

from counterpoise.decide.balancing.drain import DrainPlan, DrainRules, plan_drain, refusal
from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus
from counterpoise.pipeline.drive.snapshot import SnapshotReader
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.policies import CannotSeeError


class DrainRefusedError(RuntimeError):
    """This broker cannot be emptied; the message says why."""


@dataclass(frozen=True, slots=True)
class DrainOptions:
    """How a broker is emptied."""

    attempts: int = 3
    """How often a bundle is tried, each time where it fits best by then."""
    at_once: int = 4
    """How many bundles move side by side."""
    verify_within_s: float = 20.0
    """How long after an unload the new owner may take to show."""
    partial: bool = False
    """Move what can go even if something cannot."""


@dataclass(frozen=True, slots=True)
class DrainResult:
    """What came of it."""

    outcomes: tuple[MoveOutcome, ...]
    """Each attempt, in the order of their ends."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Bundles that the broker owns still, and why."""


class BrokerDrain:
    """Empties one broker; `tell` gets a sentence whenever something happened."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        reader: SnapshotReader,
        broker: str,
        rules: DrainRules,
        clock_ms: Callable[[], int],
        tell: Callable[[str], None],
        options: DrainOptions,
    ) -> None:
        self._reader = reader
        self._broker = broker
        self._rules = rules
        self._tell = tell
        self._options = options
        self._executor = Executor(
            session,
            clock_ms,
            # A plan is made anew for each attempt, and who owns a bundle is asked before it moves.
            ExecutorOptions(
                execute=True,
                verify_within_s=options.verify_within_s,
                stale_after_s=float("inf"),
                at_once=options.at_once,
            ),
            where=reader.where,
        )

    async def plan(self) -> DrainPlan:
        """Who would get what; raises `DrainRefusedError` or `CannotSeeError`."""
        scene = await self._reader.read(self._broker)
        if reason := refusal(scene):
            raise DrainRefusedError(reason)
        return plan_drain(scene, self._rules)

    async def carry_out(self, plan: DrainPlan) -> DrainResult:
        """Carry a plan out, and what is left of it again.

        Raises `DrainRefusedError` before anything is moved when something cannot go anywhere.
        """
        if plan.stuck and not self._options.partial:
            raise DrainRefusedError(
                f"nothing is moved, since {len(plan.stuck)} of the bundles can go nowhere "
                f"({plan.stuck[0].subject}: {plan.stuck[0].sentence}); --partial moves the others"
            )
        outcomes: list[MoveOutcome] = []
        tried: dict[str, int] = {}
        said: dict[str, str] = {}

        def done(outcome: MoveOutcome) -> None:
            outcomes.append(outcome)
            tried[outcome.bundle] = tried.get(outcome.bundle, 0) + 1
            said[outcome.bundle] = outcome.error or outcome.status.value
            self._tell(_told(outcome, tried[outcome.bundle], self._options.attempts))

        while True:
            moves = [m for m in plan.moves if tried.get(m.bundle, 0) < self._options.attempts]
            if not moves:
                break
            await self._executor.carry_out(moves, _destinations(plan), done)
            try:
                plan = await self.plan()
            except (DrainRefusedError, CannotSeeError) as error:
                # It may have been stopped, or its cluster be out of reach: nobody says it is empty.
                reason = f"it is not known who owns it: {error}"
                settled = {each.bundle for each in outcomes if each.status in _VERIFIED}
                unsure = tried.keys() - settled
                return DrainResult(tuple(outcomes), dict.fromkeys(sorted(unsure), reason))
        left = {each.subject: each.sentence for each in plan.stuck}
        left |= {
            move.bundle: f"given up after attempt {tried[move.bundle]}: {said[move.bundle]}"
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


def _destinations(plan: DrainPlan) -> list[str]:
    return sorted({plan.broker, *(move.destination for move in plan.moves)})


def _told(outcome: MoveOutcome, attempt: int, attempts: int) -> str:
    took = f"after {(outcome.ended_at_ms - outcome.started_at_ms) / 1000:.1f} s"
    if outcome.status is MoveStatus.FAILED:
        again = "it is tried again" if attempt < attempts else "it is given up"
        return f"failed {outcome.bundle} {took} ({outcome.error}); {again}"
    owner = f", {outcome.owner} owns it" if outcome.owner else ", nobody has asked for it yet"
    return f"{outcome.status.value} {outcome.bundle} {took}{owner}"


def sentence(move: Move) -> str:
    """A planned move, for a person."""
    return f"{move.bundle} -> {move.destination}: {move.placement}"
