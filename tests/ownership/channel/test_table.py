"""One broker and one bundle's record: what the table makes of orders, answers and failures."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from counterpoise.ownership.channel.data import State, StateData
from counterpoise.ownership.channel.protocol import StateChannel
from counterpoise.ownership.channel.state import ChannelBundle
from counterpoise.ownership.channel.transitions import Storage, refusal
from counterpoise.ownership.port import (
    Acquire,
    CatchUp,
    Change,
    Created,
    Differs,
    Drain,
    Drained,
    Failed,
    Found,
    HeirReady,
    LetGo,
    NodeChanged,
    Prepare,
    Question,
    ReadNode,
    Release,
    Removed,
    RemoveNode,
    Replaced,
    SessionChanged,
    Split,
    TellHeir,
    Terms,
    WakeMe,
    Woken,
    WriteRecord,
)
from counterpoise.ownership.records import NamespaceEphemeralData
from tests.ownership.channel.records import A, B, C, record

NAME = "public/default/0x00000000_0x80000000"
CHANGED = NodeChanged(f"/service_unit_state/{NAME}", Change.APPEARED)
GONE = NodeChanged(f"/service_unit_state/{NAME}", Change.VANISHED)


@dataclass
class World:
    """Broker A's machine, and the node that it shares with everybody."""

    value: StateData | None = None
    version: int = 0
    garbled: bool = False
    """What stands there is no record."""
    failing: bool = False
    drains: list[str | None] = field(default_factory=list)
    asked: list[Question] = field(default_factory=list)
    alarm: bool = False
    prepares: int = 0
    told: int = 0

    def __post_init__(self) -> None:
        me = NamespaceEphemeralData("pulsar://a:6650", f"http://{A}")
        self.protocol = StateChannel(Terms(me), lambda: 7)
        self.state: ChannelBundle = self.protocol.new(NAME)

    def write(self, data: StateData | None) -> None:
        """Somebody writes the node."""
        self.value, self.version = data, self.version + 1

    def feed(self, record: object) -> None:
        self.state, effects = self.protocol.advance(self.state, record)
        for effect in effects:
            if isinstance(effect, WakeMe):
                self.alarm = True
            elif isinstance(effect, Prepare):
                self.prepares += 1
            elif isinstance(effect, TellHeir):
                self.told += 1
            else:
                assert isinstance(effect, Question)
                self.asked.append(effect)
        assert len(self.asked) <= 1, "one question at a time"
        assert not self.state.passing or self.asked or self.alarm, "it waits for nothing"

    def answer(self) -> None:
        """Answer the open question, or ring the alarm."""
        if not self.asked:
            self.alarm = False
            self.feed(Woken())
            return
        question = self.asked.pop()
        if isinstance(question, Drain):
            self.drains.append(question.destination)
        self.feed(Failed("injected") if self.failing else self._answer_to(question))

    def _answer_to(self, question: Question) -> object:
        match question:
            case ReadNode():
                value = None if self.value is None else self.value.to_json()
                value = b"nonsense" if self.garbled else value
                return Found(value, self.version)
            case WriteRecord(_, value, version):
                there = self.garbled or self.value is not None
                if version != (self.version if there else None):
                    return Differs()
                after = StateData.from_json(value)
                assert refusal(self.value, after, Storage.METADATA_STORE) is None
                self.write(after)
                return Created(self.version)
            case RemoveNode(_, version):
                if version != self.version:
                    return Differs()
                self.write(None)
                return Removed()
        return Drained()

    def settle(self) -> None:
        """Answer whatever is asked until nothing is."""
        for _ in range(100):
            if not self.state.passing:
                return
            self.answer()
        raise AssertionError(f"it never rests: {self.state}")

    def owned(self) -> None:
        self.feed(Acquire())
        self.settle()
        assert self.state.serves


def test_a_bundle_is_taken_in_two_records() -> None:
    world = World()
    world.feed(Acquire())
    world.answer()
    world.answer()
    assert world.value == StateData(State.ASSIGNING, A, timestamp_ms=7, version=1)
    assert world.state.settling
    assert not world.state.serves
    world.answer()
    assert world.value == StateData(State.OWNED, A, timestamp_ms=7, version=2)
    assert (world.state.serves, world.state.holds, world.state.passing) == (True, True, False)


