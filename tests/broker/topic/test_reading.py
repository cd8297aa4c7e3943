"""What dispatchers read of a log that memory does not have, and that the disk may not give."""

import asyncio
from typing import Any

import pytest

from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import Chunk, StorageError
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World
from tests.broker.topic.ends import EARLIEST
from tests.quota.jumping import on_jumping_loop, pass_time


class ColdLog:
    """A topic's log that is read only; what a read does is up to the test."""

    def __init__(self, log: Any) -> None:
        self.reads = self.cancelled = 0
        self.fails = ""
        self.hangs = False
        self._in_memory = log.cached
        log.cached = lambda _: None
        log.read = self.read

    async def read(self, index: int, _: int) -> Chunk:
        self.reads += 1
        if self.hangs:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if self.fails:
            raise StorageError(self.fails)
        chunk = self._in_memory(index)
        assert isinstance(chunk, Chunk)
        at = index - chunk.first
        return Chunk(index, chunk.entries[at : at + 1], chunk.messages[at : at + 1])


async def cold_world() -> tuple[World, ColdLog]:
    world = World(MemoryLedgerStore())
    await world.publish(await world.producer(), *"abc")
    return world, ColdLog((await world.topic()).log)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", SubscriptionType)
def test_a_read_that_failed_is_tried_again_in_five_seconds_and_said_once(
    kind: SubscriptionType, caplog: pytest.LogCaptureFixture
) -> None:
    @on_jumping_loop
    async def play() -> None:
        world, log = await cold_world()
        log.fails = "the disk is away"
        await world.consumer(kind)
        await pass_time(4.9)
        assert (log.reads, caplog.text.count("the disk is away")) == (1, 1)
        await pass_time(5)
        assert (log.reads, caplog.text.count("the disk is away")) == (2, 1)
        log.fails = ""
        await pass_time(5)
        assert world.wire.payloads() == ["a", "b", "c"]
        log.fails = "the disk is away"
        await world.publish(await world.producer(), "d")
        await pass_time(1)
        assert caplog.text.count("the disk is away") == 2, "it is another time"

    play()


@on_jumping_loop
async def test_keys_of_two_consumers_that_lag_far_apart_are_read_in_turn() -> None:
    world = World(MemoryLedgerStore())
    consumers = [await world.consumer(SubscriptionType.Key_Shared, permits=0) for _ in "ab"]
    producer = await world.producer()
    for number in range(20):
        await world.publish(producer, number, partition_key=str(number))
    # One consumer that is ready has all of the log looked at.
    third = await world.consumer(SubscriptionType.Key_Shared)
    third.close()
    # Every read has one entry, and two consumers want others.
    log = ColdLog((await world.topic()).log)  # type: ignore[attr-defined]
    for each in consumers:
        each.flow(100)
    await pass_time(1)
    got = [world.wire.payloads(each) for each in consumers]
    assert all(got)
    assert len({*got[0], *got[1], *world.wire.payloads(third)}) == 20
    assert log.reads <= 20


@on_jumping_loop
async def test_a_subscription_that_is_sought_or_closed_reads_no_more() -> None:
    world, log = await cold_world()
    log.hangs = True
    consumer = await world.consumer()
    await pass_time(1)
    await consumer.subscription.seek_to(EARLIEST)
    await pass_time(1)
    assert (log.reads, log.cancelled) == (1, 1)
    again = await world.consumer()
    await pass_time(1)
    await again.unsubscribe()
    await pass_time(1)
    assert (log.reads, log.cancelled) == (2, 2)


@on_jumping_loop
async def test_what_waits_for_the_disk_takes_no_turn_of_others() -> None:
    world, log = await cold_world()
    consumer = await world.consumer(SubscriptionType.Shared)
    await pass_time(1)
    log.hangs = True
    consumer.redeliver()
    turns = (await world.topic()).commons.turns
    await pass_time(1)
    assert turns.left > 0
    assert (len(world.wire.deliveries), consumer.unacked) == (3, 0)
    consumer.close()
