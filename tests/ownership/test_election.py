"""The election machine: what it does in order, and everything that may come in between."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from counterpoise.ownership.election import (
    LEADER_NODE,
    RESIGN_TRIES,
    Election,
    JoinElection,
    LeaveElection,
    Role,
    SessionLost,
    advance,
)
from counterpoise.ownership.events import (
    Command,
    CommandFailed,
    CreateNode,
    NodeChange,
    NodeChanged,
    NodeCreated,
    NodeExists,
    NodeFound,
    NodeRemoved,
    ReadNode,
    RemoveNode,
    SessionChanged,
    StartTimer,
    TimerFired,
    VersionDiffers,
)
from counterpoise.ownership.records import LeaderBroker
from tests.ownership.exploring import explore

ME = LeaderBroker("b1:8080", "http://b1:8080")
OTHER = LeaderBroker("b2:8080", "http://b2:8080")
BEGIN = Election(ME)
LEADER = Election(ME, Role.LEADER, ME)
FOLLOWER = Election(ME, Role.FOLLOWER, OTHER)
RESIGNED = Election(ME, Role.RESIGNED)
GONE = NodeChanged(LEADER_NODE, NodeChange.VANISHED)
READ, CREATE = ReadNode(LEADER_NODE), CreateNode(LEADER_NODE, ME.to_json())
NO_NODE = NodeFound(None)
THE_OTHER = NodeFound(OTHER.to_json(), 3)
MINE = NodeFound(ME.to_json(), 0, mine=True)
FORMER = NodeFound(ME.to_json(), 4)

R = Role
WHAT_HAPPENS = {
    "the first": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (NO_NODE, R.UNDECIDED, (CREATE,)),
        (NodeCreated(0), R.LEADER, ()),
    ),
    "the second": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (NO_NODE, R.UNDECIDED, (CREATE,)),
        (NodeExists(), R.UNDECIDED, (READ,)),
        (THE_OTHER, R.FOLLOWER, ()),
    ),
    "a follower whose leader goes": (
        FOLLOWER,
        (GONE, R.FOLLOWER, (READ,)),
        (NO_NODE, R.UNDECIDED, (CREATE,)),
        (NodeCreated(0), R.LEADER, ()),
    ),
    "a broker that was elected, though the answer was lost": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (NO_NODE, R.UNDECIDED, (CREATE,)),
        (CommandFailed("away"), R.UNDECIDED, (StartTimer(0.05),)),
        (TimerFired(), R.UNDECIDED, (READ,)),
        (MINE, R.LEADER, ()),
    ),
    "a node of a former life": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (FORMER, R.UNDECIDED, (RemoveNode(LEADER_NODE, 4),)),
        (NodeRemoved(), R.UNDECIDED, (READ,)),
    ),
    "a node that is no record": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (NodeFound(b"[", 1), R.UNDECIDED, (RemoveNode(LEADER_NODE, 1),)),
    ),
    "a leader that lost its session is none before it asks": (
        LEADER,
        (SessionLost(), R.UNDECIDED, (StartTimer(0.05),)),
        (SessionChanged(), R.UNDECIDED, (READ,)),
        (THE_OTHER, R.FOLLOWER, ()),
    ),
    "an answer from a lost session elects no leader": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (NO_NODE, R.UNDECIDED, (CREATE,)),
        (SessionLost(), R.UNDECIDED, ()),
        (NodeCreated(0), R.UNDECIDED, (READ,)),
        (THE_OTHER, R.FOLLOWER, ()),
    ),
    "a leader that resigns": (
        LEADER,
        (LeaveElection(), R.RESIGNING, (READ,)),
        (MINE, R.RESIGNING, (RemoveNode(LEADER_NODE, 0),)),
        (NodeRemoved(), R.RESIGNED, ()),
    ),
    "a leader that resigns when another leads already": (
        LEADER,
        (LeaveElection(), R.RESIGNING, (READ,)),
        (THE_OTHER, R.RESIGNED, ()),
    ),
    "one that resigns while its node is created": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (NO_NODE, R.UNDECIDED, (CREATE,)),
        (LeaveElection(), R.RESIGNING, ()),
        (NodeCreated(0), R.RESIGNING, (READ,)),
        (MINE, R.RESIGNING, (RemoveNode(LEADER_NODE, 0),)),
        (NodeRemoved(), R.RESIGNED, ()),
    ),
    "one that resigns while it looks, looks again": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (LeaveElection(), R.RESIGNING, ()),
        (NO_NODE, R.RESIGNING, (READ,)),
        (MINE, R.RESIGNING, (RemoveNode(LEADER_NODE, 0),)),
    ),
    "one that has left": (RESIGNED, (GONE, R.RESIGNED, ()), (LeaveElection(), R.RESIGNED, ())),
}


@pytest.mark.parametrize("story", WHAT_HAPPENS)
def test_what_happens_to(story: str) -> None:
    state, *steps = WHAT_HAPPENS[story]
    for record, role, effects in steps:
        state, out = advance(state, record)
        assert (state.role, out) == (role, effects), record


def test_one_that_resigns_does_not_wait_for_a_store_for_ever() -> None:
    state, _ = advance(LEADER, LeaveElection())
    for _ in range(RESIGN_TRIES - 1):
        state, (alarm,) = advance(state, CommandFailed("away"))
        assert isinstance(alarm, StartTimer)
        state, _ = advance(state, TimerFired())
    assert advance(state, CommandFailed("away")) == (RESIGNED, ())


def answers(question: Command) -> Iterable[object]:
    match question:
        case CreateNode():
            return NodeCreated(0), NodeExists()
        case ReadNode():
            return NO_NODE, THE_OTHER, MINE, FORMER, NodeFound(b"[")
        case RemoveNode():
            return NodeRemoved(), VersionDiffers()
    raise AssertionError(question)


def test_whatever_comes_it_never_waits_for_nothing() -> None:
    reached = explore(
        Election(ME, Role.FOLLOWER, OTHER),
        advance,
        [JoinElection(), GONE, SessionChanged(), SessionLost(), LeaveElection()],
        answers,
        lambda state: state.in_progress,
    )
    assert {place.state.role for place in reached} == set(Role)
    for place, (before, record) in reached.items():
        if place.state.leads and not before.state.leads:
            assert isinstance(record, NodeCreated | NodeFound), (before, record)
            assert not before.state.overtaken, (before, record)
        assert place.state.leads is (place.state.leader == ME)
        if place.state.role is not Role.RESIGNED:
            assert place.state.asking is (place.question is not None)
