"""What a producer sends again is stored once, on the next owner too."""

from functools import partial

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic import deduplication
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from tests.broker.topic.conftest import World, entry, publish

ON = TopicOptions(deduplicates=True)


def _has(receipts: list[object], number: int) -> bool:
    return len(receipts) == number


async def send(world: World, name: str, *numbers: int) -> list[tuple[int, int]]:
    """Publish under these sequence ids by a producer of this name; where each is stored."""
    producer, wire = await world.producer(name=name), world.wire.receipted
    for number in numbers:
        body, due = entry(f"{name}-{number}", producer_name=name, sequence_id=number), len(wire) + 1
        publish(producer, number, number, body)
        await world.wire.until(partial(_has, wire, due))
    producer.close()
    return [receipt[3:] for receipt in wire[-len(numbers) :]]


async def test_what_is_sent_again_is_answered_and_not_stored(store: MemoryLedgerStore) -> None:
    world = World(store, options=ON)
    consumer = await world.consumer()
    assert await send(world, "p", 0, 1, 5, 1, 5, 6) == [
        (0, 0),
        (0, 1),
        (0, 2),
        *2 * [(-1, -1)],
        (0, 3),
    ]
    assert (await send(world, "q", 1))[0] == (0, 4)
    assert world.wire.payloads(consumer) == ["p-0", "p-1", "p-5", "p-6", "q-1"]
    producer = await world.producer(name="p")
    assert producer.last_sequence_id == 6


@pytest.mark.parametrize("saved", [False, True])
async def test_the_next_owner_knows_what_was_stored(store: MemoryLedgerStore, saved: bool) -> None:
    world = World(store, options=ON)
    await world.consumer()
    await send(world, "p", 0, 1, 2)
    if saved:
        await world.registry.unload_topic(world.name)
    else:
        # As a process that is killed: the ids are read from the log.
        world.registry.abandon()
    successor = World(store, options=ON)
    consumer = await successor.consumer()
    assert [at[1] for at in await send(successor, "p", 2, 3)] == [-1, 0]
    assert successor.wire.payloads(consumer)[-1] == "p-3"
    assert set((await successor.topic()).subscriptions) == {"s"}
    with pytest.raises(BrokerError) as refused:
        await successor.consumer(subscription="pulsar.dedup")
    assert refused.value.code is ServerError.NotAllowedError


async def test_without_it_everything_is_stored(store: MemoryLedgerStore) -> None:
    world = World(store)
    assert [at[1] for at in await send(world, "p", 0, 0)] == [0, 1]
    assert (await world.producer(name="p")).last_sequence_id == -1


async def test_what_the_log_has_not_answered_yet_is_refused(store: MemoryLedgerStore) -> None:
    world = World(store, options=ON)
    producer = await world.producer(name="p")
    for _ in range(2):
        publish(producer, 7, 7, entry("x", producer_name="p", sequence_id=7))
    ((_, sequence_id, error),) = world.wire.errors
    assert (sequence_id, error.code) == (7, ServerError.PersistenceError)
    await world.wire.until(lambda: len(world.wire.receipted) == 1)


async def test_beyond_the_limit_the_producer_is_forgotten_that_is_silent_for_longest(
    store: MemoryLedgerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deduplication, "PRODUCERS_MAX", 2)
    monkeypatch.setattr(deduplication, "SAVED_EVERY", 1)
    world = World(store, options=ON)
    for name, number in (("first", 5), ("silent", 5), ("first", 6), ("last", 5)):
        await send(world, name, number)
    for name, number, is_new in (("first", 6, False), ("last", 5, False), ("silent", 5, True)):
        ((_, at),) = await send(world, name, number)
        assert (at >= 0) is is_new, name
    assert world.wire.errors == []
