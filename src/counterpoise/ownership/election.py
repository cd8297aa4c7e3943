"""Leader election by one ephemeral node (Pulsar's ``LeaderElectionImpl``), as a state table.

The broker that creates the node leads until the node vanishes, by the end of its session or because
it deletes the node. A broker that cannot know whether it still leads does not lead: it is notified
at once that its session is lost, and only a read of the node makes it leader again.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from counterpoise.ownership import events
from counterpoise.ownership.backoff import pause_s
from counterpoise.ownership.records import LeaderBroker, record_or_none

LEADER_NODE: Final = "/loadbalance/leader"
RESIGN_TRIES: Final = 4
"""Failed commands in a row after which a resigning leader leaves the node to its session's end."""


class Role(enum.Enum):
    """A broker's role in the leader election."""

    UNDECIDED = "undecided"
    LEADER = "leading"
    FOLLOWER = "following"
    RESIGNING = "resigning"
    RESIGNED = "resigned"


@dataclass(frozen=True, slots=True)
class Election:
    """The state of one broker in the leader election."""

    me: LeaderBroker
    role: Role = Role.UNDECIDED
    leader: LeaderBroker | None = None
    asking: bool = False
    """Whether a command on the leader node is in progress."""
    overtaken: bool = False
    """Whether another event came since the command: its result is ignored, the node read again."""
    failures: int = 0
    claimed: bool = False
    """Whether a leader node that names this broker, but is not of its session, belongs to another
    process.

    True once this session has created the node, or removed one that names this broker: then such a
    node cannot be left over from before a restart, and it is not removed again."""

    @property
    def leads(self) -> bool:
        """Whether this broker is the leader."""
        return self.role is Role.LEADER

    @property
    def in_progress(self) -> bool:
        """Whether a command's result or a timer is awaited."""
        return self.asking or self.role in (Role.UNDECIDED, Role.RESIGNING) or self.failures > 0


@dataclass(frozen=True, slots=True)
class JoinElection:
    """Event: take part in the election, or check it again because something may have changed."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """Event: the broker's session ended, and its ephemeral nodes with it."""


@dataclass(frozen=True, slots=True)
class LeaveElection:
    """Event: leave the election for good."""


_Next: TypeAlias = tuple[Election, events.Effects]
_Transition: TypeAlias = Callable[[Election, Any], _Next]


def advance(state: Election, event: object) -> _Next:
    """The next state and the effects of one event; raises `UnexpectedEvent`."""
    return events.step(TABLE, state.role, "leader election", state, event)


def _stay(state: Election, _: object) -> _Next:
    return state, ()


def _issue(state: Election, command: events.Command) -> _Next:
    return replace(state, asking=True, overtaken=False), (command,)


def _look(state: Election, _: object) -> _Next:
    if state.asking:
        return replace(state, overtaken=True), ()
    return _issue(state, events.ReadNode(LEADER_NODE))


def _look_now(state: Election, _: object) -> _Next:
    return _issue(state, events.ReadNode(LEADER_NODE))


def _believing(transition: _Transition) -> _Transition:
    """Wrap a transition for a result: if something happened since the command was issued, the node
    is read again instead.
    """

    def answered(state: Election, answer: Any) -> _Next:
        if state.overtaken:
            return _look_now(state, answer)
        return transition(state, answer)

    return answered


def _found(state: Election, answer: events.NodeFound) -> _Next:
    leader = record_or_none(LeaderBroker.from_json, answer.value)
    if answer.value is None:
        stands = replace(state, role=Role.UNDECIDED, leader=None)
        return _issue(stands, events.CreateNode(LEADER_NODE, state.me.to_json()))
    if answer.mine:
        return _decided(state, Role.LEADER, state.me)
    names_me = leader is not None and leader.broker_id == state.me.broker_id
    if leader is None or (names_me and not state.claimed):
        # An invalid record, or one from before this broker's restart, whose session has not timed
        # out.
        undecided = replace(
            state, role=Role.UNDECIDED, leader=None, claimed=state.claimed or names_me
        )
        return _issue(undecided, events.RemoveNode(LEADER_NODE, answer.version))
    # One that names this broker is another process's, by mistake: if each removed the other's node,
    # neither would ever do anything else.
    return _decided(state, Role.FOLLOWER, leader)


def _created(state: Election, _: events.NodeCreated) -> _Next:
    return _decided(state, Role.LEADER, state.me)


def _decided(state: Election, role: Role, leader: LeaderBroker | None) -> _Next:
    claimed = state.claimed or role is Role.LEADER
    return Election(state.me, role, leader, claimed=claimed), ()


def _failed(state: Election, _: events.CommandFailed) -> _Next:
    failures = state.failures + 1
    after = replace(state, asking=False, failures=failures)
    return after, (events.StartTimer(pause_s(failures)),)


def _session_lost(state: Election, _: SessionLost) -> _Next:
    after = replace(state, role=Role.UNDECIDED, leader=None, claimed=False)
    if after.asking:
        return replace(after, overtaken=True), ()
    # A new session is an event, after which the node is read; the timer is there in case it is
    # missed.
    failures = after.failures + 1
    return replace(after, failures=failures), (events.StartTimer(pause_s(failures)),)


# Leaving. The node is read first: a creation may be in progress, or its result may be lost.


def _resign(state: Election, _: LeaveElection) -> _Next:
    leaving = replace(state, role=Role.RESIGNING, leader=None, failures=0)
    if leaving.asking:
        return replace(leaving, overtaken=True), ()
    return (leaving, ()) if state.role is Role.RESIGNED else _look_now(leaving, LeaveElection())


def _left(state: Election, _: object) -> _Next:
    return Election(state.me, Role.RESIGNED), ()


def _found_on_leaving(state: Election, answer: events.NodeFound) -> _Next:
    if answer.mine:
        return _issue(state, events.RemoveNode(LEADER_NODE, answer.version))
    return _left(state, answer)


def _failed_on_leaving(state: Election, event: events.CommandFailed) -> _Next:
    return _left(state, event) if state.failures + 1 >= RESIGN_TRIES else _failed(state, event)


_ANSWERS: Final[dict[type, _Transition]] = {
    events.NodeFound: _believing(_found),
    events.NodeCreated: _believing(_created),
    events.NodeExists: _look_now,
    events.NodeRemoved: _look_now,
    events.VersionDiffers: _look_now,
    events.CommandFailed: _failed,
}
_ANY_TIME: Final[dict[type, _Transition]] = {
    JoinElection: _look,
    events.NodeChanged: _look,
    events.SessionChanged: _look,
    events.TimerFired: _look,
    SessionLost: _session_lost,
    LeaveElection: _resign,
}
_ON_LEAVING: Final[dict[type, _Transition]] = {
    **dict.fromkeys(_ANY_TIME, _stay),
    SessionLost: _left,
    events.TimerFired: _look,
    events.NodeFound: _believing(_found_on_leaving),
    events.NodeCreated: _look_now,
    events.NodeExists: _look_now,
    events.NodeRemoved: _left,
    events.VersionDiffers: _look_now,
    events.CommandFailed: _failed_on_leaving,
}
_ROWS: Final[dict[Role, dict[type, _Transition]]] = {
    **dict.fromkeys((Role.UNDECIDED, Role.LEADER, Role.FOLLOWER), _ANSWERS),
    Role.RESIGNING: _ON_LEAVING,
    # A result may still come after a lost session has ended the leaving, and deleted the node.
    Role.RESIGNED: dict.fromkeys({**_ANY_TIME, **_ANSWERS}, _stay),
}
TABLE: Final = events.table_of(_ROWS, _ANY_TIME)
