"""What a topic does with entries of producers that are under publish limits."""

from dataclasses import replace

import pytest

from counterpoise.broker.limits.rates import Rate, TopicRates
from counterpoise.broker.topic.ports import ProducerRequest
from counterpoise.wire.events import Send
from counterpoise.wire.values import AccessMode
from tests.broker.limits.conftest import LimitedTopics
from tests.broker.topic.conftest import entry
from tests.quota.jumping import on_jumping_loop, pass_time

MANY = TopicRates(Rate(messages=1000, size=100_000))


@on_jumping_loop
async def test_a_producer_that_comes_back_leaves_nothing_throttled() -> None:
    limited = LimitedTopics()
    limited.rates = TopicRates(Rate(messages=1))
    topic = await limited.world.topic()
    for epoch in range(2):
        request = ProducerRequest(7, name="me", epoch=epoch)
        producer = topic.add_producer(request, limited.world.wire)
        limited.publish(producer, *range(3))
        await limited.receipts(1)
    # Of the first the first one passed, and the rest is sent again by its successor.
    assert limited.world.wire.held_entries == 3
    await pass_time(10)
    assert await limited.receipts(4) == [0, 0, 1, 2]
    assert limited.world.wire.held_entries == 0


@on_jumping_loop
async def test_a_producer_that_is_closed_says_how_much_of_it_was_throttled() -> None:
    """Its connection waits for no response to these."""
    limited = LimitedTopics()
    producer = await limited.producer(TopicRates(Rate(messages=1)))
    limited.publish(producer, *range(4))
    assert await limited.receipts(1) == [0]
    assert [producer.close() for _ in range(2)] == [3, 0]


@on_jumping_loop
async def test_only_what_is_admitted_counts_towards_a_limit() -> None:
    limited = LimitedTopics()
    producer = await limited.producer(TopicRates(Rate(messages=1000, size=1_000_000)))
    limited.publish(producer, 0)
    topic = await limited.world.topic()
    topic.apply(replace(topic.rules, message_bytes=100))
    entries = [entry("x" * size) for size in (10, 1000, 10, 1000)]
    sends = [Send(0, number, number, 1, number == 4, it) for number, it in enumerate(entries, 1)]
    producer.publish(sends, sum(map(len, entries)))
    assert await limited.receipts(4) == [0, 1, 3, 4], "a chunk may have any size"
    assert [each[1] for each in limited.world.wire.errors] == [2]
    limited.limits.runner.throttle.return_reserved()
    stored = len(entry(0)) + sum(map(len, entries)) - len(entries[1])
    assert (limited.limit().passed_messages, limited.limit().passed_bytes) == (4, stored)


@on_jumping_loop
async def test_a_run_of_entries_passes_at_once_if_both_messages_and_bytes_are_left() -> None:
    for count, size in ((500, 0), (2, 90_000)):
        limited = LimitedTopics()
        producer = await limited.producer(MANY)
        limited.publish(producer, 0)
        limited.publish(producer, *range(1, 1 + count), size=size)
        limited.publish(producer, 1 + count)
        assert getattr(limited.world.wire, "held_entries", 0), (count, size)


@on_jumping_loop
async def test_a_topic_that_is_closing_stores_nothing_that_was_throttled() -> None:
    limited = LimitedTopics()
    producer = await limited.producer(TopicRates(Rate(messages=1)))
    limited.publish(producer, *range(3))
    topic = await limited.world.topic()
    topic.closing = True
    await pass_time(10)
    assert await limited.receipts(1) == [0]
    assert topic.log.end == 1


@pytest.mark.parametrize("way", ["quota", "encryption", "fencing", "unload"])
@on_jumping_loop
async def test_what_a_producer_had_throttled_when_the_topic_closed_it_takes_no_turn(
    way: str,
) -> None:
    """The limit is for those that are attached: entries that are sent again count again."""
    limited = LimitedTopics()
    producer = await limited.producer(TopicRates(Rate(messages=1)))
    topic = await limited.world.topic()
    limit = limited.limit()
    limited.publish(producer, *range(3))
    assert await limited.receipts(1) == [0]
    if way == "quota":
        topic.disconnect_producers()
    elif way == "encryption":
        topic.apply(replace(topic.rules, encryption_required=True))
    elif way == "fencing":
        await limited.world.producer(access_mode=AccessMode.ExclusiveWithFencing)
    else:
        await limited.world.registry.unload_topic(topic.name)
    assert limited.world.wire.held_entries == 0
    await pass_time(10)
    assert (limit.passed_messages, len(limit.waiting)) == (1, 0)
