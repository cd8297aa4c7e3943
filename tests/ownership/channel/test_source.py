"""A move as its source follows it: the broker that lets the bundle go."""

from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.events import (
    BundleReleased,
    CloseTopics,
    CommandFailed,
    Release,
    SuccessorReady,
)
from tests.ownership.channel.records import A, B, C, record
from tests.ownership.channel.world import CHANGED, owner


def test_a_transfer_at_its_source() -> None:
    world = owner()
    world.feed(Release(B))
    assert not world.state.serves, "no topic is opened any more"
    assert world.state.holds, "those that are open are closed in order"
    world.answer()
    assert world.value.state is ServiceUnitState.RELEASING
    assert world.state.holds, "topics stay open until the successor is ready"
    assert world.drains == []
    world.feed(SuccessorReady())
    world.answer()
    assert world.value == ServiceUnitStateData(
        ServiceUnitState.ASSIGNING, B, A, timestamp_ms=7, version=4
    )
    assert world.state.in_progress, "the successor is waited for"
    assert world.state.holds, "no client waits for the store while topics are open nowhere"
    assert world.drains == []
    world.hear(record(ServiceUnitState.OWNED, B, A, version=5))
    world.answer()
    assert not world.state.holds
    assert world.reports == 0
    world.answer()
    assert world.drains == [B]
    assert world.reports == 1, "the successor is notified that all is closed"
    assert world.state.forgettable


def test_a_source_closes_first_if_its_successor_is_late() -> None:
    world = owner()
    world.feed(Release(B))
    world.answer(3)
    assert world.drains == [B]
    assert not world.state.holds
    world.answer()
    assert world.value == ServiceUnitStateData(
        ServiceUnitState.ASSIGNING, B, A, timestamp_ms=7, version=4
    )
    assert world.state.in_progress
    assert world.reports == 0, "the successor would not know what the report is about"
    world.hear(record(ServiceUnitState.OWNED, B, A, version=5))
    world.answer()
    assert world.reports == 1, "or it waits for topics that are closed long since"
    assert world.state.forgettable
    world.feed(CHANGED)
    world.settle()
    assert world.reports == 1


def test_003_l562_a_successor_may_read_the_order_to_release_before_the_owner() -> None:
    world = owner()
    world.feed(SuccessorReady())
    assert world.state.serves
    world.hear(record(ServiceUnitState.RELEASING, B, A, version=3))
    world.answer()
    assert world.drains == []
    world.answer()
    assert world.value.state is ServiceUnitState.ASSIGNING, "written without waiting for its timer"
    assert world.state.holds


def test_a_ready_successor_that_does_not_come_is_not_waited_for_with_open_topics() -> None:
    world = owner()
    world.feed(Release(B))
    world.answer()
    world.feed(SuccessorReady())
    world.answer()
    assert (world.asked, world.state.holds) == ([], True)
    world.settle()
    assert (world.drains, world.state.holds, world.state.forgettable) == ([B], False, True)


def test_a_successor_that_is_never_ready_is_not_waited_for_twice() -> None:
    world = owner()
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


def test_a_successor_may_be_ready_before_our_own_write_is_answered() -> None:
    world = owner()
    world.feed(Release(B))
    world.feed(SuccessorReady())
    world.feed(BundleReleased())  # of a former move
    world.answer(2)
    assert world.value.state is ServiceUnitState.ASSIGNING
    assert (world.drains, world.state.holds) == ([], True)


def test_a_readiness_of_a_former_move_is_no_readiness_for_the_next() -> None:
    world = owner()
    world.feed(SuccessorReady())
    world.feed(Release(B))
    world.answer()
    assert world.asked == []
    assert world.state.in_progress


def test_a_bundle_taken_by_force_meanwhile_is_closed_at_once() -> None:
    world = owner()
    world.feed(Release(B))
    world.answer()
    world.hear(record(ServiceUnitState.OWNED, C, A, version=9, force=True))
    world.settle()
    assert world.drains == [C]


def test_a_source_does_not_wait_for_ever() -> None:
    world = owner()
    world.feed(Release(B))
    world.settle()
    assert world.value.state is ServiceUnitState.ASSIGNING
    assert world.state.forgettable


def test_topics_that_will_not_close_keep_no_bundle() -> None:
    world = owner()
    world.feed(Release(B))
    world.answer()
    for _ in range(20):
        world.failing = bool(world.asked) and isinstance(world.asked[0], CloseTopics)
        if world.value is not None and world.value.state is ServiceUnitState.ASSIGNING:
            break
        world.answer()
    assert (world.value.state, world.value.destination) == (ServiceUnitState.ASSIGNING, B)
    assert len(world.drains) == 3


def test_topics_whose_close_took_all_its_time_are_not_closed_again() -> None:
    world = owner()
    world.feed(Release(B))
    while not (world.asked and isinstance(world.asked[0], CloseTopics)):
        world.answer()
    world.asked.clear()
    world.feed(CommandFailed("its time is over", late=True))
    assert not any(isinstance(each, CloseTopics) for each in world.asked)
    world.settle()
    assert world.value is not None
    assert (world.value.state, world.value.destination) == (ServiceUnitState.ASSIGNING, B)
    assert world.drains == []


def test_no_broker_waits_for_itself_to_get_ready() -> None:
    world = owner()
    world.hear(record(ServiceUnitState.RELEASING, A, A, version=3))
    world.answer()
    assert [type(each) for each in world.asked] == [CloseTopics]
