"""Records operators' own actions, such as drains and unloads, by whom and why.

Each action is a small file of a history, written by the process that carries it out. A balancer may
write the same history meanwhile: that process need not be the history's writer. The balancer reads
the actions before each round. A drained broker is cordoned, that is it takes no part in balancing,
until it is refilled or released.
"""

import asyncio
import getpass
import json
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from counterpoise.decide.balancing.approval import PastMove
from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus
from counterpoise.names.bundle import namespace_of
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.names.errors import ExplainedError
from counterpoise.pipeline.drive import roll_state
from counterpoise.pipeline.tables.control import read_control
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.plain_files import names_below, read_plain, write_plain

if TYPE_CHECKING:
    from counterpoise.decide.balancing.publish_latency import LatencyRise
    from counterpoise.pipeline.executor import Executor

PREFIX = "action-"


class ActionKind(StrEnum):
    """The kind of an operator's action."""

    DRAIN = "drain"
    REFILL = "refill"
    RELEASE = "release"
    UNLOAD = "unload"
    SPLIT = "split"
    MOVE = "move"


@dataclass(frozen=True, slots=True)
class ActionMove:
    """One attempt to move a bundle in an operator's action; times are milliseconds since 1970."""

    bundle: str
    source: str
    destination: str
    status: str
    started_ms: int
    ended_ms: int
    error: str = ""
    part: float = 0.0
    """The bundle's part of the cluster's bytes/s."""
    unacknowledged_s: float | None = None
    """How much the move redelivered, in seconds of the delivery rate
    (`MoveOutcome.unacknowledged_s`)."""

    @property
    def moved(self) -> bool:
        """Whether the bundle changed its owner."""
        return self.status in (MoveStatus.MOVED.value, MoveStatus.ELSEWHERE.value)


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """One action by an operator, such as a drain, under way or ended, with its moves."""

    kind: ActionKind
    at_ms: int
    who: str
    why: str = ""
    broker: str = ""
    """The broker that the action is about; empty if it is about bundles."""
    moves: tuple[ActionMove, ...] = ()
    ended_ms: int = 0
    """0 while it is under way, and also if its process was killed."""
    id: str = ""

    @property
    def name(self) -> str:
        """The name of the action's file."""
        return f"{PREFIX}{self.at_ms:013d}-{self.id}.json"

    def with_outcome(self, outcome: MoveOutcome, part: float = 0.0) -> "OperatorAction":
        """A copy with one more move; `part` is the bundle's fraction of the cluster's bytes/s."""
        move = ActionMove(
            outcome.bundle,
            outcome.source,
            outcome.owner or outcome.destination,
            outcome.status.value,
            outcome.started_at_ms,
            outcome.ended_at_ms,
            outcome.error,
            part,
            outcome.unacknowledged_s,
        )
        return replace(self, moves=(*self.moves, move))

    def to_json(self) -> dict[str, Any]:
        """The action as a JSON object, as in its file."""
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "OperatorAction":
        """Make the action from the JSON object that `to_json` gave."""
        moves = tuple(ActionMove(**each) for each in value["moves"])
        return OperatorAction(**{**value, "kind": ActionKind(value["kind"]), "moves": moves})


