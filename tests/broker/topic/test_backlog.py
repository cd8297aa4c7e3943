"""Consumers that lag behind the cache get everything from the files, in order."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from counterpoise.broker.topic.dispatch import entry_reader
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.port import Chunk, StorageError
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World, entry, publish

COUNT = 1500


@pytest.fixture
async def on_disk(tmp_path: Path) -> AsyncIterator[World]:
    store = FileLedgerStore(tmp_path, ledger_bytes=30_000, cache_bytes=10_000)
    world = World(store)  # type: ignore[arg-type]
    yield world
    await world.registry.close()
    await store.close()


async def fill(world: World) -> None:
    producer = await world.producer()
    for number in range(COUNT):
        publish(producer, number, number, entry(number, partition_key=str(number % 10)))
        if number % 40 == 0:
            await world.wire.until(lambda: len(world.wire.receipted) > number - 40)  # noqa: B023
    await world.wire.until(lambda: len(world.wire.receipted) == COUNT)


@pytest.mark.parametrize("kind", list(SubscriptionType))
async def test_a_backlog_is_read_back(on_disk: World, kind: SubscriptionType) -> None:
    await fill(on_disk)
    wanted = [str(n) for n in range(COUNT)]
    consumer = await on_disk.consumer(kind, permits=COUNT)
    await on_disk.wire.until(lambda: len(on_disk.wire.deliveries) == COUNT)
    assert on_disk.wire.payloads(consumer) == wanted
    if kind in (SubscriptionType.Shared, SubscriptionType.Key_Shared):
        consumer.redeliver(i[:2] for i in on_disk.wire.ids(consumer)[::-1])
    else:
        consumer.redeliver()
    consumer.flow(COUNT)
    await on_disk.wire.until(lambda: len(on_disk.wire.deliveries) == 2 * COUNT)
    again = on_disk.wire.payloads(consumer)[COUNT:]
    assert again == wanted or kind is SubscriptionType.Key_Shared
    assert set(again) == set(wanted)


async def test_a_seek_looks_into_the_files(on_disk: World) -> None:
    producer = await on_disk.producer()
    for number in range(300):
        await on_disk.publish(producer, number, publish_time=1000 + number)
    consumer = await on_disk.consumer(permits=0)
    await consumer.seek_to_time(1100)
    again = await on_disk.consumer(permits=1)
    await on_disk.wire.until(lambda: bool(on_disk.wire.deliveries))
    assert on_disk.wire.payloads(again) == ["100"]


async def test_a_disk_that_cannot_be_read_is_tried_again_and_skips_nothing(
    on_disk: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_reader, "_RETRY_SECONDS", 0.01)
    await fill(on_disk)
    topic = await on_disk.topic()
    log = topic.log  # type: ignore[attr-defined]
    tried = 0

    async def damaged(index: int, max_bytes: int) -> Chunk:
        nonlocal tried
        tried += 1
        on_disk.wire.changed()
        raise StorageError("x.ledger cannot be read: Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(log, "read", damaged)
        consumer = await on_disk.consumer(permits=COUNT)
        tail = await on_disk.consumer(subscription="tail", initial_position=0)
        await on_disk.publish(await on_disk.producer(), "news")
        assert on_disk.wire.payloads(tail) == ["news"]
        await on_disk.wire.until(lambda: tried > 3)
        assert on_disk.wire.payloads(consumer) == []
        assert caplog.text.count("x.ledger cannot be read") == 1
        assert "Traceback" not in caplog.text
    await on_disk.wire.until(lambda: len(on_disk.wire.payloads(consumer)) == COUNT)
    assert on_disk.wire.payloads(consumer) == [str(n) for n in range(COUNT)]
    with monkeypatch.context() as patched:
        patched.setattr(log, "read", damaged)
        tried = 0
        consumer.redeliver()
        consumer.flow(1)
        await on_disk.wire.until(lambda: tried > 1)
    assert caplog.text.count("x.ledger cannot be read") == 2, "it could be read meanwhile"
