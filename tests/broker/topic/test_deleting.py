"""A topic is deleted while a client opens it: nothing is published to a log that is gone."""

import asyncio

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic import topics
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.producer import Producer
from counterpoise.names.topic import TopicName
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from tests.broker.topic.conftest import Everything, World, entry, publish
from tests.broker.topic.test_loading import Opening
from tests.waiting import WITHIN_S, turns

STEPS = range(14)
"""Turns of the loop by which one of them is ahead: more than either takes."""


class Slow(Everything):
    """Takes a few turns of the loop for each answer, as a store over a network does."""

    async def exists(self, topic: TopicName) -> bool:
        found = await super().exists(topic)
        for _ in range(4):
            await asyncio.sleep(0)
        return found

    async def delete(self, topic: TopicName) -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        if topic in self.created:
            await super().delete(topic)


def slow_world() -> World:
    world = World(MemoryLedgerStore())
    world.cluster = Slow()
    world.registry = topics.TopicRegistry(
        world.store, world.cluster, world.cluster, owner="broker-1"
    )
    return world


@pytest.fixture
async def world() -> World:
    return slow_world()


async def is_whole(world: World, opening: asyncio.Task[Producer]) -> bool:
    """Whether the producer was let in; whatever it got a receipt for is there."""
    await asyncio.wait([opening])
    if (refused := opening.exception()) is not None:
        assert isinstance(refused, BrokerError)
        assert refused.code is ServerError.ServiceNotReady
        return False
    producer = opening.result()
    before = len(world.wire.receipted)
    publish(producer, 0, 0, entry("kept"))
    await turns()
    if len(world.wire.receipted) == before:
        assert producer.closed, "it waits for a receipt that never comes"
        return False
    assert await world.cluster.exists(world.name), "it is served and not listed"
    await world.registry.unload_topic(world.name)
    assert world.wire.payloads(await world.consumer()) == ["kept"]
    return True


async def test_a_client_that_opens_what_is_being_deleted_publishes_to_a_topic_that_stays() -> None:
    let_in = []
    for ahead in STEPS:
        world = slow_world()
        await world.publish(await world.producer(), "before")
        deleting = asyncio.ensure_future(world.registry.delete(world.name, force=True))
        for _ in range(ahead):
            await asyncio.sleep(0)
        opening = asyncio.ensure_future(world.producer())
        await deleting
        let_in.append(await is_whole(world, opening))
    assert let_in == sorted(let_in)
    assert set(let_in) == {False, True}, "before its end no client, afterwards every client"


async def test_what_is_being_opened_is_deleted_as_a_whole() -> None:
    for ahead in STEPS:
        world = slow_world()
        await world.publish(await world.producer(), "before")
        await world.registry.unload_topic(world.name)
        opening = asyncio.ensure_future(world.producer())
        for _ in range(ahead):
            await asyncio.sleep(0)
        await world.registry.delete(world.name, force=True)
        # A client that came after the deletion had begun has got a new topic.
        assert await is_whole(world, opening) is await world.cluster.exists(world.name)


async def test_a_deletion_ends_although_its_caller_is_gone(world: World) -> None:
    await world.publish(await world.producer(), "before")
    asked = asyncio.ensure_future(world.registry.delete(world.name, force=True))
    await asyncio.sleep(0)
    asked.cancel()
    await turns()
    assert not await world.cluster.exists(world.name)
    assert world.wire.payloads(await world.consumer()) == []


