"""The election machine: its table, and many candidates in every order of events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.ownership.election import (
    Announce,
    Beaten,
    CreateNode,
    Election,
    ReadNode,
    RemoveNode,
    Resign,
    Role,
    Seen,
    SessionLost,
    Stand,
    Won,
    advance,
)
from counterpoise.ownership.records import LeaderBroker

ME = LeaderBroker("b1:8080", "http://b1:8080")
OTHER = LeaderBroker("b2:8080", "http://b2:8080")

UNDECIDED = Election(ME)
LEADER = Election(ME, Role.LEADER, ME)
FOLLOWER = Election(ME, Role.FOLLOWER, OTHER)
RESIGNED = Election(ME, Role.RESIGNED)

TABLE = [
    (UNDECIDED, Stand(), UNDECIDED, (ReadNode(),)),
    (UNDECIDED, Seen(None), UNDECIDED, (CreateNode(ME),)),
    (UNDECIDED, Seen(OTHER), FOLLOWER, (Announce(OTHER, me=False),)),
    (UNDECIDED, Seen(ME, mine=True), LEADER, (Announce(ME, me=True),)),
    (UNDECIDED, Seen(ME, mine=False, version=3), UNDECIDED, (RemoveNode(3),)),
    (UNDECIDED, Won(), LEADER, (Announce(ME, me=True),)),
    (UNDECIDED, Beaten(), UNDECIDED, (ReadNode(),)),
    (UNDECIDED, SessionLost(), UNDECIDED, ()),
    (UNDECIDED, Resign(), RESIGNED, ()),
    (LEADER, Stand(), LEADER, (ReadNode(),)),
    (LEADER, Seen(ME, mine=True), LEADER, ()),
    (LEADER, Seen(None), UNDECIDED, (Announce(None, me=False), CreateNode(ME))),
    (LEADER, Seen(OTHER), FOLLOWER, (Announce(OTHER, me=False),)),
    (LEADER, SessionLost(), UNDECIDED, (Announce(None, me=False),)),
    (LEADER, Resign(), RESIGNED, (Announce(None, me=False), RemoveNode())),
    (FOLLOWER, Stand(), FOLLOWER, (ReadNode(),)),
    (FOLLOWER, Seen(OTHER), FOLLOWER, ()),
    (FOLLOWER, Seen(None), UNDECIDED, (Announce(None, me=False), CreateNode(ME))),
    (FOLLOWER, SessionLost(), UNDECIDED, (Announce(None, me=False),)),
    (FOLLOWER, Resign(), RESIGNED, (Announce(None, me=False),)),
    (RESIGNED, Stand(), RESIGNED, ()),
    (RESIGNED, Seen(None), RESIGNED, ()),
    (RESIGNED, Won(), RESIGNED, (RemoveNode(),)),
]


@pytest.mark.parametrize(("before", "record", "after", "effects"), TABLE)
def test_table(
    before: Election, record: object, after: Election, effects: tuple[object, ...]
) -> None:
    assert advance(before, record) == (after, effects)


class Candidates:
    """Brokers around one node, whose effects run in an order that a test chooses."""

    def __init__(self, count: int) -> None:
        ids = [LeaderBroker(f"b{number}:8080", "") for number in range(count)]
        self.states = [Election(each) for each in ids]
        self.node: tuple[LeaderBroker, int, int] | None = None
        self.sessions = [0] * count
        self.todo: list[tuple[int, object]] = []
        for number in range(count):
            self.feed(number, Stand())

    def feed(self, number: int, record: object) -> None:
        self.states[number], effects = advance(self.states[number], record)
        self.todo += [(number, effect) for effect in effects if not isinstance(effect, Announce)]

    def run(self, place: int) -> None:
        number, effect = self.todo.pop(place % len(self.todo))
        if isinstance(effect, ReadNode):
            if self.node is None:
                self.feed(number, Seen(None))
            else:
                leader, owner, session = self.node
                mine = owner == number and session == self.sessions[number]
                self.feed(number, Seen(leader, mine=mine))
        elif isinstance(effect, CreateNode):
            if self.node is None:
                self.node = (effect.value, number, self.sessions[number])
                self.notify()
                self.feed(number, Won())
            else:
                self.feed(number, Beaten())
        elif isinstance(effect, RemoveNode):
            self.node = None
            self.notify()
            self.feed(number, Stand())

    def lose_session(self, number: int) -> None:
        self.feed(number, SessionLost())
        if self.node is not None and self.node[1:] == (number, self.sessions[number]):
            self.node = None
            self.notify()
        self.sessions[number] += 1
        # What was on its way in the old session fails; the new one begins by looking.
        self.todo = [each for each in self.todo if each[0] != number]
        self.feed(number, Stand())

    def notify(self) -> None:
        for number in range(len(self.states)):
            self.feed(number, Stand())

    def leaders(self) -> list[int]:
        return [n for n, state in enumerate(self.states) if state.role is Role.LEADER]


@settings(max_examples=200, deadline=None)
@given(
    count=st.integers(1, 4),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 100)), max_size=60),
)
def test_in_the_end_exactly_one_leads_and_everybody_knows_it(
    count: int, steps: list[tuple[bool, int]]
) -> None:
    candidates = Candidates(count)
    for loses, choice in steps:
        if loses:
            candidates.lose_session(choice % count)
        elif candidates.todo:
            candidates.run(choice)
    for _ in range(500):
        if not candidates.todo:
            break
        candidates.run(0)
    assert not candidates.todo, "the candidates never come to rest"
    leaders = candidates.leaders()
    assert len(leaders) == 1
    assert candidates.node is not None
    assert candidates.node[1] == leaders[0]
    leader = candidates.states[leaders[0]].me
    assert all(state.leader == leader for state in candidates.states)
