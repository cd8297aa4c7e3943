"""Ownership of one bundle by lock and redirect (Pulsar's ``OwnershipCache``), as a machine.

The owner holds an ephemeral node at ``/namespace/<bundle>``. To let go it first announces that,
naming its successor if it has one (`HandOver`), then drains its topics, then deletes the node. The
successor sees the announcement, waits for the node to vanish and takes the lock at once, so that
clients sent on to it need no new lookup. Pulsar's own protocol has no announcement and leaves the
bundle to the next lookup; the lock itself is the same.

The bundle state channel of PIP-192 is another machine over the same records of this room.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from counterpoise.ownership.machine import Effects, step


class Phase(enum.Enum):
    """What a bundle is to this broker."""

    FREE = "not owned here"
    EXPECTED = "about to be handed over to this broker"
    ACQUIRING = "being acquired"
    OWNED = "owned"
    ANNOUNCING = "about to drain"
    DRAINING = "draining"
    DELETING = "being released"
    DOUBTED = "owned, unless the lock is gone"


@dataclass(frozen=True, slots=True)
class BundleLock:
    """One bundle as one broker sees it."""

    me: str
    """The broker's id."""
    phase: Phase = Phase.FREE
    destination: str | None = None
    """Who takes the bundle after this broker."""

    @property
    def serves(self) -> bool:
        """Whether topics of the bundle may be opened here now."""
        return self.phase in (Phase.OWNED, Phase.DOUBTED)

    @property
    def settling(self) -> bool:
        """Whether a client should wait: the bundle will be served here, or not, in a moment."""
        return self.phase in (Phase.EXPECTED, Phase.ACQUIRING) or (
            self.phase in (Phase.ANNOUNCING, Phase.DRAINING) and self.destination == self.me
        )


# Records: what happened.


@dataclass(frozen=True, slots=True)
class Acquire:
    """A lookup chose this broker."""


@dataclass(frozen=True, slots=True)
class LockCreated:
    """The lock is ours."""


@dataclass(frozen=True, slots=True)
class LockTaken:
    """Somebody else holds the lock, or nobody could be asked."""


@dataclass(frozen=True, slots=True)
class Expect:
    """The present owner named this broker as its successor."""


@dataclass(frozen=True, slots=True)
class LockVanished:
    """The lock node was deleted."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """An expected bundle did not come in time, or went elsewhere."""


@dataclass(frozen=True, slots=True)
class Release:
    """Let go of the bundle, towards a broker or (None) wherever the next lookup puts it."""

    destination: str | None = None


@dataclass(frozen=True, slots=True)
class Announced:
    """The hand-over was announced; or could not be, which must not stop us."""


@dataclass(frozen=True, slots=True)
class Drained:
    """The bundle's topics are closed."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """The bundle was split and this broker owns the parts: only the lock has to go."""


@dataclass(frozen=True, slots=True)
class LockDeleted:
    """Our lock is gone."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """The session was lost or the lock changed under us: look again."""


@dataclass(frozen=True, slots=True)
class LockSeen:
    """The lock was read after a doubt."""

    exists: bool
    mine: bool


# Effects: what to do.


@dataclass(frozen=True, slots=True)
class CreateLock:
    """Create the lock node; answer `LockCreated` or `LockTaken`."""


@dataclass(frozen=True, slots=True)
class Announce:
    """Write the `HandOver` to a destination; answer `Announced`."""

    destination: str | None


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Delete the `HandOver`: the bundle stays."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Close the bundle's topics, sending clients to a destination; answer `Drained`."""

    destination: str | None


@dataclass(frozen=True, slots=True)
class DeleteLock:
    """Delete the lock node; answer `LockDeleted`."""


@dataclass(frozen=True, slots=True)
class ReadLock:
    """Read the lock node; answer `LockSeen`."""


@dataclass(frozen=True, slots=True)
class DropTopics:
    """Somebody else owns the bundle: close its topics without a word to the store."""


_Transition: TypeAlias = Callable[[BundleLock, Any], tuple[BundleLock, Effects]]


def advance(state: BundleLock, record: object) -> tuple[BundleLock, Effects]:
    """The next state and the effects of one record; raises `ProtocolError`."""
    return step(_TABLE, state.phase, "bundle ownership", state, record)


def _to(phase: Phase, *effects: object) -> _Transition:
    def move(state: BundleLock, _: object) -> tuple[BundleLock, Effects]:
        return replace(state, phase=phase), effects

    return move


