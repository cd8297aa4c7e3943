"""A topic that moves goes on for its consumers until they have just acknowledged."""

import asyncio

import pytest

from counterpoise.broker.topic.ports import ServiceUrls
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World

ELSEWHERE = ServiceUrls("pulsar://elsewhere:6650", None)


@pytest.mark.parametrize("cumulative", [False, True])
async def test_consumers_are_sent_on_once_they_have_acknowledged(
    world: World, cumulative: bool
) -> None:
    consumer = await world.consumer(SubscriptionType.Failover)
    producer = await world.producer()
    await world.publish(producer, "a", "b")
    topic = await world.topic()
    leaving = asyncio.ensure_future(topic.leave(ELSEWHERE))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not topic.is_served, "no client may come any more"
    assert world.wire.closed_consumers == []
    ids = world.wire.ids(consumer)
    if cumulative:
        consumer.ack_cumulative(*ids[0])
    else:
        consumer.ack_individual(ids[:1])
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.wire.closed_consumers == [(consumer.consumer_id, ELSEWHERE)]
    await leaving
    assert world.wire.closed_producers == [(producer.producer_id, ELSEWHERE)]


async def test_a_consumer_that_has_acknowledged_all_is_sent_on_at_once(world: World) -> None:
    consumer = await world.consumer()
    await world.publish(await world.producer(), "a")
    consumer.ack_individual(world.wire.ids(consumer))
    leaving = asyncio.ensure_future((await world.topic()).leave(ELSEWHERE))
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.wire.closed_consumers == [(consumer.consumer_id, ELSEWHERE)]
    await leaving
