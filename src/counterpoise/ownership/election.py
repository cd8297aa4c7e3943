"""Leader election by one ephemeral node (Pulsar's ``LeaderElectionImpl``), as a machine.

Records in, effects out: the shell carries the effects out and feeds back what came of them.
Whoever creates the node leads until the node vanishes, with its session or by its own hand.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from counterpoise.ownership.machine import Effects, step
from counterpoise.ownership.records import LeaderBroker


class Role(enum.Enum):
    """What a candidate is."""

    UNDECIDED = "undecided"
    LEADER = "leading"
    FOLLOWER = "following"
    RESIGNED = "resigned"


@dataclass(frozen=True, slots=True)
class Election:
    """One candidate's knowledge of the election."""

    me: LeaderBroker
    role: Role = Role.UNDECIDED
    leader: LeaderBroker | None = None


# Records: what happened.


@dataclass(frozen=True, slots=True)
class Stand:
    """Take part, or look again because something may have changed."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The node was read: its value (None: there is none), and whether our session made it."""

    leader: LeaderBroker | None
    mine: bool = False
    version: int = 0


@dataclass(frozen=True, slots=True)
class Won:
    """Our node was created."""


@dataclass(frozen=True, slots=True)
class Beaten:
    """Somebody else's node was there first, or the answer got lost."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """Our session ended, and with it every ephemeral node of ours."""


@dataclass(frozen=True, slots=True)
class Resign:
    """Leave the election for good."""


# Effects: what to do.


@dataclass(frozen=True, slots=True)
class ReadNode:
    """Read the leader's node and answer with `Seen`."""


@dataclass(frozen=True, slots=True)
class CreateNode:
    """Create the ephemeral node with this value; answer `Won` or `Beaten`."""

    value: LeaderBroker


@dataclass(frozen=True, slots=True)
class RemoveNode:
    """Delete the node, at this version if given; then `Stand` again unless resigned."""

    version: int | None = None


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell whoever listens who leads now (None: nobody known)."""

    leader: LeaderBroker | None
    me: bool


def advance(state: Election, record: object) -> tuple[Election, Effects]:
    """The next state and the effects of one record; raises `ProtocolError`."""
    return step(_TABLE, state.role, "leader election", state, record)


def _look(state: Election, _: object) -> tuple[Election, Effects]:
    return state, (ReadNode(),)


def _seen(state: Election, record: Seen) -> tuple[Election, Effects]:
    if record.leader is None:
        after, effects = _become(state, Role.UNDECIDED, None)
        return after, (*effects, CreateNode(state.me))
    if record.mine:
        return _become(state, Role.LEADER, record.leader)
    if record.leader.broker_id == state.me.broker_id:
        # Left behind by a former life of this broker, whose session has not timed out yet.
        return state, (RemoveNode(record.version),)
    return _become(state, Role.FOLLOWER, record.leader)


def _won(state: Election, _: Won) -> tuple[Election, Effects]:
    return _become(state, Role.LEADER, state.me)


def _session_lost(state: Election, _: SessionLost) -> tuple[Election, Effects]:
    return _become(state, Role.UNDECIDED, None)


def _resign(state: Election, _: Resign) -> tuple[Election, Effects]:
    was_leader = state.role is Role.LEADER
    after, effects = _become(state, Role.RESIGNED, None)
    return after, ((*effects, RemoveNode()) if was_leader else effects)


def _ignore(state: Election, _: object) -> tuple[Election, Effects]:
    return state, ()


def _become(state: Election, role: Role, leader: LeaderBroker | None) -> tuple[Election, Effects]:
    after = replace(state, role=role, leader=leader)
    if (after.role is Role.LEADER, leader) == (state.role is Role.LEADER, state.leader):
        return after, ()
    return after, (Announce(leader, role is Role.LEADER),)


_TABLE: dict[tuple[Role, type], Callable[[Election, Any], tuple[Election, Effects]]] = {
    (Role.UNDECIDED, Stand): _look,
    (Role.UNDECIDED, Seen): _seen,
    (Role.UNDECIDED, Won): _won,
    (Role.UNDECIDED, Beaten): _look,
    (Role.UNDECIDED, SessionLost): _ignore,
    (Role.UNDECIDED, Resign): _resign,
    (Role.LEADER, Stand): _look,
    (Role.LEADER, Seen): _seen,
    (Role.LEADER, Won): _ignore,
    (Role.LEADER, Beaten): _look,
    (Role.LEADER, SessionLost): _session_lost,
    (Role.LEADER, Resign): _resign,
    (Role.FOLLOWER, Stand): _look,
    (Role.FOLLOWER, Seen): _seen,
    (Role.FOLLOWER, Won): _look,
    (Role.FOLLOWER, Beaten): _look,
    (Role.FOLLOWER, SessionLost): _session_lost,
    (Role.FOLLOWER, Resign): _resign,
    (Role.RESIGNED, Stand): _ignore,
    (Role.RESIGNED, Seen): _ignore,
    (Role.RESIGNED, Beaten): _ignore,
    (Role.RESIGNED, SessionLost): _ignore,
    (Role.RESIGNED, Resign): _ignore,
    # Created while we were leaving: take it away again.
    (Role.RESIGNED, Won): lambda state, _: (state, (RemoveNode(),)),
}