def _free(*effects: object) -> _Transition:
    def move(state: BundleLock, _: object) -> tuple[BundleLock, Effects]:
        return replace(state, phase=Phase.FREE, destination=None), effects

    return move


def _own(state: BundleLock, _: object) -> tuple[BundleLock, Effects]:
    return replace(state, phase=Phase.OWNED, destination=None), ()


def _release(state: BundleLock, record: Release) -> tuple[BundleLock, Effects]:
    after = replace(state, phase=Phase.ANNOUNCING, destination=record.destination)
    return after, (Announce(record.destination),)


def _announced(state: BundleLock, _: object) -> tuple[BundleLock, Effects]:
    return replace(state, phase=Phase.DRAINING), (Drain(state.destination),)


def _drained(state: BundleLock, _: object) -> tuple[BundleLock, Effects]:
    if state.destination == state.me:
        return replace(state, phase=Phase.OWNED, destination=None), (Withdraw(),)
    return replace(state, phase=Phase.DELETING), (DeleteLock(),)


def _seen(state: BundleLock, record: LockSeen) -> tuple[BundleLock, Effects]:
    if record.mine:
        return _own(state, record)
    if record.exists:
        return replace(state, phase=Phase.FREE, destination=None), (DropTopics(),)
    # Nobody took it while our session was away: take it back, the topics stay open.
    return state, (CreateLock(),)


def _stay(state: BundleLock, _: object) -> tuple[BundleLock, Effects]:
    return state, ()


_P = Phase
_TABLE: dict[tuple[Phase, type], _Transition] = {
    (_P.FREE, Acquire): _to(_P.ACQUIRING, CreateLock()),
    (_P.FREE, Expect): _to(_P.EXPECTED),
    (_P.FREE, LockVanished): _stay,
    (_P.FREE, GiveUp): _stay,
    (_P.FREE, Release): _stay,
    (_P.FREE, Doubt): _stay,
    (_P.EXPECTED, Expect): _stay,
    (_P.EXPECTED, Acquire): _to(_P.ACQUIRING, CreateLock()),
    (_P.EXPECTED, LockVanished): _to(_P.ACQUIRING, CreateLock()),
    (_P.EXPECTED, GiveUp): _free(),
    (_P.EXPECTED, Release): _stay,
    (_P.EXPECTED, Doubt): _free(),
    (_P.ACQUIRING, Acquire): _stay,
    (_P.ACQUIRING, Expect): _stay,
    (_P.ACQUIRING, LockCreated): _own,
    (_P.ACQUIRING, LockTaken): _free(),
    (_P.ACQUIRING, LockVanished): _stay,
    (_P.ACQUIRING, GiveUp): _stay,
    (_P.ACQUIRING, Release): _stay,
    (_P.ACQUIRING, Doubt): _stay,
    (_P.OWNED, Acquire): _stay,
    (_P.OWNED, Expect): _stay,
    (_P.OWNED, GiveUp): _stay,
    (_P.OWNED, Release): _release,
    (_P.OWNED, Replaced): _to(_P.DELETING, DeleteLock()),
    (_P.OWNED, LockVanished): _to(_P.DOUBTED, ReadLock()),
    (_P.OWNED, Doubt): _to(_P.DOUBTED, ReadLock()),
    (_P.DOUBTED, Acquire): _stay,
    (_P.DOUBTED, Expect): _stay,
    (_P.DOUBTED, GiveUp): _stay,
    (_P.DOUBTED, LockSeen): _seen,
    (_P.DOUBTED, LockCreated): _own,
    (_P.DOUBTED, LockTaken): _free(DropTopics()),
    (_P.DOUBTED, Doubt): _to(_P.DOUBTED, ReadLock()),
    (_P.DOUBTED, LockVanished): _to(_P.DOUBTED, ReadLock()),
    (_P.DOUBTED, Release): _release,
    (_P.DOUBTED, Replaced): _to(_P.DELETING, DeleteLock()),
    (_P.ANNOUNCING, Announced): _announced,
    (_P.DRAINING, Drained): _drained,
    (_P.DELETING, LockDeleted): _free(),
}
# While a bundle leaves, everything that would start something else has to wait.
for _leaving in (_P.ANNOUNCING, _P.DRAINING, _P.DELETING):
    for _record in (Acquire, Expect, GiveUp, Release, Doubt, LockVanished):
        _TABLE[_leaving, _record] = _stay
