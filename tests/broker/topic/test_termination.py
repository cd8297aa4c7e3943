"""A topic that is terminated: who is refused, who goes on, and who hears of its end."""

import asyncio

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from tests.broker.topic.conftest import World, entry, publish


async def test_producers_are_closed_and_refused(world: World) -> None:
    producer = await world.producer()
    await world.publish(producer, "a", "b")
    ended = await world.registry.terminate(world.name)
    assert ended == (await world.topic()).last_message_id()
    assert world.wire.closed_producers == [(producer.producer_id, None)]
    with pytest.raises(BrokerError) as refused:
        await world.producer()
    assert refused.value.code is ServerError.TopicTerminatedError
    assert await world.registry.terminate(world.name) == ended


async def test_what_is_on_its_way_is_stored_before_the_end_or_not_at_all(world: World) -> None:
    producer = await world.producer()
    for number in range(5):
        publish(producer, number, number, entry("x"))
    ended = await world.registry.terminate(world.name)
    assert ended.entry_id == 4
    publish(producer, 5, 5, entry("late"))
    assert (await world.topic()).last_message_id() == ended


async def test_consumers_are_notified_once_they_have_acknowledged_everything(world: World) -> None:
    producer = await world.producer()
    idle = await world.consumer(subscription="idle", initial_position=None)
    reader = await world.consumer()
    await world.publish(producer, "a", "b")
    idle.subscription.skip(None)
    await world.registry.terminate(world.name)
    assert world.wire.at_end == [idle.consumer_id], "the other has two messages before it"
    await world.wire.until(lambda: len(world.wire.payloads(reader)) == 2)
    reader.ack_individual(world.wire.ids(reader))
    await world.wire.until(lambda: len(world.wire.at_end) == 2)
    assert world.wire.at_end == [idle.consumer_id, reader.consumer_id]
    late = await world.consumer(subscription="idle2", initial_position=None)
    assert world.wire.at_end[2:] == [late.consumer_id], (
        "a consumer that comes to the end is notified at once"
    )


async def test_it_stays_terminated_wherever_it_is_opened_next(
    world: World, store: MemoryLedgerStore
) -> None:
    await world.publish(await world.producer(), "a")
    ended = await world.registry.terminate(world.name)
    await world.registry.unload_topic(world.name)
    with pytest.raises(BrokerError) as refused:
        await world.producer()
    assert refused.value.code is ServerError.TopicTerminatedError
    assert await world.registry.terminate(world.name) == ended


async def test_where_it_cannot_be_written_down_the_topic_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.producer()

    async def refuse(_: object, last: object) -> None:
        with pytest.raises(BrokerError) as meanwhile:
            await world.producer()
        assert meanwhile.value.code is ServerError.ServiceNotReady
        raise BrokerError(ServerError.ServiceNotReady, "the metadata store does not answer")

    monkeypatch.setattr(world.cluster, "terminate", refuse)
    with pytest.raises(BrokerError, match="does not answer"):
        await world.registry.terminate(world.name)
    await world.publish(await world.producer(), "on we go")
    await asyncio.sleep(0)
    assert world.wire.at_end == []


async def test_it_takes_producers_again_where_its_end_was_cancelled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.producer()
    asked = asyncio.Event()

    async def hang(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(world.cluster, "terminate", hang)
    ending = asyncio.create_task(world.registry.terminate(world.name))
    await asked.wait()
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    await world.publish(await world.producer(), "on we go")