def test_of_two_that_take_a_bundle_one_finds_it_taken() -> None:
    world = World()
    world.feed(Acquire())
    world.answer()
    world.write(record(State.ASSIGNING, B))
    world.settle()
    assert world.value == record(State.ASSIGNING, B)
    assert not world.state.serves
    assert world.state.forgettable


def test_a_transfer_at_its_source() -> None:
    world = World()
    world.owned()
    world.feed(Release(B))
    assert not world.state.serves, "no topic is opened any more"
    assert world.state.holds, "those that are open are closed in order"
    world.answer()
    assert world.value is not None
    assert world.value.state is State.RELEASING
    assert world.state.holds, "topics stay open until the heir is ready"
    assert world.drains == []
    world.feed(HeirReady())
    world.answer()
    assert world.value == StateData(State.ASSIGNING, B, A, timestamp_ms=7, version=4)
    assert world.state.passing, "the heir is waited for"
    assert world.state.holds, "nobody waits for the store while topics are open nowhere"
    assert world.drains == []
    world.write(record(State.OWNED, B, A, version=5))
    world.feed(CHANGED)
    world.answer()
    assert not world.state.holds
    assert world.told == 0
    world.answer()
    assert world.drains == [B]
    assert world.told == 1, "the heir hears that all is closed"
    assert world.state.forgettable


def test_a_source_closes_first_if_its_heir_is_late() -> None:
    world = World()
    world.owned()
    world.feed(Release(B))
    world.answer()
    world.answer()
    world.answer()
    assert world.drains == [B]
    assert not world.state.holds
    world.answer()
    assert world.value == StateData(State.ASSIGNING, B, A, timestamp_ms=7, version=4)
    assert world.state.passing


def test_a_ready_heir_that_does_not_come_is_not_waited_for_with_open_topics() -> None:
    world = World()
    world.owned()
    world.feed(Release(B))
    world.answer()
    world.feed(HeirReady())
    world.answer()
    assert (world.asked, world.state.holds) == ([], True)
    world.settle()
    assert (world.drains, world.state.holds, world.state.forgettable) == ([B], False, True)


def test_an_heir_that_is_never_ready_is_not_waited_for_twice() -> None:
    world = World()
    world.owned()
    world.feed(Release(B))
    world.answer()
    world.feed(CHANGED)
    world.answer()
    assert (world.asked, world.drains) == ([], [])
    world.answer()
    world.failing = True
    world.answer()
    world.failing = False
    world.settle()
    assert world.drains == [B, B]


def test_an_heir_may_be_ready_before_our_own_write_is_answered() -> None:
    world = World()
    world.owned()
    world.feed(Release(B))
    world.feed(HeirReady())
    world.answer()
    world.answer()
    assert world.value is not None
    assert world.value.state is State.ASSIGNING
    assert (world.drains, world.state.holds) == ([], True)


def test_a_readiness_of_a_former_move_is_no_readiness_for_the_next() -> None:
    world = World()
    world.owned()
    world.feed(HeirReady())
    world.feed(Release(B))
    world.answer()
    assert world.asked == []
    assert world.state.passing


def test_a_bundle_taken_by_force_meanwhile_is_closed_at_once() -> None:
    world = World()
    world.owned()
    world.feed(Release(B))
    world.answer()
    world.write(record(State.OWNED, C, A, version=9, force=True))
    world.feed(CHANGED)
    world.settle()
    assert world.drains == [C]


def test_a_source_does_not_wait_for_ever() -> None:
    world = World()
    world.owned()
    world.feed(Release(B))
    world.settle()
    assert world.value is not None
    assert world.value.state is State.ASSIGNING
    assert world.state.forgettable


