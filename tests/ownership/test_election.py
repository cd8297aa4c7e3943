"""The election machine: what it does in order, and everything that may come in between."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from counterpoise.ownership.election import (
    LEADER_NODE,
    RESIGN_TRIES,
    Election,
    Resign,
    Role,
    SessionLost,
    Stand,
    advance,
)
from counterpoise.ownership.port import (
    Change,
    Created,
    CreateNode,
    Differs,
    Exists,
    Failed,
    Found,
    NodeChanged,
    Question,
    ReadNode,
    Removed,
    RemoveNode,
    SessionChanged,
    WakeMe,
    Woken,
)
from counterpoise.ownership.records import LeaderBroker
from tests.ownership.exploring import explore

ME = LeaderBroker("b1:8080", "http://b1:8080")
OTHER = LeaderBroker("b2:8080", "http://b2:8080")
BEGIN = Election(ME)
LEADER = Election(ME, Role.LEADER, ME)
FOLLOWER = Election(ME, Role.FOLLOWER, OTHER)
RESIGNED = Election(ME, Role.RESIGNED)
GONE = NodeChanged(LEADER_NODE, Change.VANISHED)
READ, CREATE = ReadNode(LEADER_NODE), CreateNode(LEADER_NODE, ME.to_json())
NOBODY = Found(None)
THE_OTHER = Found(OTHER.to_json(), 3)
MINE = Found(ME.to_json(), 0, mine=True)
FORMER = Found(ME.to_json(), 4)

R = Role
WHAT_HAPPENS = {
    "the first": (
        BEGIN,
        (Stand(), R.UNDECIDED, (READ,)),
        (NOBODY, R.UNDECIDED, (CREATE,)),
        (Created(0), R.LEADER, ()),
    ),
    "the second": (
        BEGIN,
        (Stand(), R.UNDECIDED, (READ,)),
        (NOBODY, R.UNDECIDED, (CREATE,)),
        (Exists(), R.UNDECIDED, (READ,)),
        (THE_OTHER, R.FOLLOWER, ()),
    ),
    "a follower whose leader goes": (
        FOLLOWER,
        (GONE, R.FOLLOWER, (READ,)),
        (NOBODY, R.UNDECIDED, (CREATE,)),
        (Created(0), R.LEADER, ()),
    ),
    "one that was elected, though nobody said so": (
        BEGIN,
        (Stand(), R.UNDECIDED, (READ,)),
        (NOBODY, R.UNDECIDED, (CREATE,)),
        (Failed("away"), R.UNDECIDED, (WakeMe(0.05),)),
        (Woken(), R.UNDECIDED, (READ,)),
        (MINE, R.LEADER, ()),
    ),
    "a node of a former life": (
        BEGIN,
        (Stand(), R.UNDECIDED, (READ,)),
        (FORMER, R.UNDECIDED, (RemoveNode(LEADER_NODE, 4),)),
        (Removed(), R.UNDECIDED, (READ,)),
    ),
    "a node that is no record": (
        BEGIN,
        (Stand(), R.UNDECIDED, (READ,)),
        (Found(b"[", 1), R.UNDECIDED, (RemoveNode(LEADER_NODE, 1),)),
    ),
    "a leader that lost its session is none before it asks": (
        LEADER,
        (SessionLost(), R.UNDECIDED, (WakeMe(0.05),)),
        (SessionChanged(), R.UNDECIDED, (READ,)),
        (THE_OTHER, R.FOLLOWER, ()),
    ),
    "an answer from a lost session elects nobody": (
        BEGIN,
        (Stand(), R.UNDECIDED, (READ,)),
        (NOBODY, R.UNDECIDED, (CREATE,)),
        (SessionLost(), R.UNDECIDED, ()),
        (Created(0), R.UNDECIDED, (READ,)),
        (THE_OTHER, R.FOLLOWER, ()),
    ),
    "a leader that resigns": (
        LEADER,
        (Resign(), R.RESIGNING, (READ,)),
        (MINE, R.RESIGNING, (RemoveNode(LEADER_NODE, 0),)),
        (Removed(), R.RESIGNED, ()),
    ),
    "a leader that resigns when somebody else leads already": (
        LEADER,
        (Resign(), R.RESIGNING, (READ,)),
        (THE_OTHER, R.RESIGNED, ()),
    ),
    "one that resigns while its node is created": (
        BEGIN,
        (Stand(), R.UNDECIDED, (READ,)),
        (NOBODY, R.UNDECIDED, (CREATE,)),
        (Resign(), R.RESIGNING, ()),
        (Created(0), R.RESIGNING, (READ,)),
        (MINE, R.RESIGNING, (RemoveNode(LEADER_NODE, 0),)),
        (Removed(), R.RESIGNED, ()),
    ),
    "one that resigns while it looks, looks again": (
        BEGIN,
        (Stand(), R.UNDECIDED, (READ,)),
        (Resign(), R.RESIGNING, ()),
        (NOBODY, R.RESIGNING, (READ,)),
        (MINE, R.RESIGNING, (RemoveNode(LEADER_NODE, 0),)),
    ),
    "one that has left": (RESIGNED, (GONE, R.RESIGNED, ()), (Resign(), R.RESIGNED, ())),
}


@pytest.mark.parametrize("story", WHAT_HAPPENS)
def test_what_happens_to(story: str) -> None:
    state, *steps = WHAT_HAPPENS[story]
    for record, role, effects in steps:
        state, out = advance(state, record)
        assert (state.role, out) == (role, effects), record


def test_one_that_resigns_does_not_wait_for_a_store_for_ever() -> None:
    state, _ = advance(LEADER, Resign())
    for _ in range(RESIGN_TRIES - 1):
        state, (alarm,) = advance(state, Failed("away"))
        assert isinstance(alarm, WakeMe)
        state, _ = advance(state, Woken())
    assert advance(state, Failed("away")) == (RESIGNED, ())


def answers(question: Question) -> Iterable[object]:
    match question:
        case CreateNode():
            return Created(0), Exists()
        case ReadNode():
            return NOBODY, THE_OTHER, MINE, FORMER, Found(b"[")
        case RemoveNode():
            return Removed(), Differs()
    raise AssertionError(question)


def test_whatever_comes_it_never_waits_for_nothing() -> None:
    reached = explore(
        Election(ME, Role.FOLLOWER, OTHER),
        advance,
        [Stand(), GONE, SessionChanged(), SessionLost(), Resign()],
        answers,
        lambda state: state.passing,
    )
    assert {place.state.role for place in reached} == set(Role)
    for place, (before, record) in reached.items():
        if place.state.leads and not before.state.leads:
            assert isinstance(record, Created | Found), (before, record)
            assert not before.state.overtaken, (before, record)
        assert place.state.leads is (place.state.leader == ME)
        if place.state.role is not Role.RESIGNED:
            assert place.state.asking is (place.question is not None)
