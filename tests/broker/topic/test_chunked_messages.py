"""A Shared subscription sends all chunks of a message to one consumer, as Pulsar does."""

import asyncio
import tracemalloc
from collections import defaultdict
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.dispatch import chunked_messages
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.entry import CHUNK_TAG, chunk_of
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import Wire, World, entry

CHUNKS = 3
STEP = st.one_of(
    st.tuples(st.just("chunk"), st.integers(0, 3)),
    st.tuples(st.just("flow"), st.integers(0, 1)),
    st.tuples(st.just("message"), st.just(0)),
    st.tuples(st.just("leave"), st.integers(0, 1)),
)
"""A producer sends its next chunk or a whole message; one of two consumers has room for one more,
or leaves, and another comes in its place."""


def test_the_id_of_a_message_that_goes_on_takes_little_memory() -> None:
    """Producers choose it: ten thousand are remembered, and each may have megabytes."""
    consumer = cast("Consumer", object())
    chunked, size = chunked_messages.ChunkedMessages(), 100_000
    tracemalloc.start()
    for number in range(20):
        # The tag is looked for at the beginning, where a field has it by chance.
        fields = {"schema_version": CHUNK_TAG, "chunk_id": 0, "num_chunks_from_msg": 2}
        chunk = entry("", uuid=f"{number}" * size, **fields)
        assert chunked.consumer_of(chunk, number, consumer) is consumer
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 5 * size


@settings(deadline=None, max_examples=60)
@given(st.lists(STEP, max_size=40))
def test_a_message_is_delivered_whole_to_one_consumer(script: list[tuple[str, int]]) -> None:
    asyncio.run(_play(script))


async def _play(script: list[tuple[str, int]]) -> None:
    world = World(MemoryLedgerStore(), options=TopicOptions(round_robin_messages=1))

    async def consumer(permits: int = 0) -> Consumer:
        return await world.consumer(SubscriptionType.Shared, permits=permits)

    async def send(sender: int) -> None:
        uuid, number = divmod(sent[sender], CHUNKS)
        fields = {"chunk_id": number, "num_chunks_from_msg": CHUNKS}
        text = f"{sender}-{sent[sender]}"
        await world.publish(producer, text, uuid=f"{sender}-{uuid}", **fields)
        sent[sender] += 1

    consumers, gone = [await consumer(), await consumer()], set[int]()
    producer = await world.producer()
    sent, whole = [0] * 4, 0
    for step, number in script:
        if step == "chunk":
            await send(number)
        elif step == "message":
            await world.publish(producer, "whole")
            whole += 1
        elif step == "flow":
            consumers[number].flow(1)
        else:
            gone.add(consumers[number].consumer_id)
            consumers[number].close()
            consumers[number] = await consumer()
    for sender in range(4):
        while sent[sender] % CHUNKS:
            await send(sender)
    for each in consumers:
        each.flow(1000)
    due = sum(sent) + whole

    def live() -> list[tuple[int, bytes]]:
        return [(who, each[3]) for who, each in world.wire.deliveries if who not in gone]

    await world.wire.until(lambda: len(live()) == due)
    got = defaultdict[str, list[tuple[int, int]]](list)
    for who, sent_to in live():
        chunk = chunk_of(sent_to)
        if chunk is not None:
            got[chunk.uuid].append((who, chunk.number))
    for uuid, chunks in got.items():
        assert [number for _, number in chunks] == [*range(CHUNKS)], uuid
        assert len({who for who, _ in chunks}) == 1, f"{uuid} is in two parts: {chunks}"


async def test_chunks_without_a_first_one_go_to_any_consumer(world: World) -> None:
    """It may have been before the subscription began: clients drop what is left of the message."""
    await world.consumer(SubscriptionType.Shared, permits=1)
    producer = await world.producer()
    await world.publish(producer, "b", uuid="u", chunk_id=1, num_chunks_from_msg=2)
    assert world.wire.payloads() == ["b"]


def chunk(uuid: str, number: int, count: int = 2) -> dict[str, object]:
    return {"uuid": uuid, "chunk_id": number, "num_chunks_from_msg": count}


async def test_what_waits_for_a_consumer_that_leaves_goes_to_another(world: World) -> None:
    first = await world.consumer(SubscriptionType.Shared, permits=1)
    producer = await world.producer()
    await world.publish(producer, "a1", **chunk("a", 0))
    second = await world.consumer(SubscriptionType.Shared)
    await world.publish(producer, "a2", **chunk("a", 1))
    assert world.wire.payloads(second) == []
    first.close()
    assert world.wire.payloads(second) == ["a1", "a2"]


async def test_a_chunk_waits_for_a_connection_that_is_full(world: World) -> None:
    full = Wire()
    first = await world.consumer(SubscriptionType.Shared, wire=full)
    producer = await world.producer()
    await world.publish(producer, "a1", **chunk("a", 0))
    full.writable = False
    second = await world.consumer(SubscriptionType.Shared)
    await world.publish(producer, "a2", **chunk("a", 1))
    assert (full.payloads(), world.wire.payloads(second)) == (["a1"], [])
    full.writable = True
    first.resume()
    assert full.payloads() == ["a1", "a2"]


async def test_a_message_of_one_chunk_is_not_kept_in_mind(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    monkeypatch.setattr(chunked_messages, "MESSAGES_MAX", 1)
    first = await world.consumer(SubscriptionType.Shared, permits=2)
    producer = await world.producer()
    await world.publish(producer, "a1", **chunk("a", 0))
    await world.publish(producer, "b", **chunk("b", 0, 1))
    second = await world.consumer(SubscriptionType.Shared)
    await world.publish(producer, "a2", **chunk("a", 1))
    assert world.wire.payloads(second) == []
    first.flow(1)
    assert world.wire.payloads(first) == ["a1", "b", "a2"]


async def test_of_messages_without_an_end_the_oldest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    monkeypatch.setattr(chunked_messages, "MESSAGES_MAX", 2)
    first = await world.consumer(SubscriptionType.Shared, permits=3)
    producer = await world.producer()
    for uuid in "abc":
        await world.publish(producer, uuid, uuid=uuid, chunk_id=0, num_chunks_from_msg=2)
    second = await world.consumer(SubscriptionType.Shared)
    for uuid in "abc":
        await world.publish(producer, f"{uuid}2", uuid=uuid, chunk_id=1, num_chunks_from_msg=2)
    assert world.wire.payloads(second) == ["a2"]
    first.flow(2)
    assert world.wire.payloads(first)[3:] == ["b2", "c2"]