def test_a_transfer_at_its_heir() -> None:
    world = World(record(State.RELEASING, A, B, version=3), 3)
    world.feed(CHANGED)
    world.answer()
    assert world.state.settling, "clients that come are to wait"
    assert world.prepares == 1
    world.feed(CatchUp())
    world.answer()
    assert world.prepares == 1, "once for each record, however many clients come"
    world.write(record(State.ASSIGNING, A, B, version=4))
    world.feed(CHANGED)
    world.answer()
    assert not world.state.inheriting
    world.answer()
    assert world.value == StateData(State.OWNED, A, B, timestamp_ms=7, version=5)
    assert not world.state.serves, "its former owner may have topics of it open"
    assert (world.state.inheriting, world.state.holds, world.state.settling) == (True, True, True)
    world.feed(LetGo())
    assert not world.state.inheriting
    assert world.state.serves


def inheriting() -> World:
    world = World(record(State.ASSIGNING, A, B, version=4), 4)
    world.feed(CHANGED)
    world.answer()
    world.answer()
    assert world.state.inheriting
    return world


def test_a_former_owner_that_takes_too_long_is_not_waited_for() -> None:
    world = inheriting()
    world.answer()
    assert world.state.serves
    assert not world.state.passing


def test_a_former_owner_may_be_done_before_our_own_write_is_answered() -> None:
    world = World(record(State.ASSIGNING, A, B, version=4), 4)
    world.feed(CHANGED)
    world.answer()
    world.feed(LetGo())
    world.answer()
    assert world.state.serves


def test_that_a_former_move_is_over_says_nothing_of_the_next() -> None:
    world = World(record(State.ASSIGNING, A, B, version=4), 4)
    world.feed(CHANGED)
    world.feed(LetGo())
    world.answer()
    world.answer()
    assert world.state.inheriting


def test_an_heir_in_doubt_goes_on_inheriting_when_the_record_was_seen() -> None:
    world = inheriting()
    world.feed(SessionChanged())
    assert (world.state.inheriting, world.state.holds, world.state.settling) == (False, True, True)
    world.answer()
    assert world.state.inheriting
    world.settle()
    assert world.state.serves


def test_an_heir_that_loses_the_bundle_closes_what_it_opened_early() -> None:
    world = inheriting()
    world.write(record(State.OWNED, C, A, version=9, force=True))
    world.feed(CHANGED)
    world.settle()
    assert (world.drains, world.state.inheriting, world.state.forgettable) == ([C], False, True)


def test_an_unload_without_a_destination_leaves_it_free() -> None:
    world = World()
    world.owned()
    world.feed(Release(None))
    world.settle()
    assert world.value == StateData(State.FREE, None, A, timestamp_ms=7, version=4)
    assert (world.drains, world.state.forgettable) == ([None], True)
    world.owned()


def test_an_unload_to_itself_closes_topics_and_serves_again() -> None:
    world = World()
    world.owned()
    before = world.value
    world.feed(Release(A))
    assert world.state.settling
    world.settle()
    assert (world.drains, world.value, world.state.serves) == ([A], before, True)


def test_a_bundle_that_was_split_is_buried_with_its_topics_open() -> None:
    world = World()
    world.owned()
    world.feed(Replaced())
    world.settle()
    assert (world.value, world.drains, world.state.forgettable) == (None, [], True)


def test_a_bundle_taken_by_force_is_closed_and_its_clients_sent_on() -> None:
    world = World()
    world.owned()
    world.write(record(State.OWNED, C, A, version=3, force=True))
    world.feed(CHANGED)
    world.settle()
    assert (world.drains, world.state.holds, world.state.forgettable) == ([C], False, True)


def test_a_record_that_vanished_under_its_owner_closes_the_topics() -> None:
    world = World()
    world.owned()
    world.write(None)
    world.feed(GONE)
    world.settle()
    assert (world.drains, world.state.forgettable) == ([None], True)


def test_a_lost_session_is_a_doubt_until_the_record_was_seen() -> None:
    world = World()
    world.owned()
    world.feed(SessionChanged())
    assert (world.state.serves, world.state.holds, world.state.settling) == (False, True, True)
    world.settle()
    assert world.state.serves
    world.feed(SessionChanged())
    world.write(record(State.OWNED, B, A, version=3, force=True))
    world.settle()
    assert (world.state.serves, world.drains) == (False, [B])


