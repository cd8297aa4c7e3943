"""The port of every ownership protocol: options, locations, state, protocol.

A protocol is a state machine for each bundle; `events` has its inputs and outputs.
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
    """How long a transfer's source and destination wait for each other."""
    takeover_s: float = 2.5
    """How long a new owner waits for the former one to close the bundle's topics.

    After that it opens the topics that clients ask for, which fences the former owner's ledgers. If
    the former owner was killed, clients wait this long after its session has ended."""
    prepare_s: float = 1.0
    """How long an owner goes on serving at most while its successor gets ready."""
    close_topics_s: float = 70.0
    """After this long a bundle is released, whether or not its topics are closed."""
    in_flight_ms: int = 30_000
    """How long a change of ownership may take before the leader ends it."""
    tombstone_ms: int = 3_600_000
    """How long a record is kept that is no longer needed."""


@dataclass(frozen=True, slots=True)
class BundleLocation:
    """Which broker owns a bundle, by the metadata store, and whether that is about to change."""

    owner: NamespaceEphemeralData | None
    """Its owner; without a ``native_url`` where a protocol knows brokers by their ids alone."""
    successor: str | None = None
    """The id of the broker that is about to own it."""
    changing: bool = False
    """Whether its owner changes, to a successor or to the one that the next lookup chooses."""
    splitting: bool = False
    """Whether its owner is splitting it; it is served until its parts are."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair that the leader has to make: a bundle that would otherwise stay without an owner."""

    bundle: str
    why: str
    """What is wrong with it, for a person."""
    remove: bool = False
    """Whether its record is to be deleted; else a successor gets the bundle."""


class BundleState(Protocol):
    """The state of one bundle at one broker."""

    @property
    def serves(self) -> bool:
        """Whether topics of the bundle may be opened here now."""

    @property
    def holds(self) -> bool:
        """Whether open topics stay open: this broker serves the bundle, or that is uncertain."""

    @property
    def undecided(self) -> bool:
        """Whether a client should wait: which broker serves the bundle is about to be decided."""

    @property
    def taking_over(self) -> bool:
        """Whether this broker owns the bundle while the former owner may still have open topics.

        Topics that the former owner has closed may be opened and served here.
        """

    @property
    def in_progress(self) -> bool:
        """Whether a command's result or a timer is awaited."""

    @property
    def split_into(self) -> tuple[str, ...]:
        """The ranges of a split that this broker has announced; empty without one."""

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
        """A bundle's owner and successor, from the values of its `nodes`."""

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
        """Whether the leader has to repair a record that has just been written."""

    def repaired(self, value: bytes, successor: str | None, now_ms: int) -> bytes:
        """The record that forces a bundle to a successor; with None it frees the bundle."""
