"""What every ownership protocol has in common: its orders, its questions, and its answers.

A protocol is a table. The runner (`counterpoise.broker.bundles.runner`) feeds it records, one at a
time and without ever waiting, and carries out the effects that follow. Three rules hold for all:

- Only applying a record changes a state.
- A state has at most one `Command` open. The runner answers each exactly once: with what came of
  it or, when it raised or took too long, with `CommandFailed`.
- `StartTimer` is the only clock. Each state has one alarm; setting it anew replaces it.

So a state that is not at rest always waits for an answer or for its alarm, never for whoever asked.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from counterpoise.ownership.machine import Effects
from counterpoise.ownership.records import NamespaceEphemeralData

STORE_S: Final = 10.0
"""How long a question to the metadata store may take before it has failed."""

# Orders: what a broker is asked to do with a bundle.


@dataclass(frozen=True, slots=True)
class Acquire:
    """A lookup chose this broker."""

    as_split_part: bool = False
    """Or it owns the bundle that this one is a part of."""


@dataclass(frozen=True, slots=True)
class Split:
    """Let everybody know that the bundle is being cut into these ranges."""

    ranges: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Let go of the bundle, towards a broker or (None) wherever the next lookup puts it."""

    destination: str | None = None


@dataclass(frozen=True, slots=True)
class SplitCompleted:
    """The bundle was split, and this broker owns its parts."""


@dataclass(frozen=True, slots=True)
class CheckOwnership:
    """A client came for a bundle that is not served here: look whether it should be."""


# What happened without being asked for.


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
    """The session with the store was interrupted or lost, or stands again: trust nothing."""


@dataclass(frozen=True, slots=True)
class SuccessorReady:
    """Some broker has prepared itself for the bundle; it may be news of a former move."""


@dataclass(frozen=True, slots=True)
class BundleReleased:
    """Some broker has closed all it had open of a bundle that another has by now."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The alarm that the machine set."""


# Effects that are no questions.


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Feed `TimerFired` after so many seconds, instead of at any time set before."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Prepare:
    """Get ready to serve a bundle that its owner still serves, then tell it (`SuccessorReady`).

    Nothing depends on it: it may fail, take for ever, or prepare for what never comes. So it has no
    answer, and whatever it found out is looked at again when the bundle is there.
    """


@dataclass(frozen=True, slots=True)
class ReportRelease:
    """Tell whoever has the bundle by now that all is closed that was open here (`BundleReleased`).

    As little depends on it as on `Prepare`: an heir that does not hear it waits for its alarm.
    """


# Questions: effects with exactly one answer.


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """An effect with one answer, which is `CommandFailed` after ``within_s``."""

    within_s: float = STORE_S


@dataclass(frozen=True, slots=True)
class CreateNode(Command):
    """Create an ephemeral node; answer `NodeCreated` or `NodeExists`."""

    path: str
    value: bytes


@dataclass(frozen=True, slots=True)
class WriteNode(Command):
    """Write an ephemeral node of our own session, whatever stands there; answer `NodeWritten`."""

    path: str
    value: bytes


@dataclass(frozen=True, slots=True)
class WriteRecord(Command):
    """Write a node that stays when its writer is gone; answer `NodeCreated` or `VersionDiffers`."""

    path: str
    value: bytes
    version: int | None
    """What it is written over; None: there must be no such node."""


@dataclass(frozen=True, slots=True)
class ReadNode(Command):
    """Read a node; answer `NodeFound`."""

    path: str


@dataclass(frozen=True, slots=True)
class RemoveNode(Command):
    """Delete a node that is at this version; answer `NodeRemoved` or `VersionDiffers`."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class CloseTopics(Command):
    """Close the bundle's topics, send their clients to ``destination``; result `TopicsClosed`."""

    destination: str | None


# Answers.


@dataclass(frozen=True, slots=True)
class NodeCreated:
    """The node is ours, at this version."""

    version: int


@dataclass(frozen=True, slots=True)
class NodeExists:
    """There is such a node already, ours or somebody else's."""


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
    """The node is at another version: somebody else wrote it."""


@dataclass(frozen=True, slots=True)
class TopicsClosed:
    """The bundle's topics are closed."""


@dataclass(frozen=True, slots=True)
class CommandFailed:
    """The question was not answered; what it asked for may have happened or not."""

    reason: str
    late: bool = False
    """Whether all the time there was is over: to try again would take as long again."""


# What a protocol offers.


