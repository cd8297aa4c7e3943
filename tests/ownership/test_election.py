"""The election machine: what it does in order, and everything that may come in between."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from counterpoise.ownership import events
from counterpoise.ownership.backoff import pause_s
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
from counterpoise.ownership.records import LeaderBroker
from tests.ownership.exploring import explore

ME = LeaderBroker("b1:8080", "http://b1:8080")
OTHER = LeaderBroker("b2:8080", "http://b2:8080")
BEGIN = Election(ME)
LEADER = Election(ME, Role.LEADER, ME, claimed=True)
FOLLOWER = Election(ME, Role.FOLLOWER, OTHER)
RESIGNED = Election(ME, Role.RESIGNED)
GONE = events.NodeChanged(LEADER_NODE, events.NodeChange.VANISHED)
READ, CREATE = events.ReadNode(LEADER_NODE), events.CreateNode(LEADER_NODE, ME.to_json())
NO_NODE = events.NodeFound(None)
THE_OTHER = events.NodeFound(OTHER.to_json(), 3)
MINE = events.NodeFound(ME.to_json(), 0, mine=True)
FORMER = events.NodeFound(ME.to_json(), 4)

R = Role
WHAT_HAPPENS = {
    "the first": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (NO_NODE, R.UNDECIDED, (CREATE,)),
        (events.NodeCreated(0), R.LEADER, ()),
    ),
    "the second": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (NO_NODE, R.UNDECIDED, (CREATE,)),
        (events.NodeExists(), R.UNDECIDED, (READ,)),
        (THE_OTHER, R.FOLLOWER, ()),
    ),
    "a follower whose leader goes": (
        FOLLOWER,
        (GONE, R.FOLLOWER, (READ,)),
        (NO_NODE, R.UNDECIDED, (CREATE,)),
        (events.NodeCreated(0), R.LEADER, ()),
    ),
    "a broker whose session is lost again before there is another": (
        LEADER,
        (SessionLost(), R.UNDECIDED, (events.StartTimer(pause_s(1)),)),
        (SessionLost(), R.UNDECIDED, (events.StartTimer(pause_s(2)),)),
        (events.TimerFired(), R.UNDECIDED, (READ,)),
        (THE_OTHER, R.FOLLOWER, ()),
    ),
    "a broker whose store has been away for a day": (
        replace(FOLLOWER, failures=40_000),
        (events.TimerFired(), R.FOLLOWER, (READ,)),
        (events.CommandFailed("away"), R.FOLLOWER, (events.StartTimer(2.0),)),
    ),
    "one that resigns after failures has all its tries": (
        replace(FOLLOWER, failures=RESIGN_TRIES - 1),
        (LeaveElection(), R.RESIGNING, (READ,)),
        (events.CommandFailed("away"), R.RESIGNING, (events.StartTimer(pause_s(1)),)),
    ),
    "a broker that was elected, though the answer was lost": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (NO_NODE, R.UNDECIDED, (CREATE,)),
        (events.CommandFailed("away"), R.UNDECIDED, (events.StartTimer(0.05),)),
        (events.TimerFired(), R.UNDECIDED, (READ,)),
        (MINE, R.LEADER, ()),
    ),
    "a node of a former life": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (FORMER, R.UNDECIDED, (events.RemoveNode(LEADER_NODE, 4),)),
        (events.NodeRemoved(), R.UNDECIDED, (READ,)),
    ),
    "nodes of another process with its name: it removes one that may be its own": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (FORMER, R.UNDECIDED, (events.RemoveNode(LEADER_NODE, 4),)),
        (events.NodeRemoved(), R.UNDECIDED, (READ,)),
        (FORMER, R.FOLLOWER, ()),
        (GONE, R.FOLLOWER, (READ,)),
        (NO_NODE, R.UNDECIDED, (CREATE,)),
        (events.NodeCreated(0), R.LEADER, ()),
        (GONE, R.LEADER, (READ,)),
        (FORMER, R.FOLLOWER, ()),
    ),
    "in a new session it may find a node of the last one": (
        LEADER,
        (SessionLost(), R.UNDECIDED, (events.StartTimer(pause_s(1)),)),
        (events.SessionChanged(), R.UNDECIDED, (READ,)),
        (FORMER, R.UNDECIDED, (events.RemoveNode(LEADER_NODE, 4),)),
    ),
    "a node that is no record": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (events.NodeFound(b"[", 1), R.UNDECIDED, (events.RemoveNode(LEADER_NODE, 1),)),
    ),
    "a leader that lost its session is none before it asks": (
        LEADER,
        (SessionLost(), R.UNDECIDED, (events.StartTimer(0.05),)),
        (events.SessionChanged(), R.UNDECIDED, (READ,)),
        (THE_OTHER, R.FOLLOWER, ()),
    ),
    "an answer from a lost session elects no leader": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (NO_NODE, R.UNDECIDED, (CREATE,)),
        (SessionLost(), R.UNDECIDED, ()),
        (events.NodeCreated(0), R.UNDECIDED, (READ,)),
        (THE_OTHER, R.FOLLOWER, ()),
    ),
    "a leader that resigns": (
        LEADER,
        (LeaveElection(), R.RESIGNING, (READ,)),
        (MINE, R.RESIGNING, (events.RemoveNode(LEADER_NODE, 0),)),
        (events.NodeRemoved(), R.RESIGNED, ()),
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
        (events.NodeCreated(0), R.RESIGNING, (READ,)),
        (MINE, R.RESIGNING, (events.RemoveNode(LEADER_NODE, 0),)),
        (events.NodeRemoved(), R.RESIGNED, ()),
    ),
    "one that resigns while it looks, looks again": (
        BEGIN,
        (JoinElection(), R.UNDECIDED, (READ,)),
        (LeaveElection(), R.RESIGNING, ()),
        (NO_NODE, R.RESIGNING, (READ,)),
        (MINE, R.RESIGNING, (events.RemoveNode(LEADER_NODE, 0),)),
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
        state, (alarm,) = advance(state, events.CommandFailed("away"))
        assert isinstance(alarm, events.StartTimer)
        state, _ = advance(state, events.TimerFired())
    assert advance(state, events.CommandFailed("away")) == (RESIGNED, ())


def answers(question: events.Command) -> Iterable[object]:
    match question:
        case events.CreateNode():
            return events.NodeCreated(0), events.NodeExists()
        case events.ReadNode():
            return NO_NODE, THE_OTHER, MINE, FORMER, events.NodeFound(b"[")
        case events.RemoveNode():
            return events.NodeRemoved(), events.VersionDiffers()
    raise AssertionError(question)


def test_whatever_comes_it_never_waits_for_nothing() -> None:
    reached = explore(
        Election(ME, Role.FOLLOWER, OTHER),
        advance,
        [JoinElection(), GONE, events.SessionChanged(), SessionLost(), LeaveElection()],
        answers,
        lambda state: state.in_progress,
    )
    assert {place.state.role for place in reached} == set(Role)
    for place, (before, record) in reached.items():
        if place.state.leads and not before.state.leads:
            assert isinstance(record, events.NodeCreated | events.NodeFound), (before, record)
            assert not before.state.overtaken, (before, record)
        # Another process with this broker's name leads, too.
        names_me = place.state.leader == ME
        assert names_me is (place.state.leads or (names_me and place.state.claimed))
        if place.state.role is not Role.RESIGNED:
            assert place.state.asking is (place.question is not None)