@pytest.mark.parametrize("patience_s", [60.0, 0.0])
async def test_a_client_that_opens_what_is_being_deleted_waits_for_its_end(
    patience_s: float, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The C++ client would not ask again for a consumer that is refused meanwhile."""
    monkeypatch.setattr(topics, "DELETION_S", patience_s)
    await world.topic()
    answer, delete = asyncio.Event(), world.store.delete

    async def late(name: str) -> None:
        await answer.wait()
        await delete(name)

    monkeypatch.setattr(world.store, "delete", late)
    deleting = asyncio.ensure_future(world.registry.delete(world.name))
    await turns()

    async def open_it() -> Consumer:
        await world.registry.wait_for_deletion(world.name)
        return await world.consumer()

    opening = asyncio.ensure_future(open_it())
    if not patience_s:
        with pytest.raises(BrokerError, match="is being deleted"):
            await opening
    await turns()
    assert opening.done() is not bool(patience_s)
    answer.set()
    await deleting
    if patience_s:
        assert not (await opening).closed
        assert await world.cluster.exists(world.name)


async def test_of_two_deletions_at_once_the_second_is_refused(world: World) -> None:
    await world.publish(await world.producer(), "before")
    first, second = await asyncio.gather(
        world.registry.delete(world.name, force=True),
        world.registry.delete(world.name, force=True),
        return_exceptions=True,
    )
    assert first is None
    assert isinstance(second, BrokerError)
    assert "is being deleted" in second.message


async def test_a_topic_whose_disk_is_silent_is_released(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next client loads it again, instead of meeting one that is always leaving."""
    monkeypatch.setattr(topics, "UNLOAD_TIMEOUT_S", 0.01)
    producer = await world.producer()
    monkeypatch.setattr((await world.topic()).log, "_write", lambda _group: None)  # type: ignore[attr-defined]
    publish(producer, 0, 0, entry("never stored"))
    await turns()
    with pytest.raises(BrokerError, match="did not close within"):
        await world.registry.unload_topic(world.name)
    assert world.wire.closed_producers == [(producer.producer_id, None)]
    await world.publish(await world.producer(), "next")
    assert world.wire.payloads(await world.consumer()) == ["next"]


@pytest.mark.parametrize("is_idle", [False, True])
async def test_a_partitioned_topic_goes_only_with_partitions_that_were_not_in_use(
    is_idle: bool,
) -> None:
    options = TopicOptions(inactive_s=0, deletes_inactive_partitioned=True)
    world = World(MemoryLedgerStore(), options=options)
    await world.topic()
    await world.registry.delete(world.name, if_idle=is_idle)
    assert world.cluster.unparted == [world.name] * is_idle


async def test_an_unload_of_a_bundle_waits_for_what_is_being_deleted_in_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next owner must not find half of it."""
    await world.topic()
    answer, delete = asyncio.Event(), world.store.delete

    async def late(name: str) -> None:
        await answer.wait()
        await delete(name)

    monkeypatch.setattr(world.store, "delete", late)
    deleting = asyncio.ensure_future(world.registry.delete(world.name))
    await turns()
    bundle = world.cluster.bundle_of(world.name)
    unloading = asyncio.ensure_future(world.registry.unload_bundle(bundle, None))
    await turns()
    assert not unloading.done()
    answer.set()
    await unloading
    assert deleting.done()


async def test_a_topic_that_is_loaded_again_stays_when_another_unload_of_it_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await world.topic()
    ends = [asyncio.Event(), asyncio.Event()]
    left = iter(ends)
    monkeypatch.setattr(topic, "leave", lambda _url: next(left).wait())
    unloads = [asyncio.ensure_future(world.registry.unload_topic(world.name)) for _ in ends]
    await turns()
    ends[0].set()
    await unloads[0]
    again = await world.topic()
    assert again is not topic
    ends[1].set()
    await unloads[1]
    assert world.registry.loaded[world.name] is again


@pytest.mark.parametrize("silent", ["while it writes", "while it opens"])
async def test_a_broker_that_stops_leaves_a_silent_disk(
    monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    monkeypatch.setattr(topics, "CLOSE_S", 0.01)
    opening = Opening()
    world = World(opening)
    waiting = asyncio.ensure_future(world.producer())
    await opening.until(lambda: len(opening.begun) == 1)
    if silent == "while it writes":
        opening.answers[opening.begun[0]].set_result(None)
        producer = await waiting
        monkeypatch.setattr((await world.topic()).log, "_write", lambda _group: None)  # type: ignore[attr-defined]
        publish(producer, 0, 0, entry("never stored"))
        await turns()
    async with asyncio.timeout(WITHIN_S):
        await world.registry.close()
    assert not world.registry.loaded
    waiting.cancel()


async def test_an_unload_that_waits_no_longer_cancels_no_load() -> None:
    """Its clients are answered when it ends, and not with silence."""
    opening = Opening()
    world = World(opening)
    waiting = asyncio.ensure_future(world.topic())
    await opening.until(lambda: len(opening.begun) == 1)
    bundle = world.cluster.bundle_of(world.name)
    world.cluster.refused.add(bundle)
    await world.registry.unload_bundle(bundle, None, timeout_s=0.01)
    opening.answers[opening.begun[0]].set_result(None)
    with pytest.raises(BrokerError, match="not served by this instance"):
        await waiting