def test_a_former_life_is_found_again_by_whoever_comes() -> None:
    world = World(record(State.OWNED, A, version=9), 1)
    world.feed(CatchUp())
    world.settle()
    assert world.state.serves


@pytest.mark.parametrize("order", [Release(B), Release(None), Release(A), Replaced()])
def test_what_fails_half_way_is_finished_when_it_can_be(order: object) -> None:
    for failing_step in range(6):
        world = World()
        world.owned()
        world.feed(order)
        for _ in range(failing_step):
            if world.asked:
                world.answer()
        world.failing = True
        for _ in range(4):
            world.answer()
        world.failing = False
        world.settle()
        at_rest = world.state.serves or world.state.forgettable
        assert at_rest, f"after {failing_step} steps: {world.state}"


def test_topics_that_will_not_close_keep_no_bundle() -> None:
    world = World()
    world.owned()
    world.feed(Release(B))
    world.answer()
    for _ in range(20):
        world.failing = bool(world.asked) and isinstance(world.asked[0], Drain)
        if world.value is not None and world.value.state is State.ASSIGNING:
            break
        world.answer()
    assert world.value is not None
    assert (world.value.state, world.value.destination) == (State.ASSIGNING, B)


def test_what_stands_there_and_is_no_record_is_written_over() -> None:
    world = World(version=4, garbled=True)
    world.feed(Acquire())
    world.answer()
    world.answer()
    world.garbled = False
    world.settle()
    assert world.state.serves


FOREIGN = [
    None,
    record(State.OWNED, B, A, version=50, force=True),
    record(State.OWNED, A, version=51),
    record(State.RELEASING, A, B, version=52),
    record(State.RELEASING, B, A, version=53),
    record(State.ASSIGNING, A, B, version=54),
    record(State.SPLITTING, None, A, version=55),
    record(State.DELETED, None, A, version=56),
    record(State.FREE, None, A, version=57, force=True),
    record(State.FREE, None, B, version=58),
]
HAPPENINGS = st.one_of(
    st.sampled_from(
        [
            *(Acquire(), Acquire(inherited=True), CatchUp(), Replaced()),
            *(Release(None), Release(A), Release(B), Split(("0x00000000_0x80000000",))),
        ]
    ),
    st.just(SessionChanged()),
    st.just(CHANGED),
    st.just(HeirReady()),
    st.just(LetGo()),
    st.just("answer"),
    st.just("answer"),
    st.just("fail"),
    st.sampled_from([("foreign", data) for data in FOREIGN]),
)


@given(st.lists(HAPPENINGS, max_size=40))
@example([Split(("0x00000000_0x80000000",)), ("foreign", record(State.OWNED, A, version=51))])
def test_whatever_happens_it_comes_to_rest_and_believes_the_record(
    happenings: list[object],
) -> None:
    world = World()
    for each in happenings:
        if each == "answer" or each == "fail":
            world.failing = each == "fail"
            world.answer()
        elif isinstance(each, tuple):
            world.write(each[1])
            world.feed(CHANGED if each[1] is not None else GONE)
        else:
            world.feed(each)
    world.failing = False
    world.settle()
    world.feed(CHANGED)
    world.settle()
    if world.value is not None and world.value.state is State.SPLITTING:
        # Who splits a bundle serves it until its parts have taken its place.
        world.feed(Replaced())
        world.settle()
    mine = world.value is not None and (
        world.value.state is State.OWNED and world.value.destination == A
    )
    assert world.state.serves == mine
    assert world.state.holds == mine


def test_an_answer_that_was_overtaken_is_not_believed() -> None:
    world = World()
    world.feed(CatchUp())
    old = Found(None)
    world.write(record(State.OWNED, A, version=2))
    world.feed(CHANGED)
    world.asked.pop()
    world.feed(old)
    world.settle()
    assert world.state.serves


def test_a_session_lost_while_topics_close_is_looked_into() -> None:
    world = World()
    world.owned()
    world.feed(Release(A))
    world.feed(SessionChanged())
    world.settle()
    assert world.state.serves
    world.feed(Release(A))
    world.feed(SessionChanged())
    world.write(record(State.OWNED, B, A, version=9, force=True))
    world.settle()
    assert not world.state.serves
