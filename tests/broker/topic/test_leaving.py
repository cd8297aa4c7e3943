"""A topic that moves goes on for its consumers until they have just acknowledged."""

import asyncio

import pytest

from counterpoise.broker.topic.ports import ServiceUrls
from counterpoise.broker.topic.topics import CLOSE_S
from counterpoise.storage.disk_faults import DiskFaults
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World, entry, publish
from tests.quota.jumping import on_jumping_loop, pass_time

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


@on_jumping_loop
async def test_a_broker_that_stops_leaves_no_client_with_a_topic_that_does_not_close() -> None:
    """Its disk does not answer: the client looks for another broker all the same."""
    world = World(MemoryLedgerStore())
    topic, producer, consumer = (
        await world.topic(),
        await world.producer(),
        await world.consumer(),
    )
    topic.log.disk = DiskFaults(delay_s=1000)  # type: ignore[attr-defined]
    publish(producer, 0, 0, entry("x"))
    stopping = asyncio.create_task(world.registry.close())
    await pass_time(CLOSE_S - 1)
    assert not stopping.done()
    await pass_time(2)
    assert stopping.done()
    assert world.wire.closed_producers == [(producer.producer_id, None)]
    assert world.wire.closed_consumers == [(consumer.consumer_id, None)]
    assert not world.registry.loaded
