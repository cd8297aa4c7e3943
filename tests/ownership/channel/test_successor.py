"""A move as its successor sees it: the broker that gets the bundle."""

import pytest

from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.events import (
    BundleReleased,
    CheckOwnership,
    SessionChanged,
    Split,
    TimerFired,
)
from tests.ownership.channel.records import A, B, C, record
from tests.ownership.channel.world import CHANGED, World


def test_a_transfer_at_its_successor() -> None:
    world = World(record(ServiceUnitState.RELEASING, A, B, version=3), 3)
    world.feed(CHANGED)
    world.answer()
    assert world.state.undecided, "clients that come are to wait"
    assert world.prepares == 1
    world.feed(CheckOwnership())
    world.answer()
    assert world.prepares == 1, "once for each record, however many clients come"
    releasing = world.value
    world.hear(None)
    world.settle()
    world.hear(releasing)
    world.answer()
    assert world.prepares == 2, "versions begin again where a record was deleted"
    world.hear(record(ServiceUnitState.ASSIGNING, A, B, version=4))
    world.answer()
    assert not world.state.taking_over
    world.answer()
    assert world.value == ServiceUnitStateData(
        ServiceUnitState.OWNED, A, B, timestamp_ms=7, version=5
    )
    assert not world.state.serves, "its former owner may have topics of it open"
    assert (world.state.taking_over, world.state.holds, world.state.undecided) == (True, True, True)
    world.feed(BundleReleased())
    assert not world.state.taking_over
    assert world.state.serves


def taking_over() -> World:
    world = World(record(ServiceUnitState.ASSIGNING, A, B, version=4), 4)
    world.feed(CHANGED)
    world.answer(2)
    assert world.state.taking_over
    return world


def test_a_former_owner_that_takes_too_long_is_not_waited_for() -> None:
    world = taking_over()
    assert world.alarm_s == world.protocol.context.options.takeover_s
    world.answer()
    assert world.state.serves
    assert not world.state.in_progress


@pytest.mark.parametrize("news", [CheckOwnership(), CHANGED], ids=["a client", "news"])
def test_neither_clients_nor_news_prolong_the_wait_for_the_former_owner(news: object) -> None:
    """Its former owner was killed, and clients come more often than the alarm takes to ring."""
    world = taking_over()
    for _ in range(5):
        world.feed(news)
        if world.asked:
            world.answer()
    assert world.state.taking_over
    assert world.alarms == 1
    world.feed(TimerFired())
    world.settle()
    assert world.state.serves


def test_an_alarm_that_rings_while_the_record_is_read_is_set_again() -> None:
    world = taking_over()
    world.feed(CHANGED)
    world.alarm = False
    world.feed(TimerFired())
    world.answer()
    assert world.alarms == 2
    world.answer()
    assert world.state.serves


def test_a_successor_that_had_no_time_to_look_closes_what_it_opened_early() -> None:
    """News overtook the answer to its own write, so clients were let in while it looked again."""
    world = World(record(ServiceUnitState.ASSIGNING, A, B, version=4), 4)
    world.feed(CHANGED)
    world.answer()
    world.feed(CHANGED)
    world.answer()
    assert world.state.taking_over
    world.write(record(ServiceUnitState.OWNED, C, A, version=9, force=True))
    world.settle()
    assert (world.drains, world.state.forgettable) == ([C], True)


def test_a_former_owner_may_be_done_before_our_own_write_is_answered() -> None:
    world = World(record(ServiceUnitState.ASSIGNING, A, B, version=4), 4)
    world.feed(CHANGED)
    world.answer()
    world.feed(BundleReleased())
    world.answer()
    assert world.state.serves


def test_a_former_owner_may_be_done_while_the_record_is_looked_at() -> None:
    world = taking_over()
    world.feed(SessionChanged())
    world.feed(BundleReleased())
    world.answer()
    assert world.state.serves


def test_that_a_former_move_is_over_says_nothing_of_the_next() -> None:
    world = World(record(ServiceUnitState.ASSIGNING, A, B, version=4), 4)
    world.feed(CHANGED)
    world.feed(BundleReleased())
    world.answer(2)
    assert world.state.taking_over


def test_a_successor_in_doubt_goes_on_inheriting_when_the_record_was_seen() -> None:
    world = taking_over()
    world.feed(SessionChanged())
    assert (world.state.holds, world.state.undecided) == (True, True)
    assert not world.state.taking_over
    world.answer()
    assert world.state.taking_over
    world.settle()
    assert world.state.serves


def test_a_successor_that_loses_the_bundle_closes_what_it_opened_early() -> None:
    world = taking_over()
    world.hear(record(ServiceUnitState.OWNED, C, A, version=9, force=True))
    world.settle()
    assert (world.drains, world.state.taking_over, world.state.forgettable) == ([C], False, True)


def test_it_gets_ready_for_each_move_whatever_their_numbers() -> None:
    """The records of a bundle that was deleted and created again begin at 1 again."""
    world = World(record(ServiceUnitState.RELEASING, A, B, version=9), 9)
    world.feed(CHANGED)
    world.answer()
    world.hear(record(ServiceUnitState.RELEASING, A, C, version=3))
    world.answer()
    assert world.prepares == 2


def test_what_was_inherited_long_ago_is_served_while_it_is_split() -> None:
    world = World(record(ServiceUnitState.OWNED, A, B, version=5), 5)
    world.feed(CheckOwnership())
    world.settle()
    world.feed(Split(("0x00000000_0x40000000", "0x40000000_0x80000000")))
    world.answer()
    assert world.value.state is ServiceUnitState.SPLITTING
    assert (world.state.serves, world.state.taking_over) == (True, False)
