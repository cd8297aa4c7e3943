"""A backlog with holes: entries that were acknowledged before those in front of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World


@given(st.sets(st.integers(0, 1100)), st.integers(0, 1200))
def test_the_nth_that_is_not_acknowledged(acked: set[int], number: int) -> None:
    state = AckState(-1)
    for index in sorted(acked, reverse=True):
        state.ack(index)
    left = [index for index in range(2400) if index not in acked]
    wanted = state.mark if number == 0 else left[number - 1]
    assert state.unacked(number) == wanted


async def holed(world: World) -> Consumer:
    """Twelve entries, of which 0, 1, 4, 5, and 9 are acknowledged."""
    producer = await world.producer()
    await world.publish(producer, *range(12), publish_time=1000)
    consumer = await world.consumer(SubscriptionType.Shared)
    await world.wire.until(lambda: len(world.wire.ids(consumer)) == 12)
    ids = world.wire.ids(consumer)
    consumer.ack_individual([ids[n] for n in (9, 5, 4, 1, 0)])
    return consumer


LEFT = [2, 3, 6, 7, 8, 10, 11]


@pytest.mark.parametrize(("number", "index"), [*enumerate(LEFT, 1), (8, 12), (2**40, 12)])
async def test_one_entry_of_the_backlog(world: World, number: int, index: int) -> None:
    subscription = (await holed(world)).subscription
    assert subscription.backlog_entry(number) == index
    assert subscription.backlog == len(LEFT)


@pytest.mark.parametrize("count", [0, 1, 3, 6, 7, 8, 2**40])
async def test_so_many_are_skipped_and_the_next_is_the_first_that_is_left(
    world: World, count: int
) -> None:
    consumer = await holed(world)
    consumer.subscription.skip(count)
    assert consumer.subscription.backlog == max(len(LEFT) - count, 0)
    consumer.close()
    again = await world.consumer(SubscriptionType.Shared)
    await world.publish(await world.producer(), "new")
    left = [str(n) for n in LEFT[count:]] + ["new"]
    await world.wire.until(lambda: len(world.wire.payloads(again)) == len(left))
    assert world.wire.payloads(again) == left


@pytest.mark.parametrize(
    ("before_ms", "left"), [(999, 5), (1000, 5), (1001, 4), (1002, 3), (1004, 1), (1005, 0)]
)
async def test_what_is_as_old_as_the_limit_does_not_expire(
    world: World, before_ms: int, left: int
) -> None:
    """Pulsar: expired is what was published *before* now less the age."""
    producer = await world.producer()
    for number in range(5):
        await world.publish(producer, number, publish_time=1000 + number)
    consumer = await world.consumer(permits=0)
    await consumer.subscription.expire(before_ms)
    assert consumer.subscription.backlog == left
    await consumer.subscription.expire(before_ms)
    assert consumer.subscription.backlog == left, "a second time changes nothing"
    consumer.flow(10)
    await world.publish(producer, "new", publish_time=2000)
    wanted = [str(n) for n in range(5 - left, 5)] + ["new"]
    await world.wire.until(lambda: len(world.wire.deliveries) == len(wanted))
    assert world.wire.payloads(consumer) == wanted
