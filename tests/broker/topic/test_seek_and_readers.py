"""Cursors that are moved by a seek, and where readers start."""

import asyncio
import time

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.ports import EARLIEST, LATEST, KeySharedMeta
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import Position
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World

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


async def test_no_subscription_is_made_on_a_topic_that_closed_while_its_start_was_searched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.publish(await world.producer(), "a", publish_time=1)
    topic = await world.topic()
    read, chunk = asyncio.Event(), topic.log.cached(0)

    async def late(_index: int, _bytes: int) -> object:
        await read.wait()
        return chunk

    monkeypatch.setattr(topic.log, "cached", lambda _index: None)
    monkeypatch.setattr(topic.log, "read", late)
    subscribing = asyncio.ensure_future(world.consumer(rollback_seconds=10))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not subscribing.done()
    topic.closing = True
    read.set()
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
