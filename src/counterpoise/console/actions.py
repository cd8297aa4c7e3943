"""Carries out the actions that operators confirm on the page, and logs what happens.

For each bundle one action at a time.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import aiohttp

from counterpoise.console.roles import Operator
from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus, Round
from counterpoise.names.bundle import BundleName
from counterpoise.names.callbacks import MillisecondClock, SentenceSink
from counterpoise.picture.action_plans import ActionPlan
from counterpoise.pipeline.drive.action_trail import (
    ActionKind,
    ActionRefusedError,
    ActionTrail,
    NewAction,
)
from counterpoise.pipeline.drive.drain import BrokerDrain, DrainRefusedError
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.policies import CannotSeeError
from counterpoise.pipeline.tables.faults import HistoryFaultError

KEPT = 200
"""How many actions are listed; older ones that have ended are dropped."""
STALE_AFTER_S = 300.0
"""A plan is carried out only if the poll that it is based on is at most this many seconds old.

Otherwise the operator has to make a new plan."""


class ActionState(StrEnum):
    """Whether an action runs, is done, has failed or was stopped."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(eq=False, slots=True)
class Activity:
    """One action by an operator, running or ended; only `Actions` changes it."""

    number: int
    title: str
    who: str
    started_ms: int
    bundles: frozenset[str]
    state: ActionState = ActionState.RUNNING
    log: list[str] = field(default_factory=list)
    """What happened so far, one sentence each, oldest first."""
    task: asyncio.Task[None] | None = None


Work = Callable[[Activity, aiohttp.ClientSession], Awaitable[ActionState]]
DrainWith = Callable[[aiohttp.ClientSession, SentenceSink], BrokerDrain]


class BusyError(RuntimeError):
    """Another action on one of the bundles is running; the message names both."""


