"""One broker and one bundle's record: what the table makes of orders, answers and failures."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from counterpoise.ownership import events
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.table import TRIES
from tests.ownership.channel.records import A, B, C, record
from tests.ownership.channel.world import CHANGED, World, owner


def test_a_bundle_is_taken_in_two_records() -> None:
    world = World()
    world.feed(events.Acquire())
    world.answer(2)
    assert world.value == ServiceUnitStateData(
        ServiceUnitState.ASSIGNING, A, timestamp_ms=7, version=1
    )
    assert world.state.undecided
    assert not world.state.serves
    world.answer()
    assert world.value == ServiceUnitStateData(ServiceUnitState.OWNED, A, timestamp_ms=7, version=2)
    assert (world.state.serves, world.state.holds, world.state.in_progress) == (True, True, False)


def test_an_owner_serves_while_it_looks_at_its_record() -> None:
    world = owner()
    world.feed(CHANGED)
    assert (world.state.in_progress, world.state.serves, world.state.undecided) == (
        True,
        True,
        False,
    )


def test_whatever_it_hears_of_others_bundles_keeps_no_client_waiting() -> None:
    world = World(record(ServiceUnitState.OWNED, B))
    world.feed(CHANGED)
    assert not world.state.undecided
    world.settle()
    assert world.state.forgettable


def test_clients_wait_while_a_record_is_read_after_the_session_was_interrupted() -> None:
    """What it was, and that there was none, may have changed meanwhile."""
    for before in (None, record(ServiceUnitState.OWNED, B), record(ServiceUnitState.FREE, by=B)):
        world = World(before)
        world.feed(CHANGED)
        world.settle()
        world.feed(events.SessionChanged())
        assert (world.state.in_progress, world.state.undecided) == (True, True)
        world.settle()
        assert not world.state.undecided


def test_of_two_that_take_a_bundle_one_finds_it_taken() -> None:
    world = World()
    world.feed(events.Acquire())
    world.answer()
    world.write(record(ServiceUnitState.ASSIGNING, B))
    world.settle()
    assert world.value == record(ServiceUnitState.ASSIGNING, B)
    assert not world.state.serves
    assert world.state.forgettable


def test_an_unload_without_a_destination_leaves_it_free() -> None:
    world = owner()
    world.feed(events.Release(None))
    world.settle()
    assert world.value == ServiceUnitStateData(
        ServiceUnitState.FREE, None, A, timestamp_ms=7, version=4
    )
    assert (world.drains, world.state.forgettable) == ([None], True)
    world.owned()


def test_an_unload_to_itself_closes_topics_and_serves_again() -> None:
    world = owner()
    before = world.value
    world.feed(events.Release(A))
    assert world.state.undecided
    world.settle()
    assert (world.drains, world.value, world.state.serves) == ([A], before, True)


def test_a_split_of_before_a_restart_is_remembered_until_it_is_finished() -> None:
    parts = ("0x00000000_0x40000000", "0x40000000_0x80000000")
    world = World(
        replace(record(ServiceUnitState.SPLITTING, by=A), children=dict.fromkeys(parts)), version=1
    )
    world.feed(CHANGED)
    world.settle()
    assert (world.state.split_into, world.state.forgettable) == (parts, False)
    world.feed(events.SplitCompleted())
    world.settle()
    assert (world.state.split_into, world.state.forgettable) == ((), True)


def test_a_bundle_that_was_split_is_buried_with_its_topics_open() -> None:
    world = owner()
    world.feed(events.SplitCompleted())
    world.settle()
    assert (world.value, world.drains, world.state.forgettable) == (None, [], True)


def test_a_bundle_taken_by_force_is_closed_and_its_clients_sent_on() -> None:
    world = owner()
    world.hear(record(ServiceUnitState.OWNED, C, A, version=3, force=True))
    world.settle()
    assert (world.drains, world.state.holds, world.state.forgettable) == ([C], False, True)


def test_a_record_that_vanished_under_its_owner_closes_the_topics() -> None:
    world = owner()
    world.hear(None)
    world.settle()
    assert (world.drains, world.state.forgettable) == ([None], True)


def test_a_lost_session_is_a_doubt_until_the_record_was_seen() -> None:
    world = owner()
    world.feed(events.SessionChanged())
    assert (world.state.serves, world.state.holds, world.state.undecided) == (False, True, True)
    world.settle()
    assert world.state.serves
    world.feed(events.SessionChanged())
    world.write(record(ServiceUnitState.OWNED, B, A, version=3, force=True))
    world.settle()
    assert (world.state.serves, world.drains) == (False, [B])


def test_what_was_begun_before_a_restart_is_found_when_a_client_comes() -> None:
    world = World(record(ServiceUnitState.OWNED, A, version=9), 1)
    world.feed(events.CheckOwnership())
    world.settle()
    assert world.state.serves


@pytest.mark.parametrize(
    "order", [events.Release(B), events.Release(None), events.Release(A), events.SplitCompleted()]
)
def test_what_fails_half_way_is_finished_when_it_can_be(order: object) -> None:
    for failing_step in range(6):
        world = owner()
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


def test_an_order_outlasts_a_store_that_is_away_for_a_moment() -> None:
    world = World(failing=True)
    world.feed(events.Acquire())
    world.answer(2)
    world.failing = False
    world.settle()
    assert world.state.serves


def test_a_bundle_that_cannot_be_taken_is_left_to_the_next_lookup() -> None:
    world = World(failing=True)
    world.feed(events.Acquire())
    for _ in range(2 * TRIES):
        world.answer()
    world.failing = False
    world.settle()
    assert world.value is None
    assert world.state.forgettable


def test_what_stands_there_and_is_no_record_is_written_over() -> None:
    world = World(version=4, garbled=True)
    world.feed(events.Acquire())
    world.answer(2)
    world.garbled = False
    world.settle()
    assert world.state.serves


FOREIGN = [
    None,
    record(ServiceUnitState.OWNED, B, A, version=50, force=True),
    record(ServiceUnitState.OWNED, A, version=51),
    record(ServiceUnitState.RELEASING, A, B, version=52),
    record(ServiceUnitState.RELEASING, B, A, version=53),
    record(ServiceUnitState.ASSIGNING, A, B, version=54),
    record(ServiceUnitState.SPLITTING, None, A, version=55),
    record(ServiceUnitState.DELETED, None, A, version=56),
    record(ServiceUnitState.FREE, None, A, version=57, force=True),
    record(ServiceUnitState.FREE, None, B, version=58),
]
HAPPENINGS = st.one_of(
    st.sampled_from(
        [
            events.Acquire(),
            events.Acquire(as_split_part=True),
            events.CheckOwnership(),
            events.SplitCompleted(),
            events.Release(None),
            events.Release(A),
            events.Release(B),
            events.Split(("0x00000000_0x80000000",)),
            events.ReleaseFrom(A, B),
            events.Assign(B),
        ]
    ),
    st.just(events.SessionChanged()),
    st.just(CHANGED),
    st.just(events.SuccessorReady()),
    st.just(events.BundleReleased()),
    st.just("answer"),
    st.just("answer"),
    st.just("fail"),
    st.sampled_from([("foreign", data) for data in FOREIGN]),
)


@settings(max_examples=50)
@given(st.lists(HAPPENINGS, max_size=40))
@example(
    [
        events.Split(("0x00000000_0x80000000",)),
        ("foreign", record(ServiceUnitState.OWNED, A, version=51)),
    ]
)
def test_whatever_happens_it_comes_to_rest_and_believes_the_record(
    happenings: list[object],
) -> None:
    world = World()
    for each in happenings:
        happen(world, each)
    comes_to_rest(world)


def happen(world: World, what: object) -> None:
    if what == "answer" or what == "fail":
        world.failing = what == "fail"
        world.answer()
    elif isinstance(what, tuple):
        world.hear(what[1])
    else:
        world.feed(what)


def comes_to_rest(world: World) -> None:
    """With whatever was under way, and with the record believed."""
    world.failing = False
    world.settle()
    world.feed(CHANGED)
    world.settle()
    if world.value is not None and world.value.state is ServiceUnitState.SPLITTING:
        # Who splits a bundle serves it until its parts have taken its place.
        world.feed(events.SplitCompleted())
        world.settle()
    mine = world.value is not None and (
        world.value.state is ServiceUnitState.OWNED and world.value.destination == A
    )
    assert world.state.serves == mine
    assert world.state.holds == mine


def steps_of_moves() -> list[World]:
    """Every step of what is done with a bundle, as long as nothing comes between."""
    found: list[World] = []
    for world, order in (
        (World(), events.Acquire()),
        *((owner(), events.Release(to)) for to in (A, B, None)),
        (World(record(ServiceUnitState.RELEASING, A, B, version=3), 3), CHANGED),
        (World(record(ServiceUnitState.ASSIGNING, A, B, version=4), 4), CHANGED),
    ):
        world.feed(order)
        for _ in range(12):
            found.append(world.copy())
            world.answer()
    return [each for n, each in enumerate(found) if each not in found[:n]]


AT_ANY_STEP = (
    *(CHANGED, events.SessionChanged(), "answer", "fail", events.CheckOwnership()),
    *(events.SuccessorReady(), events.BundleReleased()),
    *(("foreign", each) for each in (FOREIGN[1], FOREIGN[3], FOREIGN[5])),
)


def test_whatever_two_things_come_at_any_step_it_comes_to_rest() -> None:
    for begun in steps_of_moves():
        for first in AT_ANY_STEP:
            between = begun.copy()
            happen(between, first)
            for second in AT_ANY_STEP:
                world = between.copy()
                happen(world, second)
                comes_to_rest(world)


@pytest.mark.parametrize(
    "order",
    [
        events.Split(("0x00000000_0x80000000",)),
        events.SplitCompleted(),
        events.Release(B),
        events.ReleaseFrom(A, B),
    ],
)
def test_what_was_begun_is_not_begun_again_once_the_leader_returned_the_bundle(
    order: object,
) -> None:
    world, returned = owner(), record(ServiceUnitState.OWNED, A, version=51, force=True)
    world.feed(order)
    world.feed(CHANGED)
    world.answer()
    world.hear(returned)
    world.settle()
    assert (world.value, world.state.serves) == (returned, True)


def test_an_answer_that_was_overtaken_is_not_believed() -> None:
    world = World()
    world.feed(events.CheckOwnership())
    old = events.NodeFound(None)
    world.hear(record(ServiceUnitState.OWNED, A, version=2))
    world.asked.pop()
    world.feed(old)
    world.settle()
    assert world.state.serves


def test_a_session_lost_while_topics_close_is_looked_into() -> None:
    world = owner()
    world.feed(events.Release(A))
    world.feed(events.SessionChanged())
    world.settle()
    assert world.state.serves
    world.feed(events.Release(A))
    world.feed(events.SessionChanged())
    world.write(record(ServiceUnitState.OWNED, B, A, version=9, force=True))
    world.settle()
    assert not world.state.serves


def test_an_answer_from_before_the_session_was_lost_is_not_believed() -> None:
    world = owner()
    world.feed(CHANGED)
    old = events.NodeFound(world.value.to_json(), world.version)
    world.feed(events.SessionChanged())
    world.write(record(ServiceUnitState.OWNED, B, A, version=9, force=True))
    world.asked.pop()
    world.feed(old)
    assert not world.state.serves
    world.settle()
    assert world.drains == [B]
