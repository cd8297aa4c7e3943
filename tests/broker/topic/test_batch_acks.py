"""What is kept of acknowledgements inside a batch is bounded by the batch."""

import pytest

from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.stored_message import batch_from
from counterpoise.broker.topic.subscription import UNREAD_WORDS_MAX
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import Position
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World, batch, entry, publish

FRAME = 600_000
"""About as many words as one frame has room for."""


async def left_of_a_batch(
    store: MemoryLedgerStore, size: int, acked: tuple[int, ...], *, in_memory: bool = True
) -> tuple[int, ...] | None:
    """The words with which a batch is delivered again; None: it is acknowledged."""
    world = World(store, options=TopicOptions(batch_index_acks=True))
    producer = await world.producer()
    publish(producer, 0, 0, batch(size))
    consumer = await world.consumer(SubscriptionType.Shared)
    await world.wire.until(lambda: bool(world.wire.deliveries))
    [(ledger_id, entry_id, _)] = world.wire.ids(consumer)
    with pytest.MonkeyPatch.context() as patched:
        if not in_memory:
            patched.setattr(type(consumer.subscription.log), "cached", lambda *_: None)
        consumer.ack_individual([(ledger_id, entry_id, acked)])
    consumer.close()
    publish(producer, 1, 1, entry("next"))
    again = await world.consumer(SubscriptionType.Shared, permits=2000)
    await world.wire.until(lambda: "next" in world.wire.payloads(again))
    return next(
        (tuple(m[4]) for c, m in world.wire.deliveries if c == again.consumer_id and m[1] == 0),
        None,
    )


@pytest.mark.parametrize("size", [3, 64, 65])
async def test_words_behind_a_batch_are_not_kept(store: MemoryLedgerStore, size: int) -> None:
    words = -(-size // 64)
    part = (0b101,) * words
    assert await left_of_a_batch(store, size, part + (2**64 - 1,) * FRAME) == part


async def test_a_batch_of_which_only_words_behind_it_are_left_is_acknowledged(
    store: MemoryLedgerStore,
) -> None:
    assert await left_of_a_batch(store, 3, (0,) + (1,) * FRAME) is None


@pytest.mark.parametrize("words", [UNREAD_WORDS_MAX, UNREAD_WORDS_MAX + 1, FRAME])
async def test_of_a_batch_that_memory_has_not_few_words_are_kept(
    store: MemoryLedgerStore, words: int
) -> None:
    """It is acknowledged as a whole then, and comes again as a whole until it is."""
    part = (1,) * words
    kept = part if words == UNREAD_WORDS_MAX else ()
    assert await left_of_a_batch(store, 1000, part, in_memory=False) == kept


@pytest.mark.parametrize(("is_enabled", "unacked"), [(True, 2), (False, 3)])
async def test_part_of_a_batch_counts_as_acknowledged_only_where_that_is_enabled(
    store: MemoryLedgerStore, is_enabled: bool, unacked: int
) -> None:
    world = World(store, options=TopicOptions(batch_index_acks=is_enabled))
    publish(await world.producer(), 0, 0, batch(3))
    consumer = await world.consumer(SubscriptionType.Shared)
    await world.wire.until(lambda: bool(world.wire.deliveries))
    [(ledger_id, entry_id, _)] = world.wire.ids(consumer)
    consumer.ack_individual([(ledger_id, entry_id, (0b110,))])
    assert consumer.unacked == unacked


@pytest.mark.parametrize(("is_enabled", "delivered"), [(True, (0b110,)), (False, ())])
async def test_a_seek_into_a_batch_delivers_what_it_asks_of_it(
    store: MemoryLedgerStore, is_enabled: bool, delivered: tuple[int, ...]
) -> None:
    world = World(store, options=TopicOptions(batch_index_acks=is_enabled))
    publish(await world.producer(), 0, 0, batch(3))
    consumer = await world.consumer(SubscriptionType.Exclusive)
    await world.wire.until(lambda: bool(world.wire.deliveries))
    [(ledger_id, entry_id, _)] = world.wire.ids(consumer)
    at, deleted = Position(ledger_id, entry_id), Position(ledger_id - 1, entry_id)
    left = [await batch_from(consumer.subscription.log, each, 1) for each in (at, deleted)]
    assert left == [[0b110], ()], "what follows a deleted batch is another"
    await consumer.seek_to(at, left[0])
    again = await world.consumer(SubscriptionType.Exclusive)
    await world.wire.until(lambda: bool(world.wire.ids(again)))
    assert tuple(world.wire.deliveries[-1][1][4]) == delivered
