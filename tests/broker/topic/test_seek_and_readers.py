"""Cursors that are moved by a seek, and where readers start."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.ports import KeySharedMeta
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import Position
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World
from tests.broker.topic.ends import EARLIEST, LATEST

EXCLUSIVE, SHARED = SubscriptionType.Exclusive, SubscriptionType.Shared


async def test_seek_to_a_message_makes_it_the_next(world: World) -> None:
    producer = await world.producer()
    await world.publish(producer, *"abcde")
    consumer = await world.consumer(SHARED)
    ids = world.wire.ids(consumer)
    consumer.ack_individual(ids)
    await consumer.seek_to(Position(*ids[2][:2]))
    assert world.wire.closed_consumers == [(consumer.consumer_id, None)]
    again = await world.consumer(SHARED)
    assert world.wire.payloads(again) == ["c", "d", "e"]


@pytest.mark.parametrize(
    ("where", "left"), [(EARLIEST, "abcd"), (LATEST, "d"), (Position(0, 100), "d")]
)
async def test_seek_to_an_end(world: World, where: Position, left: str) -> None:
    producer = await world.producer()
    await world.publish(producer, *"abc")
    consumer = await world.consumer()
    await consumer.seek_to(where)
    again = await world.consumer()
    await world.publish(producer, "d")
    assert world.wire.payloads(again) == list(left)


@pytest.mark.parametrize(("when", "left"), [(0, "abcd"), (15, "bcd"), (20, "bcd"), (99, "")])
async def test_seek_to_a_time(world: World, when: int, left: str) -> None:
    producer = await world.producer()
    for n, body in enumerate("abcd"):
        await world.publish(producer, body, publish_time=10 * (n + 1))
    consumer = await world.consumer()
    await consumer.seek_to_time(when)
    assert world.wire.payloads(await world.consumer()) == list(left)


async def test_a_reader_starts_at_its_message_and_leaves_nothing(world: World) -> None:
    await world.publish(await world.producer(), *"abcd")
    ledger = world.wire.receipted[0][3]
    reader = await world.consumer(durable=False, start_message_id=Position(ledger, 1))
    assert world.wire.payloads(reader) == ["b", "c", "d"]
    topic = await world.topic()
    assert list(topic.subscriptions) == ["s"]
    reader.close()
    assert list(topic.subscriptions) == []


@pytest.mark.parametrize(("start", "got"), [(EARLIEST, ["a", "b"]), (LATEST, [])])
async def test_a_reader_starts_at_an_end(world: World, start: Position, got: list[str]) -> None:
    await world.publish(await world.producer(), *"ab")
    reader = await world.consumer(durable=False, start_message_id=start)
    assert world.wire.payloads(reader) == got


async def test_a_durable_subscription_begins_at_no_message_of_a_reader(world: World) -> None:
    await world.publish(await world.producer(), *"ab")
    ledger = world.wire.receipted[0][3]
    options = {"start_message_id": Position(ledger, 1)}
    assert world.wire.payloads(await world.consumer(**options)) == ["a", "b"]


class LateReads:
    """Entries of a topic that are in memory again, and read, once they are ``released``."""

    def __init__(self, log: Any) -> None:
        self.released = asyncio.Event()
        self._cached, self._read = log.cached, log.read
        log.cached, log.read = self._from_memory, self._later

    def _from_memory(self, index: int) -> Any:
        return self._cached(index) if self.released.is_set() else None

    async def _later(self, index: int, size: int) -> Any:
        chunk = self._cached(index)
        await self.released.wait()
        return chunk or await self._read(index, size)


async def begun(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(work)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_seek_that_ends_when_the_topic_is_closed_is_refused(world: World) -> None:
    """Its client was answered that it was done, and the next owner knew nothing of it."""
    await world.publish(await world.producer(), "a", "b", publish_time=1)
    consumer = await world.consumer()
    consumer.ack_individual(world.wire.ids(consumer))
    reads = LateReads((await world.topic()).log)
    seeking = await begun(consumer.seek_to_time(1))
    await world.registry.unload_topic(world.name)
    reads.released.set()
    with pytest.raises(BrokerError, match="was closed meanwhile") as refused:
        await seeking
    assert refused.value.code is ServerError.ServiceNotReady


async def test_a_reader_starts_behind_what_is_deleted_while_its_start_is_searched() -> None:
    """It began before the log's first entry, and read for ever."""
    world = World(MemoryLedgerStore(ledger_entries=1))
    producer, durable = await world.producer(), await world.consumer(subscription="durable")
    for body in "abc":
        await world.publish(producer, body, publish_time=10**15)
    reads = LateReads((await world.topic()).log)
    subscribing = await begun(world.consumer(subscription="r", durable=False, rollback_seconds=10))
    durable.ack_individual(world.wire.ids(durable)[:2])
    durable.subscription.save()
    await asyncio.sleep(0)
    reads.released.set()
    reader = await subscribing
    await world.wire.until(lambda: "c" in world.wire.payloads(reader))
    assert world.wire.payloads(reader) == ["c"]


async def test_no_subscription_is_made_on_a_topic_that_closed_while_its_start_was_searched(
    world: World,
) -> None:
    await world.publish(await world.producer(), "a", publish_time=1)
    topic = await world.topic()
    reads = LateReads(topic.log)
    subscribing = await begun(world.consumer(rollback_seconds=10))
    topic.closing = True
    reads.released.set()
    with pytest.raises(BrokerError, match="is being unloaded") as refused:
        await subscribing
    assert refused.value.code is ServerError.ServiceNotReady
    assert dict(topic.subscriptions) == {}
    topic.closing = False


async def test_a_reader_starts_so_many_seconds_back(world: World) -> None:
    producer, now_ms = await world.producer(), round(time.time() * 1000)
    for age_s in (3600, 1000, 10):
        await world.publish(producer, age_s, publish_time=now_ms - 1000 * age_s)
    for number, (back_s, got) in enumerate(((2000, ["1000", "10"]), (100, ["10"]))):
        reader = await world.consumer(
            subscription=f"r{number}", durable=False, rollback_seconds=back_s
        )
        assert world.wire.payloads(reader) == got


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, SubscriptionType.Key_Shared])
async def test_a_reader_that_lags_goes_on_behind_what_was_deleted(kind: SubscriptionType) -> None:
    world = World(MemoryLedgerStore(ledger_entries=3))
    producer = await world.producer()
    reader = await world.consumer(
        kind, subscription="reader", durable=False, start_message_id=EARLIEST, permits=1
    )
    durable = await world.consumer(subscription="durable")
    for n in range(10):
        await world.publish(producer, n)
    reader.redeliver()
    durable.ack_individual(world.wire.ids(durable)[:8])
    durable.subscription.save()
    await asyncio.sleep(0)
    reader.flow(100)
    assert world.wire.payloads(reader) == ["0", "6", "7", "8", "9"]
    assert reader.subscription.backlog == 4


async def test_a_reader_that_is_refused_leaves_no_subscription(world: World) -> None:
    with pytest.raises(BrokerError, match="must not be empty"):
        await world.consumer(
            SubscriptionType.Key_Shared, durable=False, key_shared=KeySharedMeta(())
        )
    assert not (await world.topic()).subscriptions
