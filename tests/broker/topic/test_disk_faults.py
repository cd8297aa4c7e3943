"""A topic on a disk that takes nothing: clients get errors, consumers go on, so does the topic."""

import asyncio
import errno
from pathlib import Path

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic import topics
from counterpoise.names.topic import TopicName
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.wire.errors import ServerError
from tests.broker.topic.conftest import World, entry, publish
from tests.broker.topic.ends import EARLIEST
from tests.storage.faults import Failing, FaultyDisk, Hanging
from tests.waiting import WITHIN_S, until

AGE = {"limitTime": 10**10, "policy": "producer_exception"}


async def test_a_full_disk_refuses_publishers_and_serves_consumers(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = FileLedgerStore(tmp_path, disk=disk)
    world = World(store)  # type: ignore[arg-type]
    producer = await world.producer(name="p")
    bystander = await world.producer(name="b")
    await world.publish(producer, "kept")
    disk.before = fault = Failing("write", ".ledger", errno.ENOSPC)
    for number in (7, 8):
        publish(producer, number, number, entry(number))
    await world.wire.until(lambda: bool(world.wire.closed_producers))
    assert [(number, error.code) for _, number, error in world.wire.errors] == [
        (7, ServerError.PersistenceError),
        (8, ServerError.PersistenceError),
    ]
    assert "No space left on device" in str(world.wire.errors[0][2])
    assert world.wire.closed_producers == [(producer.producer_id, None)]
    # Behind a gap nothing is taken from that producer; the others stay.
    publish(producer, 9, 9, entry(9))
    assert not bystander.closed
    consumer = await world.consumer()
    await world.wire.until(lambda: len(world.wire.deliveries) == 1)
    # It comes again, under its own name, and sends again.
    again = await world.producer(name="p")
    publish(again, 7, 7, entry(7))
    await world.wire.until(lambda: len(world.wire.closed_producers) == 2)
    fault.on = False
    again = await world.producer(name="p")
    await world.publish(again, 7, 8, 9)
    await world.publish(bystander, "b")
    await world.wire.until(lambda: len(world.wire.deliveries) == 5)
    assert world.wire.payloads(consumer) == ["kept", "7", "8", "9", "b"]
    await world.registry.close()
    await store.close()


@pytest.mark.parametrize("done", ["created", "moved", "deleted"])
async def test_what_was_confirmed_of_a_subscription_outlives_its_broker(
    tmp_path: Path, done: str
) -> None:
    """What is published from then on is kept for it, or deleted."""
    dying = World(FileLedgerStore(tmp_path))  # type: ignore[arg-type]
    await dying.publish(await dying.producer(), "a")
    consumer = await dying.consumer(permits=0)
    if done != "created":
        consumer.subscription.skip(None)
        await consumer.subscription.saved()
        await (consumer.seek_to(EARLIEST) if done == "moved" else consumer.unsubscribe())
    # Nothing more is heard of that broker: no turn of its event loop, no farewell.
    successor = World(FileLedgerStore(tmp_path))  # type: ignore[arg-type]
    successor.cluster.created = dying.cluster.created
    found = (await successor.topic()).subscriptions
    assert {name: it.backlog for name, it in found.items()} == (
        {} if done == "deleted" else {"s": 1}
    )
    await successor.registry.close()
    await dying.registry.close()


async def test_a_subscription_of_a_topic_that_was_unloaded_is_not_deleted(world: World) -> None:
    """Its client was answered that it was, and the next owner kept it."""
    consumer = await world.consumer()
    await world.registry.unload_topic(world.name)
    with pytest.raises(BrokerError, match="was closed meanwhile") as refused:
        await consumer.unsubscribe()
    assert refused.value.code is ServerError.ServiceNotReady
    assert list((await world.topic()).subscriptions) == ["s"]


@pytest.mark.parametrize(
    "said", [{"deduplicationEnabled": True}, {"backLogQuotaMap": {"message_age": AGE}}]
)
async def test_a_producer_whose_topic_cannot_be_read_is_refused_until_it_can(
    tmp_path: Path, said: dict[str, object]
) -> None:
    async def policies(_: TopicName) -> dict[str, object]:
        return said

    former = World(FileLedgerStore(tmp_path))  # type: ignore[arg-type]
    await former.consumer(permits=0)
    await former.publish(await former.producer(), "stored")
    await former.registry.close()
    disk = FaultyDisk()
    store = FileLedgerStore(tmp_path, disk=disk)
    world = World(store, policies=policies)  # type: ignore[arg-type]
    await world.topic()
    disk.before = fault = Failing("read", ".ledger", errno.EIO)
    with pytest.raises(BrokerError, match="Input/output error") as refused:
        await world.producer()
    assert refused.value.code is ServerError.PersistenceError
    fault.on = False
    await world.publish(await world.producer(), "another")
    await world.registry.close()
    await store.close()


async def on_files(root: Path) -> tuple[World, FileLedgerStore, FaultyDisk]:
    """A topic with two messages, acknowledged and not saved yet."""
    disk = FaultyDisk()
    store = FileLedgerStore(root, disk=disk)
    store.tidy_seconds = 0
    world = World(store)  # type: ignore[arg-type]
    consumer = await world.consumer()
    await world.publish(await world.producer(), *"ab")
    await world.wire.until(lambda: len(world.wire.deliveries) == 2)
    consumer.ack_individual(world.wire.ids(consumer))
    return world, store, disk


async def test_an_unload_for_which_the_disk_was_too_slow_releases_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file stayed open, and its messages in memory, until the broker stopped."""
    monkeypatch.setattr(topics, "UNLOAD_TIMEOUT_S", 0.01)
    world, store, disk = await on_files(tmp_path)
    disk.before = late = Hanging("write", ".ledger")
    publish(await world.producer(), 1, 1, entry("c"))
    await asyncio.to_thread(late.reached.wait, WITHIN_S)
    with pytest.raises(BrokerError, match="did not close within"):
        await world.registry.unload_topic(world.name)
    late.released.set()
    await until(lambda: not (disk.paths or store.cache.size))
    await store.close()


async def test_a_topic_that_is_unloaded_twice_is_not_loaded_before_it_is_saved(
    tmp_path: Path,
) -> None:
    """What was acknowledged was delivered again."""
    world, store, disk = await on_files(tmp_path)
    disk.before = late = Hanging("write", ".final")
    first = asyncio.ensure_future(world.registry.unload_topic(world.name))
    await asyncio.to_thread(late.reached.wait, WITHIN_S)
    second = asyncio.ensure_future(world.registry.unload_topic(world.name))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not second.done()
    late.released.set()
    await asyncio.gather(first, second)
    assert (await world.topic()).subscriptions["s"].backlog == 0
    await world.registry.close()
    await store.close()


async def test_a_topic_that_cannot_be_opened_leaves_no_limits(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = FileLedgerStore(tmp_path, disk=disk)
    world = World(store)  # type: ignore[arg-type]
    disk.before = fault = Failing("open", "fence", errno.EIO)
    with pytest.raises(BrokerError) as refused:
        await world.topic()
    assert refused.value.code is ServerError.PersistenceError
    assert list(world.registry.limits.topics) == []
    fault.on = False
    await world.topic()
    await world.registry.close()
    await store.close()
