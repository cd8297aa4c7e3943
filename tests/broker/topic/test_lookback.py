"""What is read of a log that is not delivered: a backlog's survey, single messages, their times."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.broker.base.advertised import NO_LISTENERS, SERVICE_URL, SERVICE_URL_TLS
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.lookback import earliest_in_backlog, last_batch_index, survey
from counterpoise.broker.topic.ports import ServiceUrls
from counterpoise.broker.topic.stored_message import stored_message
from counterpoise.storage.log_parts import parts_from
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import Chunk
from counterpoise.wire.errors import ServerError
from tests.broker.topic.conftest import World, batch, entry, publish


async def log_of(world: World, sizes: list[int]) -> Any:
    """A topic's log with batches of so many messages (1: a single one)."""
    producer = await world.producer()
    for n, size in enumerate(sizes):
        body = entry(n, publish_time=10 * n) if size == 1 else batch(size, publish_time=10 * n)
        publish(producer, n, n, body)
    log = (await world.topic()).log  # type: ignore[attr-defined]
    await log.drain()
    return log


def read_only(log: Any) -> None:
    """Memory has nothing, and a read is short."""
    in_memory = log.cached

    async def read(index: int, _: int) -> Chunk:
        chunk = in_memory(index)
        at = index - chunk.first
        return Chunk(index, chunk.entries[at : at + 2], chunk.messages[at : at + 2])

    log.cached, log.read = lambda _: None, read


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 4), max_size=12),
    st.sets(st.integers(0, 11)),
    st.integers(1, 8),
    st.booleans(),
)
def test_a_survey_counts_what_is_not_acknowledged(
    sizes: list[int], acked: set[int], most: int, in_memory: bool
) -> None:
    async def play() -> None:
        log = await log_of(World(MemoryLedgerStore(ledger_entries=3)), sizes)
        acks = AckState(-1)
        for each in acked:
            acks.ack(each)
        if not in_memory:
            read_only(log)
        left = [n for n in range(len(sizes)) if n not in acked]
        seen = left[:most]
        found = await survey(log, acks, most)
        messages = sum(sizes[n] for n in seen)
        first, last = (seen[0], seen[-1]) if seen else (-1, -1)
        assert found[:4] == (len(seen), messages, first, last)
        if len(left) > most:
            assert not found.complete
        if len(left) < most:
            assert found.complete
        parts = [(index, [*entries]) async for index, entries in parts_from(log, most)]
        whole = [(n, body) for first, bodies in parts for n, body in enumerate(bodies, first)]
        assert [n for n, _ in whole] == [*range(most, len(sizes))]
        for n, body in whole:
            stored = await stored_message(log, n)
            assert stored is not None
            assert body.endswith(stored.payload)
            assert (stored.metadata.publish_time, stored.compression) == (10 * n, "NONE")
            assert stored.position == log.position(n)

    asyncio.run(play())


async def test_there_is_no_message_before_the_first_nor_after_the_last(world: World) -> None:
    log = await log_of(world, [1, 3])
    found = [await stored_message(log, n) for n in (-1, 0, 1, 2)]
    assert [each is None for each in found] == [True, False, False, True]
    assert [await last_batch_index(log, n) for n in (-1, 0, 1)] == [-1, -1, 2]
    log.extend([b"what no client can read"], [1], [(await world.producer(), 0, 0)])
    await log.drain()
    assert await stored_message(log, 2) is None


async def test_the_oldest_message_of_a_backlog_has_a_time(world: World) -> None:
    log = await log_of(world, [1, 1, 1])
    consumer = await world.consumer()
    times = []
    for each in world.wire.ids(consumer):
        times.append(await earliest_in_backlog(log, consumer.subscription.acks))
        consumer.ack_individual([each])
    assert [*times, await earliest_in_backlog(log, consumer.subscription.acks)] == [0, 10, 20, None]


PLAIN = {SERVICE_URL: "pulsar://in", SERVICE_URL_TLS: "pulsar+ssl://in"}


@pytest.mark.parametrize(
    ("listeners", "asked", "seen"),
    [
        (NO_LISTENERS, "", ("pulsar://a", None)),
        ({"in": PLAIN}, "", ("pulsar://a", None)),
        ({"in": PLAIN, "out": PLAIN}, "", None),
        ({"in": PLAIN}, "in", ("pulsar://in", "pulsar+ssl://in")),
        ({"in": PLAIN}, "out", None),
    ],
)
def test_a_client_is_sent_to_the_port_of_its_listener(
    listeners: Any, asked: str, seen: tuple[str | None, str | None] | None
) -> None:
    assert ServiceUrls("pulsar://a", None, listeners).seen_by(asked) == seen


async def test_what_a_topic_cannot_do_is_refused_by_name(world: World) -> None:
    topic = await world.topic()
    reader = await world.consumer(durable=False)
    with pytest.raises(BrokerError, match="not durable") as refused:
        reader.subscription.in_transactions()
    assert refused.value.code is ServerError.NotAllowedError
    assert topic.compaction.grown_by() == 0  # type: ignore[attr-defined]
