"""The bundle lock machine: its table, and several brokers in every order of events."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.ownership import lock
from counterpoise.ownership.lock import BundleLock, Phase, advance
from counterpoise.ownership.machine import ProtocolError

ME, OTHER = "b1:8080", "b2:8080"
FREE = BundleLock(ME)


def at(phase: Phase, destination: str | None = None) -> BundleLock:
    return replace(FREE, phase=phase, destination=destination)


TABLE = [
    (FREE, lock.Acquire(), at(Phase.ACQUIRING), (lock.CreateLock(),)),
    (at(Phase.ACQUIRING), lock.LockCreated(), at(Phase.OWNED), ()),
    (at(Phase.ACQUIRING), lock.LockTaken(), FREE, ()),
    # Hand-over: announce, drain, delete.
    (
        at(Phase.OWNED),
        lock.Release(OTHER),
        at(Phase.ANNOUNCING, OTHER),
        (lock.Announce(OTHER),),
    ),
    (
        at(Phase.ANNOUNCING, OTHER),
        lock.Announced(),
        at(Phase.DRAINING, OTHER),
        (lock.Drain(OTHER),),
    ),
    (at(Phase.DRAINING, OTHER), lock.Drained(), at(Phase.DELETING, OTHER), (lock.DeleteLock(),)),
    (at(Phase.DELETING, OTHER), lock.LockDeleted(), FREE, ()),
    # To itself: the lock is never let go.
    (at(Phase.DRAINING, ME), lock.Drained(), at(Phase.OWNED), (lock.Withdraw(),)),
    # The other side of a hand-over.
    (FREE, lock.Expect(), at(Phase.EXPECTED), ()),
    (at(Phase.EXPECTED), lock.LockVanished(), at(Phase.ACQUIRING), (lock.CreateLock(),)),
    (at(Phase.EXPECTED), lock.GiveUp(), FREE, ()),
    # A lost session.
    (at(Phase.OWNED), lock.Doubt(), at(Phase.DOUBTED), (lock.ReadLock(),)),
    (at(Phase.OWNED), lock.LockVanished(), at(Phase.DOUBTED), (lock.ReadLock(),)),
    (at(Phase.DOUBTED), lock.LockSeen(exists=True, mine=True), at(Phase.OWNED), ()),
    (
        at(Phase.DOUBTED),
        lock.LockSeen(exists=False, mine=False),
        at(Phase.DOUBTED),
        (lock.CreateLock(),),
    ),
    (at(Phase.DOUBTED), lock.LockSeen(exists=True, mine=False), FREE, (lock.DropTopics(),)),
    (at(Phase.DOUBTED), lock.LockTaken(), FREE, (lock.DropTopics(),)),
    # A split.
    (at(Phase.OWNED), lock.Replaced(), at(Phase.DELETING), (lock.DeleteLock(),)),
]


@pytest.mark.parametrize(("before", "record", "after", "effects"), TABLE)
def test_table(
    before: BundleLock, record: object, after: BundleLock, effects: tuple[object, ...]
) -> None:
    assert advance(before, record) == (after, effects)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize(
    "record",
    [
        lock.Acquire(),
        lock.Expect(),
        lock.LockVanished(),
        lock.GiveUp(),
        lock.Release(),
        lock.Doubt(),
    ],
)
def test_what_comes_from_outside_can_come_at_any_time(phase: Phase, record: object) -> None:
    advance(at(phase), record)


@pytest.mark.parametrize("phase", [Phase.ANNOUNCING, Phase.DRAINING, Phase.DELETING])
def test_nothing_interrupts_a_bundle_that_leaves(phase: Phase) -> None:
    for record in (lock.Acquire(), lock.Release(ME), lock.Doubt(), lock.LockVanished()):
        assert advance(at(phase, OTHER), record) == (at(phase, OTHER), ())


@pytest.mark.parametrize(
    ("phase", "record"),
    [
        (Phase.FREE, lock.Drained()),
        (Phase.OWNED, lock.LockDeleted()),
        (Phase.EXPECTED, lock.Announced()),
        (Phase.DRAINING, lock.LockCreated()),
    ],
)
def test_an_answer_to_nothing_is_a_protocol_error(phase: Phase, record: object) -> None:
    with pytest.raises(ProtocolError, match=type(record).__name__):
        advance(at(phase), record)


def test_who_serves_and_who_lets_clients_wait() -> None:
    assert {phase for phase in Phase if at(phase).serves} == {Phase.OWNED, Phase.DOUBTED}
    assert {phase for phase in Phase if at(phase, OTHER).settling} == {
        Phase.EXPECTED,
        Phase.ACQUIRING,
    }
    assert at(Phase.DRAINING, ME).settling, "a bundle that comes back is worth waiting for"


class Brokers:
    """Brokers around one lock node; a test chooses in which order their effects run."""

    def __init__(self, count: int) -> None:
        self.locks = [BundleLock(f"b{number}") for number in range(count)]
        self.holder: int | None = None
        self.open_topics: set[int] = set()
        self.todo: list[tuple[int, object]] = []

    def feed(self, number: int, record: object) -> None:
        # As in the broker: what follows from one record is over before the next one is taken.
        if any(each == number for each, _ in self.todo):
            return
        self.apply(number, record)

    def apply(self, number: int, record: object) -> None:
        self.locks[number], effects = advance(self.locks[number], record)
        self.todo += [(number, effect) for effect in effects]

    def run(self, place: int) -> None:
        number, effect = self.todo.pop(place % len(self.todo))
        match effect:
            case lock.CreateLock():
                free = self.holder is None
                if free:
                    self.holder = number
                self.apply(number, lock.LockCreated() if free else lock.LockTaken())
            case lock.Announce(destination):
                self.apply(number, lock.Announced())
                for other, state in enumerate(self.locks):
                    if state.me == destination and other != number:
                        self.feed(other, lock.Expect())
            case lock.Drain():
                self.open_topics.discard(number)
                self.apply(number, lock.Drained())
            case lock.DeleteLock():
                assert self.holder == number
                self.holder = None
                self.apply(number, lock.LockDeleted())
                for other in range(len(self.locks)):
                    self.feed(other, lock.LockVanished())
        if self.locks[number].serves:
            self.open_topics.add(number)


@settings(max_examples=300, deadline=None)
@given(
    count=st.integers(2, 4),
    steps=st.lists(
        st.tuples(st.sampled_from("arrrrrgw"), st.integers(0, 20), st.integers(0, 3)), max_size=60
    ),
)
def test_never_two_owners_and_the_named_successor_takes_over(
    count: int, steps: list[tuple[str, int, int]]
) -> None:
    brokers = Brokers(count)
    brokers.feed(0, lock.Acquire())
    for what, choice, target in steps:
        number = choice % count
        if what == "a":
            brokers.feed(number, lock.Acquire())
        elif what == "g":
            brokers.feed(number, lock.GiveUp())
        elif what == "w" and brokers.locks[number].phase is Phase.OWNED:
            brokers.feed(number, lock.Release(f"b{target % count}"))
        elif brokers.todo:
            brokers.run(choice)
        assert sum(each.serves for each in brokers.locks) <= 1
        assert len(brokers.open_topics) <= 1, "a topic is open on two brokers"
    while brokers.todo:
        brokers.run(0)
    owners = [number for number, each in enumerate(brokers.locks) if each.serves]
    assert owners == ([] if brokers.holder is None else [brokers.holder])


def test_a_hand_over_ends_at_the_named_broker() -> None:
    brokers = Brokers(3)
    brokers.feed(0, lock.Acquire())
    while brokers.todo:
        brokers.run(0)
    brokers.feed(0, lock.Release("b2"))
    while brokers.todo:
        brokers.run(0)
    assert [each.phase for each in brokers.locks] == [Phase.FREE, Phase.FREE, Phase.OWNED]
