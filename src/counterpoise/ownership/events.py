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
    """Write into the bundle's record which broker shall own it, this one or another.

    Only for protocols that assign by record. Under others a broker can only `Acquire` for itself.
    """

    broker: str


@dataclass(frozen=True, slots=True)
class Release:
    """Release the bundle to a broker, or (None) to the one that the next lookup chooses."""

    destination: str | None = None


@dataclass(frozen=True, slots=True)
class OrderRelease:
    """Make the owner, another broker or this one, release the bundle.

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
    """Release the bundle after its split: this broker owns its parts."""


@dataclass(frozen=True, slots=True)
class CheckOwnership:
    """Find out whether this broker should serve the bundle, because a client asked for it."""


Request: TypeAlias = (
    Acquire | Assign | Release | OrderRelease | Split | SplitCompleted | CheckOwnership
)

# Notifications.


class NodeChange(enum.Enum):
    """What happened to a node."""

    APPEARED = "appeared"
    """It was created, or its value changed."""
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node of the bundle changed. It may have changed again since."""

    path: str
    change: NodeChange


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """The session with the store was interrupted, lost or established again."""


@dataclass(frozen=True, slots=True)
class SuccessorReady:
    """A broker is prepared for the bundle, possibly for an earlier transfer."""


@dataclass(frozen=True, slots=True)
class BundleReleased:
    """A former owner has closed all topics of a bundle that another broker now owns."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The machine's timer fired."""


# Effects without a result.


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Feed `TimerFired` after so many seconds. Replaces a timer that is running."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Prepare:
    """Prepare to serve a bundle that its owner still serves, then report `SuccessorReady`.

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
    """An effect with exactly one result event; it is `CommandFailed` after ``within_s``."""

    within_s: float = STORE_S


@dataclass(frozen=True, slots=True)
class CreateNode(Command):
    """Create an ephemeral node; results in `NodeCreated` or `NodeExists`."""

    path: str
    value: bytes


@dataclass(frozen=True, slots=True)
class WriteNode(Command):
    """Write an ephemeral node of this session over any other; results in `NodeWritten`."""

    path: str
    value: bytes


@dataclass(frozen=True, slots=True)
class WriteRecord(Command):
    """Write a persistent node; results in `NodeCreated` or `VersionDiffers`."""

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
    """Close the bundle's topics and send clients to ``destination``; ends in `TopicsClosed`."""

    destination: str | None


# Results.


@dataclass(frozen=True, slots=True)
class NodeCreated:
    """The node was created or written by this broker and has this version."""

    version: int


@dataclass(frozen=True, slots=True)
class NodeExists:
    """The node exists already, created by this or another broker."""


@dataclass(frozen=True, slots=True)
class NodeWritten:
    """The node has this broker's value."""


@dataclass(frozen=True, slots=True)
class NodeFound:
    """The value at the path, or None."""

    value: bytes | None
    version: int = 0
    mine: bool = False
    """Ephemeral, and created by our present session."""


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """The node has been removed."""


@dataclass(frozen=True, slots=True)
class VersionDiffers:
    """The node has another version: another broker wrote it."""


@dataclass(frozen=True, slots=True)
class TopicsClosed:
    """The bundle's topics are closed."""


@dataclass(frozen=True, slots=True)
class CommandFailed:
    """The command failed. What it asked for may have happened or not."""

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
    """The table has no entry for this event in this phase."""

    def __init__(self, machine: str, phase: str, event: object) -> None:
        super().__init__(f"{machine}: {type(event).__name__} cannot happen when {phase}")


def step(
    table: Mapping[tuple[Any, type], Callable[[S, Any], tuple[S, Effects]]],
    phase: Any,
    machine: str,
    state: S,
    event: object,
) -> tuple[S, Effects]:
    """The next state and its effects; raises `UnexpectedEvent` if the table has no entry."""
    transition = table.get((phase, type(event)))
    if transition is None:
        raise UnexpectedEvent(machine, phase.value, event)
    return transition(state, event)
