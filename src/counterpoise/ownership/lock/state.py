"""The state of one bundle at one broker, under lock and redirect."""

import enum
from dataclasses import dataclass

from counterpoise.ownership.lock.nodes import hand_over_of, lock_of
from counterpoise.ownership.port import OwnershipOptions


class LockPhase(enum.Enum):
    """The step of the lock protocol at which this broker is with a bundle."""

    FREE = "not owned here"
    READING_HAND_OVER = "being handed over, perhaps to this broker"
    CHECKING = "not served here, unless the lock says so"
    EXPECTED = "about to be handed over to this broker"
    ACQUIRING = "being acquired"
    TAKING_OVER = "owned, while its former owner closes it"
    OWNED = "owned"
    DOUBTED = "owned, unless the lock is gone"
    ANNOUNCING = "about to be handed over"
    AWAITING = "served until its successor is ready"
    YIELDING = "served until its lock is gone"
    YIELDED = "served until its successor has the lock"
    CLOSING = "closing its topics"
    DELETING = "being released"
    AWAITING_TAKEOVER = "released, and not yet taken by its successor"
    WITHDRAWING = "released, its hand-over still announced"
    DROPPING = "owned by another broker, its topics still closing here"


REST = frozenset({LockPhase.FREE, LockPhase.OWNED})
"""Phases without a command in progress or a timer; every other phase waits for one of them."""
_UNDECIDED = frozenset(
    {
        LockPhase.READING_HAND_OVER,
        LockPhase.CHECKING,
        LockPhase.EXPECTED,
        LockPhase.ACQUIRING,
        LockPhase.TAKING_OVER,
        LockPhase.DOUBTED,
    }
)
_HOLDING = frozenset(
    {
        LockPhase.TAKING_OVER,
        LockPhase.OWNED,
        LockPhase.DOUBTED,
        LockPhase.ANNOUNCING,
        LockPhase.AWAITING,
        LockPhase.YIELDING,
        LockPhase.YIELDED,
    }
)


@dataclass(frozen=True, slots=True)
class BundleLock:
    """The state of one bundle at one broker, under the lock protocol."""

    options: OwnershipOptions
    bundle: str
    phase: LockPhase = LockPhase.FREE
    destination: str | None = None
    """The id of the broker that takes the bundle after its present owner; None: not known."""
    version: int | None = None
    """The version of this broker's lock; None after an event that requires reading it again."""
    is_released: bool = False
    """Whether the former owner is known to have closed all the bundle's topics."""
    yielded: bool = False
    """Whether this broker gave its lock up to the successor before it closed the topics."""
    announced: bool = False
    """Whether a hand-over that this broker announced may still exist."""
    thorough: bool = False
    """Whether the lock is read after the announcement of the hand-over, because a client asked."""
    pausing: bool = False
    """Whether the last command failed; the timer, which is running, issues it again."""
    overtaken: bool = False
    """Whether another event came since the command: its result is ignored, and it is reissued."""
    failures: int = 0
    """How many commands in a row have failed; the pause before the next depends on it."""
    deferred: object | None = None
    """A request that is handled when the current step has ended; None: none."""
    claimed: bool = False
    """Whether a lock that names this broker, but is not of its session, belongs to another process.

    True once the session has owned the lock, or removed one that names this broker: then such a
    lock cannot be left over from before a restart."""

    def __str__(self) -> str:
        words = [self.phase.value]
        if self.destination is not None:
            words.append(f"towards {self.destination}")
        if self.pausing:
            words.append(f"pausing after {self.failures} failures")
        if self.overtaken:
            words.append("overtaken")
        if self.deferred is not None:
            words.append(f"then {type(self.deferred).__name__}")
        return ", ".join(words)

    @property
    def me(self) -> str:
        """The broker's id."""
        return self.options.me.broker_id

    @property
    def lock(self) -> str:
        """The path of the bundle's ownership lock."""
        return lock_of(self.bundle)

    @property
    def hand_over(self) -> str:
        """The path of the node that announces the bundle's hand-over."""
        return hand_over_of(self.bundle)

    @property
    def serves(self) -> bool:
        """Whether topics of the bundle may be opened here now."""
        return self.phase is LockPhase.OWNED

    @property
    def holds(self) -> bool:
        """Whether open topics of the bundle stay open.

        They stay open even while it is unknown whether the lock still exists: if another broker has
        fenced their logs, no client can publish to them. No topic is opened then, since that would
        fence the logs of the bundle's owner; nor while a successor is preparing.
        """
        return self.phase in _HOLDING

    @property
    def undecided(self) -> bool:
        """Whether a client should wait: which broker serves the bundle is about to be decided."""
        return self.phase in _UNDECIDED or (
            self.phase is LockPhase.CLOSING and self.destination == self.me
        )

    @property
    def taking_over(self) -> bool:
        """Whether this broker owns the bundle while the former owner may still have open topics."""
        return self.phase is LockPhase.TAKING_OVER

    @property
    def in_progress(self) -> bool:
        """Whether a command's result or a timer is awaited."""
        return self.phase not in REST

    @property
    def split_into(self) -> tuple[str, ...]:
        """Always empty: this protocol does not record a split."""
        return ()

    @property
    def forgettable(self) -> bool:
        """Whether this state is equivalent to the initial one, so that the broker can drop it."""
        return self.phase is LockPhase.FREE