class Actions:
    """Carries out what operators start on any page of this console."""

    def __init__(
        self,
        clock_ms: MillisecondClock,
        ended: Callable[[MoveOutcome], None],
        trail: ActionTrail | None = None,
    ) -> None:
        """``ended`` is called with the outcome of each move.

        ``trail`` records each action in a balancer's history; None: actions are not recorded.
        """
        self.trail = trail
        self._clock_ms = clock_ms
        self._ended = ended
        self._numbers = itertools.count(1)
        self.activities: list[Activity] = []
        """All running actions and the last ones that ended, newest first."""
        self.version = 0
        """Rises when an action begins, logs a sentence or ends, so that pages show it."""

    def moves(
        self,
        plan: ActionPlan,
        operator: Operator,
        brokers: Sequence[str],
        where: Callable[[str], str],
    ) -> Activity:
        """Start carrying out a plan of moves, and return it as a running activity.

        ``brokers`` are the ids of the cluster's brokers; ``where`` returns a broker's admin URL.
        Raises `BusyError` while another action on one of the bundles runs.
        """

        action = NewAction(self.trail, ActionKind.MOVE, operator.name, plan.title)

        async def work(activity: Activity, session: aiohttp.ClientSession) -> ActionState:
            options = ExecutorOptions(execute=True, stale_after_s=STALE_AFTER_S)
            executor = Executor(session, self._clock_ms, options, action.withheld, where)
            outcomes: list[MoveOutcome] = []

            def done(outcome: MoveOutcome) -> None:
                outcomes.append(outcome)
                self._log(activity, _sentence(outcome))
                self._ended(outcome)

            async with action.recorded(self._clock_ms) as kept:
                await kept.carry_out(executor, plan.moves, brokers, done)
            return ActionState.DONE if all(map(_succeeded, outcomes)) else ActionState.FAILED

        return self._begin(plan.title, operator, _bundles(plan.moves), work)

    def split(self, plan: ActionPlan, operator: Operator, address: str) -> Activity:
        """Start a split of the plan's bundle, requested from the broker at an admin URL.

        Raises `BusyError` while another action on the bundle runs.
        """
        name = BundleName.parse(plan.bundle)
        url = f"{address}/admin/v2/namespaces/{name.namespace}"

        action = NewAction(self.trail, ActionKind.SPLIT, operator.name, plan.title)

        async def work(activity: Activity, session: aiohttp.ClientSession) -> ActionState:
            async with action.recorded(self._clock_ms):
                return await split_bundle(activity, session)

        async def split_bundle(activity: Activity, session: aiohttp.ClientSession) -> ActionState:
            # Pulsar requires a content type that it knows even of a request without a body.
            headers = {"Content-Type": "application/json"}
            query = {"unload": "false"}
            async with session.put(
                f"{url}/{name.range}/split", params=query, headers=headers
            ) as response:
                if response.status >= 300:
                    text = (await response.text()).strip()[:300]
                    self._log(activity, f"the cluster refuses: HTTP {response.status} {text}")
                    return ActionState.FAILED
            async with session.get(f"{url}/bundles") as response:
                cut = (await response.json(content_type=None))["boundaries"]
            parts = [at for at in cut if name.range.lower < int(at, 16) < name.range.upper]
            if not parts:
                self._log(activity, "the cluster accepted it, and did not split the bundle")
                return ActionState.FAILED
            self._log(activity, f"split at {', '.join(parts)}")
            return ActionState.DONE

        return self._begin(plan.title, operator, frozenset((plan.bundle,)), work)

    def drain(
        self, plan: ActionPlan, operator: Operator, drain_with: DrainWith, drain_plan: Round
    ) -> Activity:
        """Start draining a broker by the moves of ``drain_plan``.

        ``drain_with`` makes the drain from an HTTP session and a callback for its log. Raises
        `BusyError` while another action on one of the bundles runs.
        """

        async def work(activity: Activity, session: aiohttp.ClientSession) -> ActionState:
            drain = drain_with(session, lambda sentence: self._log(activity, sentence))
            try:
                drained = await drain.carry_out(drain_plan)
            except (DrainRefusedError, CannotSeeError) as error:
                self._log(activity, str(error))
                return ActionState.FAILED
            for bundle, why in drained.left.items():
                self._log(activity, f"left: {bundle}: {why}")
            if not drained.left:
                self._log(activity, "the broker is empty")
            return ActionState.FAILED if drained.left else ActionState.DONE

        return self._begin(plan.title, operator, _bundles(plan.moves), work)

    def stop(self, activity: Activity) -> None:
        """Begin no further move of an action; moves that have begun are completed."""
        if activity.task is not None and activity.state is ActionState.RUNNING:
            activity.task.cancel()

    async def close(self) -> None:
        """Stop all running actions, because the console stops."""
        tasks = [each.task for each in self.activities if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(
        self, title: str, operator: Operator, bundles: frozenset[str], work: Work
    ) -> Activity:
        for each in self.activities:
            if each.state is ActionState.RUNNING and (both := each.bundles & bundles):
                raise BusyError(
                    f"{min(both)} is being worked on already: {each.title}, asked for by {each.who}"
                )
        activity = Activity(next(self._numbers), title, operator.name, self._clock_ms(), bundles)
        self.activities.insert(0, activity)
        over = [each for each in self.activities[KEPT:] if each.state is not ActionState.RUNNING]
        self.activities = [each for each in self.activities if each not in over]
        activity.task = asyncio.create_task(self._run(activity, operator, work))
        self.version += 1
        return activity

    async def _run(self, activity: Activity, operator: Operator, work: Work) -> None:
        try:
            async with operator.session() as session:
                activity.state = await work(activity, session)
        except asyncio.CancelledError:
            activity.state = ActionState.STOPPED
            self._log(activity, "stopped: nothing more begins; what began ends by itself")
        except (ActionRefusedError, HistoryFaultError) as error:
            activity.state = ActionState.FAILED
            self._log(activity, str(error))
        except Exception as error:  # an action that never ended would keep its bundles for ever
            activity.state = ActionState.FAILED
            self._log(activity, f"the cluster could not be asked: {str(error) or type(error)}")
        finally:
            self.version += 1

    def _log(self, activity: Activity, sentence: str) -> None:
        activity.log.append(sentence)
        self.version += 1


def _bundles(moves: Sequence[Move]) -> frozenset[str]:
    return frozenset(move.bundle for move in moves)


def _succeeded(outcome: MoveOutcome) -> bool:
    return outcome.status in {
        MoveStatus.MOVED,
        MoveStatus.ALREADY_THERE,
        MoveStatus.ELSEWHERE,
        MoveStatus.UNOWNED,
    }


def _sentence(outcome: MoveOutcome) -> str:
    took = f" after {outcome.seconds:.1f} s"
    owner = f", its owner is {outcome.owner}" if outcome.owner else ""
    error = f": {outcome.error}" if outcome.error else ""
    return f"{outcome.bundle}: {outcome.status.value}{took}{owner}{error}"
