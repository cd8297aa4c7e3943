"""The events and effects of every state machine of this room, and how a machine takes a step.

A machine is a table from (phase, type of event) to a transition. The runner
(`counterpoise.broker.bundles.runner`) feeds it events, one at a time and without ever waiting, and
carries out the effects that follow. Three rules hold for all machines:

- Only an event changes a state.
- A state has at most one `Command` under way. Each has exactly one result event: `CommandFailed`
  where it raised or took too long.
- `StartTimer` is the only clock. Each machine has one timer; starting it again replaces it.

So a state that is not at rest always waits for a result or for its timer, never for its caller.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

S = TypeVar("S")
P = TypeVar("P")
T = TypeVar("T")

STORE_S: Final = 10.0
"""After how many seconds a command on the metadata store counts as failed."""

# Requests: what a broker is asked to do with a bundle.


@dataclass(frozen=True, slots=True)
class Acquire:
    """Request: take ownership of the bundle, because a lookup chose this broker."""

    as_split_part: bool = False
    """Whether the bundle is a part of one that this broker owns and is splitting, not chosen by a
    lookup."""


@dataclass(frozen=True, slots=True)
class Assign:
    """Request: write into the bundle's record which broker shall own it, this one or another.

    Only for protocols that assign by record. Under others a broker can only `Acquire` for itself.
    """

    broker: str


@dataclass(frozen=True, slots=True)
class Release:
    """Request: release the bundle to ``destination``; None: to the next lookup's choice."""

    destination: str | None = None


@dataclass(frozen=True, slots=True)
class ReleaseFrom:
    """Request: make the owner, another broker or this one, release the bundle.

    Only for protocols that assign by record: the owner reads the record and releases it.
    """

    owner: str
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """Request: announce that this broker is splitting the bundle into these ranges."""

    ranges: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SplitCompleted:
    """Request: release the bundle after its split, since this broker owns its parts."""


@dataclass(frozen=True, slots=True)
class CheckOwnership:
    """Request: read whether this broker owns the bundle, because a client asked for it."""


Request: TypeAlias = (
    Acquire | Assign | Release | ReleaseFrom | Split | SplitCompleted | CheckOwnership
)

# Notifications.


class NodeChange(enum.Enum):
    """What happened to a node of the metadata store."""

    APPEARED = "appeared"
    """The node was created, or its value changed."""
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """Event: a node of the bundle changed. It may have changed again since."""

    path: str
    change: NodeChange


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """Event: the metadata store's session was interrupted, lost or established again."""


@dataclass(frozen=True, slots=True)
class SuccessorReady:
    """Event: a successor is prepared to serve the bundle, possibly for an earlier transfer."""


@dataclass(frozen=True, slots=True)
class BundleReleased:
    """Event: a former owner has closed all topics of a bundle that another broker now owns."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """Event: the timer that `StartTimer` started has fired."""


# Effects without a result.


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Effect: send `TimerFired` after so many seconds. Replaces a running timer."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Prepare:
    """Effect: prepare to serve a bundle that its owner still serves, then report `SuccessorReady`.

    It has no result event, since it may fail, never end, or prepare for a transfer that never
    happens. What it reads is read again once this broker owns the bundle.
    """


@dataclass(frozen=True, slots=True)
class ReportRelease:
    """Effect: report to the bundle's new owner that all topics are closed here (`BundleReleased`).

    If the report is lost, the new owner continues after a time-out.
    """


# Commands: effects with exactly one result.


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """An effect that takes time and ends with exactly one result event.

    If no result came within ``within_s`` seconds, that event is `CommandFailed`.
    """

    within_s: float = STORE_S


@dataclass(frozen=True, slots=True)
class CreateNode(Command):
    """Command: create an ephemeral node; results in `NodeCreated` or `NodeExists`."""

    path: str
    value: bytes


@dataclass(frozen=True, slots=True)
class WriteNode(Command):
    """Command: write an ephemeral node even if it exists; results in `NodeWritten`."""

    path: str
    value: bytes


@dataclass(frozen=True, slots=True)
class WriteRecord(Command):
    """Command: write a persistent node if its version is ``version`` (None: if it does not exist).

    Results in `NodeCreated` or `VersionDiffers`.
    """

    path: str
    value: bytes
    version: int | None
    """The version of the node that is replaced; None: there must be no such node."""


@dataclass(frozen=True, slots=True)
class ReadNode(Command):
    """Command: read a node; results in `NodeFound`."""

    path: str


@dataclass(frozen=True, slots=True)
class RemoveNode(Command):
    """Command: delete a node at this version; results in `NodeRemoved` or `VersionDiffers`."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class CloseTopics(Command):
    """Command: close topics, redirecting clients to ``destination``; results in `TopicsClosed`."""

    destination: str | None


# Results.


@dataclass(frozen=True, slots=True)
class NodeCreated:
    """Result: this broker created or wrote the node, which has this version now."""

    version: int


@dataclass(frozen=True, slots=True)
class NodeExists:
    """Result: the node exists already, created by this or another broker."""


@dataclass(frozen=True, slots=True)
class NodeWritten:
    """Result: the node has this broker's value."""


@dataclass(frozen=True, slots=True)
class NodeFound:
    """Result of `ReadNode`: the node's value and version; ``value`` None: there is no such node."""

    value: bytes | None
    version: int = 0
    mine: bool = False
    """Whether it is ephemeral and was created by this broker's present session."""


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """Result: the node has been deleted."""


@dataclass(frozen=True, slots=True)
class VersionDiffers:
    """Result: nothing was done, since the node has another version: another broker wrote it."""


@dataclass(frozen=True, slots=True)
class TopicsClosed:
    """Result: the bundle's topics are closed."""


@dataclass(frozen=True, slots=True)
class CommandFailed:
    """Result: the command failed, or took too long (``late``). It may have had its effect."""

    reason: str
    late: bool = False
    """Whether ``within_s`` ran out, so that another attempt may take as long."""


Result: TypeAlias = (
    NodeCreated
    | NodeExists
    | NodeWritten
    | NodeFound
    | NodeRemoved
    | VersionDiffers
    | TopicsClosed
    | CommandFailed
)
Effect: TypeAlias = StartTimer | Prepare | ReportRelease | Command
Effects: TypeAlias = tuple[Effect, ...]


class UnexpectedEvent(Exception):
    """A state table has no entry for this event in this phase."""

    def __init__(self, machine: str, phase: str, event: object) -> None:
        super().__init__(f"{machine}: {type(event).__name__} cannot happen when {phase}")


def table_of(
    rows: Mapping[P, Mapping[type, T]], any_phase: Mapping[type, T]
) -> dict[tuple[P, type], T]:
    """Make a state table: the transition for each phase and type of event.

    ``any_phase`` has the transitions for events that a phase's own row does not name.
    """
    return {
        (phase, kind): transition
        for phase, row in rows.items()
        for kind, transition in {**any_phase, **row}.items()
    }


def step(
    table: Mapping[tuple[Any, type], Callable[[S, Any], tuple[S, Effects]]],
    phase: Any,
    machine: str,
    state: S,
    event: object,
) -> tuple[S, Effects]:
    """Look up a phase and event in a state table, and return the next state and its effects.

    ``machine`` names the table in the error. Raises `UnexpectedEvent` if it has no entry.
    """
    transition = table.get((phase, type(event)))
    if transition is None:
        raise UnexpectedEvent(machine, phase.value, event)
    return transition(state, event)