class ActionTrail:
    """The operators' actions recorded in one history, a file for each.

    Its methods raise `HistoryFaultError` if the directory cannot be used.
    """

    def __init__(self, place: Location) -> None:
        self.place = place
        """The directory of the actions."""
        self._ended: dict[str, OperatorAction] = {}
        """Actions that have ended, by file name: they do not change, so they are read once."""

    def begin(
        self, kind: ActionKind, at_ms: int, *, who: str, why: str = "", broker: str = ""
    ) -> OperatorAction:
        """Record an action as begun, before anything is moved."""
        action = OperatorAction(kind, at_ms, who, why, broker, id=uuid.uuid4().hex[:8])
        self.keep(action)
        return action

    def keep(self, action: OperatorAction) -> None:
        """Write an action with its progress to its file."""
        write_plain(self.place, action.name, json.dumps(action.to_json()).encode())

    def withheld(self) -> str:
        """Why an order by `counterpoise control` forbids moves now; empty if none does."""
        return read_control(self.place).withholds(0)

    def roll(self) -> roll_state.RollState | None:
        """The state of the last rolling restart that the history recorded; None without one."""
        data = read_plain(self.place, roll_state.NAME)
        if data is None:
            return None
        try:
            return roll_state.RollState.from_json(json.loads(data))
        except (ValueError, KeyError, TypeError) as error:
            raise HistoryFaultError(
                f"{self.place.where(roll_state.NAME)} is not how far a rolling restart is "
                f"({error}): remove it, and begin again with `counterpoise roll`"
            ) from None

    def keep_roll(self, state: roll_state.RollState) -> None:
        """Record the progress of a rolling restart."""
        write_plain(self.place, roll_state.NAME, json.dumps(asdict(state)).encode())

    def actions(self) -> list[OperatorAction]:
        """All actions, oldest first; unknown files are skipped."""
        found = []
        for name in names_below(self.place):
            if not name.startswith(PREFIX):
                continue
            action = self._ended.get(name) or self._read(name)
            if action is None:
                continue
            if action.ended_ms:
                self._ended[name] = action
            found.append(action)
        return sorted(found, key=lambda each: (each.at_ms, each.id))

    def _read(self, name: str) -> OperatorAction | None:
        try:
            data = read_plain(self.place, name)
            return None if data is None else OperatorAction.from_json(json.loads(data))
        except (ValueError, KeyError, TypeError):
            return None


def not_ended(actions: Iterable[OperatorAction], broker: str) -> list[str]:
    """A sentence for each action on this broker that has not ended, with its operator."""
    return [
        f"{each.who} began a {each.kind.value} of {broker} at "
        f"{datetime.fromtimestamp(each.at_ms / 1000, UTC):%H:%M:%S} UTC"
        f"{f' ({each.why})' if each.why else ''}, and it has not ended: it is under way, or was "
        "cut off"
        for each in actions
        if each.broker == broker and not each.ended_ms
    ]


def cordoned(actions: Iterable[OperatorAction]) -> dict[str, OperatorAction]:
    """The brokers that were drained and not refilled or released since, each with its drain."""
    found: dict[str, OperatorAction] = {}
    for action in sorted(actions, key=lambda each: each.at_ms):
        if action.kind is ActionKind.DRAIN:
            found[action.broker] = action
        elif action.kind in (ActionKind.REFILL, ActionKind.RELEASE):
            found.pop(action.broker, None)
    return found


def cordons(actions: Iterable[OperatorAction]) -> dict[str, str]:
    """A sentence for each cordoned broker: who drained it, and how to end the cordon."""
    return {
        broker: f"{drain.who} drained it{f': {drain.why}' if drain.why else ''}; it gets nothing "
        f"until `counterpoise refill {broker}`, or `counterpoise drain {broker} --release`"
        for broker, drain in sorted(cordoned(actions).items())
    }


def moved_by_hand(actions: Iterable[OperatorAction], since_ms: int = 0) -> list[ActionMove]:
    """The successful moves of operators' actions that ended at or after `since_ms`, in order of
    their ends.

    Moves of refills are not among them: the history has those as rounds.
    """
    by_hand = (action for action in actions if action.kind is not ActionKind.REFILL)
    moves = (move for action in by_hand for move in action.moves)
    return sorted(
        (move for move in moves if move.moved and move.ended_ms >= since_ms),
        key=lambda move: move.ended_ms,
    )


def as_past_moves(moves: Iterable[ActionMove]) -> list[PastMove]:
    """Convert moves to `PastMove`s, which hourly limits count."""
    return [
        PastMove(
            move.ended_ms,
            move.part,
            namespace_of(move.bundle),
            (move.ended_ms - move.started_ms) / 1000,
        )
        for move in moves
    ]