@dataclass(frozen=True, slots=True)
class OwnershipOptions:
    """What all bundles of one broker have in common."""

    me: NamespaceEphemeralData
    successor_s: float = 5.0
    """How long a hand-over waits for the heir to take the bundle, and the heir for the bundle."""
    takeover_s: float = 2.5
    """How long an heir that owns the bundle lets its former owner close what that has open.

    After that it opens what clients ask for; whatever is open elsewhere is fenced. Where the former
    owner was killed, this comes on top of its session."""
    prepare_s: float = 1.0
    """How long an owner goes on serving at most while its heir gets ready."""
    drain_s: float = 70.0
    """After this long a bundle is let go, whether or not its topics are closed."""
    in_flight_ms: int = 30_000
    """How long a change may take before the leader ends it."""
    tombstone_ms: int = 3_600_000
    """How long a record that nobody needs is kept."""


@dataclass(frozen=True, slots=True)
class BundleLocation:
    """Where a bundle is, by the word of the cluster's metadata."""

    owner: NamespaceEphemeralData | None
    """Who holds it; without a ``native_url`` where a protocol knows brokers by their ids alone."""
    successor: str | None = None
    """The id of the broker that is about to have it."""
    changing: bool = False
    """Whether it is changing hands, to an heir or to whomever the next lookup chooses."""
    splitting: bool = False
    """Whether its owner is cutting it; it is served until its parts are."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A bundle that nobody will mend unless the leader does."""

    bundle: str
    why: str
    """What is wrong with it, for a person."""
    remove: bool = False
    """Whether its record is to be deleted; else an heir gets the bundle."""


class BundleState(Protocol):
    """A bundle as one broker sees it."""

    @property
    def serves(self) -> bool:
        """Whether topics of the bundle may be opened here now."""
        ...

    @property
    def holds(self) -> bool:
        """Whether open topics of the bundle stay open: it is served, or that is in doubt."""
        ...

    @property
    def settling(self) -> bool:
        """Whether a client should wait: the bundle will be served here, or not, in a moment."""
        ...

    @property
    def taking_over(self) -> bool:
        """Whether this broker owns the bundle, whose former owner may have topics of it open.

        Those that it has closed may be opened and served here.
        """
        ...

    @property
    def in_progress(self) -> bool:
        """Whether the machine is on its way: it waits for an answer or for its alarm."""
        ...

    @property
    def cut_into(self) -> tuple[str, ...]:
        """The ranges that this broker has announced to cut the bundle into, if it has."""
        ...

    @property
    def forgettable(self) -> bool:
        """Whether the machine knows nothing that a new one would not."""
        ...


S = TypeVar("S", bound=BundleState)


class BundleProtocol(Protocol, Generic[S]):
    """One way for brokers to agree on who owns a bundle.

    Bundles are named ``tenant/namespace/0x…_0x…``. Nodes are paths of the metadata store.
    """

    @property
    def announces_splits(self) -> bool:
        """Whether a bundle that is being split says so first, by a `Split`."""
        ...

    @property
    def roots(self) -> tuple[str, ...]:
        """The paths below which its nodes stand, each ending in a slash."""
        ...

    def new(self, bundle: str) -> S:
        """What a broker knows of a bundle before it hears anything."""
        ...

    def advance(self, state: S, record: object) -> tuple[S, Effects]:
        """The next state and the effects of one record; raises `ProtocolError`."""
        ...

    def nodes(self, bundle: str) -> tuple[str, ...]:
        """The nodes that tell where a bundle is, in the order in which to read them."""
        ...

    def bundle_of(self, path: str) -> str | None:
        """The bundle that a node is about, if any."""
        ...

    def concerns_unknown(self, path: str, change: NodeChange) -> bool:
        """Whether a change of this node matters to a broker that knows nothing of its bundle."""
        ...

    def locate(self, values: Mapping[str, bytes | None]) -> BundleLocation:
        """Read `nodes`."""
        ...

    def repairs(
        self, values: Mapping[str, bytes], active: Collection[str], now_ms: int
    ) -> tuple[Repair, ...]:
        """What the leader has to mend, most urgent first, by the record of every bundle.

        ``active`` are the ids of the brokers that are alive. A protocol whose nodes vanish with
        their brokers has nothing to mend.
        """
        ...

    def repaired(self, value: bytes, successor: str | None, now_ms: int) -> bytes:
        """The record by which an heir gets a bundle, whoever had it; None: nobody does."""
        ...
