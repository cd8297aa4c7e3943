"""What every ownership protocol offers: its options, a bundle's state, and the protocol itself.

A protocol is one state machine for each bundle; `events` has its inputs and outputs.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from counterpoise.ownership.events import Effects, NodeChange
from counterpoise.ownership.records import NamespaceEphemeralData


@dataclass(frozen=True, slots=True)
class OwnershipOptions:
    """A broker's settings for ownership. Times are seconds unless named otherwise."""

    me: NamespaceEphemeralData
    successor_s: float = 5.0
    """How long a transfer's source and destination wait for each other at most."""
    takeover_s: float = 2.5
    """How long a new owner waits for the former one to close the bundle's topics.

    After that it opens the topics that clients ask for, which fences the former owner's ledgers. If
    the former owner was killed, clients wait this long after its session has ended."""
    prepare_s: float = 1.0
    """How long a transfer's source goes on serving at most while the destination gets ready."""
    close_topics_s: float = 70.0
    """How long closing a bundle's topics may take; then the bundle is released with open topics."""
    in_flight_ms: int = 30_000
    """How long a transfer, assignment or split may take before the leader repairs the record."""
    tombstone_ms: int = 3_600_000
    """How long the record of a bundle without an owner is kept."""


@dataclass(frozen=True, slots=True)
class BundleLocation:
    """Which broker owns a bundle, by the metadata store, and whether that is about to change."""

    owner: NamespaceEphemeralData | None
    """The owner, or None; ``native_url`` is empty where the protocol knows only broker ids."""
    successor: str | None = None
    """The id of the broker that is about to own it; None: none is named."""
    changing: bool = False
    """Whether its owner changes, to a successor or to the one that the next lookup chooses."""
    splitting: bool = False
    """Whether the owner is splitting the bundle, which it serves until it owns the parts."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair that the leader has to make: a bundle that would otherwise stay without an owner."""

    bundle: str
    why: str
    """What is wrong with it, for a person."""
    remove: bool = False
    """Whether to delete the bundle's record; if not, a new owner is written into it."""


class BundleState(Protocol):
    """The state of one bundle at one broker, as the broker's other parts read it."""

    @property
    def serves(self) -> bool:
        """Whether topics of the bundle may be opened here now."""

    @property
    def holds(self) -> bool:
        """Whether open topics stay open: this broker serves the bundle, or cannot know it now."""

    @property
    def undecided(self) -> bool:
        """Whether a client should wait: it is being decided which broker serves the bundle."""

    @property
    def taking_over(self) -> bool:
        """Whether this broker owns the bundle while the former owner may still have open topics.

        Topics that the former owner has closed may be opened and served here.
        """

    @property
    def in_progress(self) -> bool:
        """Whether the state machine waits for a command's result or a timer."""

    @property
    def split_into(self) -> tuple[str, ...]:
        """The ranges of a split that this broker has announced; empty without a split."""

    @property
    def forgettable(self) -> bool:
        """Whether this state is equivalent to the initial one, so that the broker can drop it."""


S = TypeVar("S", bound=BundleState)


class BundleProtocol(Protocol[S]):
    """One way for brokers to agree on each bundle's owner.

    Bundles are named ``tenant/namespace/0x…_0x…``. Nodes are paths of the metadata store.
    """

    @property
    def changes_by_record(self) -> bool:
        """Whether every change of a bundle is first written into a record that all brokers read.

        If so, any broker may assign a bundle without an owner (`Assign`) or have it released
        (`ReleaseFrom`), and a split is announced before it is made (`Split`).
        """

    @property
    def roots(self) -> tuple[str, ...]:
        """The paths below which the protocol stores its nodes, each ending in a slash."""

    def new(self, bundle: str) -> S:
        """The state of a bundle before its first event."""

    def advance(self, state: S, event: object) -> tuple[S, Effects]:
        """The next state and the effects of one event; raises `UnexpectedEvent`."""

    def nodes(self, bundle: str) -> tuple[str, ...]:
        """The paths of a bundle's nodes, in the order in which to send the reads."""

    def bundle_of(self, path: str) -> str | None:
        """The bundle to which a node belongs; None for other nodes."""

    def concerns_unknown(self, path: str, change: NodeChange) -> bool:
        """Whether a node's change matters to a broker that has no state for its bundle."""

    def locate(self, values: Mapping[str, bytes | None]) -> BundleLocation:
        """Which broker owns a bundle, by the values of its `nodes` (None: no such node)."""

    def repairs(
        self, values: Mapping[str, bytes], active: Collection[str], now_ms: int
    ) -> tuple[Repair, ...]:
        """The repairs that the leader has to make, the most urgent first.

        ``values`` has every bundle's record, ``active`` the ids of brokers that are alive. A
        protocol whose nodes vanish with their brokers needs no repairs.
        """

    def is_unbelievable(
        self, bundle: str, value: bytes, active: Collection[str], now_ms: int
    ) -> bool:
        """Whether the leader has to repair a record (``value``) that has just been written."""

    def repaired(self, value: bytes, successor: str | None, now_ms: int) -> bytes:
        """The record that replaces ``value`` and makes ``successor`` the owner; None: no owner."""