def operator_name() -> str:
    """The account and machine of this process, the default name of the operator."""
    try:
        account = getpass.getuser()
    except (KeyError, OSError):
        account = "unknown"
    return f"{account}@{socket.gethostname()}"


class ActionRefusedError(ExplainedError):
    """Nothing may be moved by hand now; the message says why, and what to do."""


class ActionLog:
    """Records one action while it is carried out; does nothing if there is no history.

    Its methods wait for the disk, and may be called from several threads. They raise
    `HistoryFaultError`: an action that cannot be recorded does not continue.
    """

    def __init__(self, trail: ActionTrail | None, action: OperatorAction | None) -> None:
        self._trail = trail
        self._action = action
        self._turn = threading.Lock()
        """Moves end side by side, and each writes the whole action."""

    def ended(self, outcome: MoveOutcome, part: float = 0.0) -> None:
        """Record a move's outcome; ``part`` is the bundle's part (0 to 1) of all bytes/s."""
        if self._action is not None and self._trail is not None:
            with self._turn:
                self._action = self._action.with_outcome(outcome, part)
                self._trail.keep(self._action)

    async def record(self, outcome: MoveOutcome, part: float = 0.0) -> None:
        """Record an outcome as `ended` does, in a thread: a disk that hangs holds up no other."""
        await asyncio.to_thread(self.ended, outcome, part)

    async def carry_out(
        self,
        executor: "Executor",
        moves: Sequence[Move],
        brokers: Sequence[str],
        done: Callable[[MoveOutcome], None],
        first: Collection[Move] = (),
    ) -> "LatencyRise | None":
        """Carry out moves as `Executor.carry_out` does, and record each outcome before `done`."""
        parts = {move.id: move.part for move in moves}

        async def kept(outcome: MoveOutcome) -> None:
            await self.record(outcome, parts[outcome.id])
            done(outcome)

        return await executor.carry_out(moves, brokers, kept, first)

    def close(self, at_ms: int) -> None:
        """Record that the action has ended."""
        if self._action is not None and self._trail is not None:
            with self._turn:
                self._trail.keep(replace(self._action, ended_ms=max(1, at_ms)))


@dataclass(frozen=True, slots=True)
class NewAction:
    """An action that is about to begin, by whom and why; recorded if there is a `trail`."""

    trail: ActionTrail | None
    kind: ActionKind
    who: str = ""
    """The operator; empty: the account of this process."""
    why: str = ""

    def begin(self, at_ms: int, broker: str = "") -> ActionLog:
        """Record that the action begins.

        Raises `ActionRefusedError` while the operator has paused all moves, and
        `HistoryFaultError`.
        """
        if self.trail is None:
            return ActionLog(None, None)
        if self.kind is not ActionKind.RELEASE and (why := self.trail.withheld()):
            raise ActionRefusedError(f"nothing is moved: {why}; `counterpoise control resume`")
        who = self.who or operator_name()
        begun = self.trail.begin(self.kind, at_ms, who=who, why=self.why, broker=broker)
        return ActionLog(self.trail, begun)

    @asynccontextmanager
    async def recorded(
        self, clock_ms: MillisecondClock, broker: str = ""
    ) -> AsyncIterator[ActionLog]:
        """Record the action's beginning, as `begin` does, and its end, however it ends."""
        log = await asyncio.to_thread(self.begin, clock_ms(), broker)
        try:
            yield log
        finally:
            await asyncio.to_thread(log.close, clock_ms())

    async def withheld(self) -> str:
        """Why no further move of the action may begin now; empty if one may. For `Executor`."""
        return "" if self.trail is None else await asyncio.to_thread(self.trail.withheld)


NOT_KEPT = NewAction(None, ActionKind.DRAIN)
"""An action that is not recorded, since there is no history."""
