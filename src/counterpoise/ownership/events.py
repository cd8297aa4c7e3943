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

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

S = TypeVar("S")

STORE_S: Final = 10.0
"""How long a command on the metadata store may take before it has failed."""

# Requests: what a broker is asked to do with a bundle.


@dataclass(frozen=True, slots=True)
class Acquire:
    """Own the bundle: a lookup chose this broker."""

    as_split_part: bool = False
    """Or this broker owns the bundle that this one is a part of."""


@dataclass(frozen=True, slots=True)
class Assign:
    """Enter into the bundle's record which broker is to own it, this one or another.

    Only for protocols that assign by record; elsewhere a broker can but `Acquire` for itself.
    """

    broker: str


@dataclass(frozen=True, slots=True)
class Release:
    """Release the bundle, to a broker or (None) to the one that the next lookup chooses."""

    destination: str | None = None


@dataclass(frozen=True, slots=True)
class OrderRelease:
    """Have its owner, another broker or this one, release the bundle.

    Only for protocols that assign by record: the record is the order.
    """

    owner: str
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """Announce that the bundle is being split into these ranges."""

    ranges: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SplitCompleted:
    """Release the bundle: it was split, and this broker owns its parts."""


@dataclass(frozen=True, slots=True)
class CheckOwnership:
    """Find out whether this broker should serve the bundle: a client came for it."""


Request: TypeAlias = (
    Acquire | Assign | Release | OrderRelease | Split | SplitCompleted | CheckOwnership
)

# Notifications.


class NodeChange(enum.Enum):
    """What became of a node."""

    APPEARED = "appeared"
    """It was created, or its value changed."""
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node of the bundle changed; it may have changed again by now."""

    path: str
    change: NodeChange


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """The session with the store was interrupted or lost, or is established again."""


@dataclass(frozen=True, slots=True)
class SuccessorReady:
    """A broker has prepared itself for the bundle; it may have been for an earlier transfer."""


@dataclass(frozen=True, slots=True)
class BundleReleased:
    """A former owner has closed all topics of a bundle that another broker owns by now."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The timer that the machine started."""


# Effects without a result.


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Feed `TimerFired` after so many seconds, instead of at any time set before."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Prepare:
    """Get ready to serve a bundle that its owner still serves, then report `SuccessorReady`.

    Nothing depends on it: it may fail, never end, or prepare for a transfer that never happens. So
    it has no result, and what it read is read again when the bundle is owned.
    """


@dataclass(frozen=True, slots=True)
class ReportRelease:
    """Report to the bundle's new owner that all topics are closed here (`BundleReleased`).

    Nothing depends on it: a successor that does not receive it waits for its timer.
    """


# Commands: effects with exactly one result.


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """An effect with one result event, which is `CommandFailed` after ``within_s``."""

    within_s: float = STORE_S


@dataclass(frozen=True, slots=True)
class CreateNode(Command):
    """Create an ephemeral node; results in `NodeCreated` or `NodeExists`."""

    path: str
    value: bytes


@dataclass(frozen=True, slots=True)
class WriteNode(Command):
    """Write an ephemeral node of our own session, over any other; results in `NodeWritten`."""

    path: str
    value: bytes


@dataclass(frozen=True, slots=True)
class WriteRecord(Command):
    """Write a node that outlives its writer; results in `NodeCreated` or `VersionDiffers`."""

    path: str
    value: bytes
    version: int | None
    """The version that it replaces; None: there must be no such node."""


@dataclass(frozen=True, slots=True)
class ReadNode(Command):
    """Read a node; results in `NodeFound`."""

    path: str


@dataclass(frozen=True, slots=True)
class RemoveNode(Command):
    """Delete a node that is at this version; results in `NodeRemoved` or `VersionDiffers`."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class CloseTopics(Command):
    """Close the bundle's topics, send their clients to ``destination``; `TopicsClosed`."""

    destination: str | None


# Results.


@dataclass(frozen=True, slots=True)
class NodeCreated:
    """The node is ours, at this version."""

    version: int


@dataclass(frozen=True, slots=True)
class NodeExists:
    """There is such a node already, ours or another broker's."""


@dataclass(frozen=True, slots=True)
class NodeWritten:
    """The node has our value."""


@dataclass(frozen=True, slots=True)
class NodeFound:
    """What stands at the path: nothing (None), or a value."""

    value: bytes | None
    version: int = 0
    mine: bool = False
    """Ephemeral, and created by our present session."""


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """There is no such node any more."""


@dataclass(frozen=True, slots=True)
class VersionDiffers:
    """The node is at another version: another broker wrote it."""


@dataclass(frozen=True, slots=True)
class TopicsClosed:
    """The bundle's topics are closed."""


@dataclass(frozen=True, slots=True)
class CommandFailed:
    """The command has no result; what it asked for may have happened or not."""

    reason: str
    late: bool = False
    """Whether all its time is over: to try again would take as long again."""


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
    """An event that makes no sense in the present phase: the table has no such entry."""

    def __init__(self, machine: str, phase: str, event: object) -> None:
        super().__init__(f"{machine}: {type(event).__name__} cannot happen when {phase}")


def step(
    table: Mapping[tuple[Any, type], Callable[[S, Any], tuple[S, Effects]]],
    phase: Any,
    machine: str,
    state: S,
    event: object,
) -> tuple[S, Effects]:
    """The next state and what to do; raises `UnexpectedEvent` when the table has no entry."""
    transition = table.get((phase, type(event)))
    if transition is None:
        raise UnexpectedEvent(machine, phase.value, event)
    return transition(state, event)
