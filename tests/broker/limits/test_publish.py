"""Publish limits over a broker's topics: throttled entries pass in their order, or end with their
producer.
"""

import asyncio
import logging
from typing import cast

import pytest

from counterpoise.broker.limits.dispatch_flow import Dispatches
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import Rate, TopicRates
from counterpoise.names.topic import TopicName
from counterpoise.wire.values import AccessMode
from tests.broker.limits.clients import Clients, FakeTopic, Publisher, Wired
from tests.broker.limits.conftest import LimitedTopics, timers
from tests.quota.jumping import on_jumping_loop, pass_time

TEN = TopicRates(Rate(messages=10))


@on_jumping_loop
async def test_what_exceeds_the_rate_goes_on_in_its_order(limited: LimitedTopics) -> None:
    producer = await limited.producer(TEN)
    limited.publish(producer, *range(30))
    assert await limited.receipts(1) == [0]
    assert limited.world.wire.held_entries == 29
    for _ in range(10):
        await pass_time(0.1)
    assert await limited.receipts(11) == list(range(11))
    for _ in range(20):
        await pass_time(0.1)
    assert await limited.receipts(30) == list(range(30))
    assert limited.world.wire.held_entries == 0
    assert timers() == 0


@on_jumping_loop
async def test_a_row_that_is_longer_than_what_is_free_passes_as_far_as_that_goes(
    limited: LimitedTopics,
) -> None:
    producer = await limited.producer(TopicRates(Rate(messages=1000)))
    limited.publish(producer, 0)
    free = producer.flow.free_messages
    assert 0 < free < 1000
    limited.publish(producer, *range(1, 1 + free + 500))
    assert limited.world.wire.held_entries > 450
    assert await limited.receipts(1) == list(range(len(limited.world.wire.receipted)))


@on_jumping_loop
async def test_after_each_read_what_was_set_aside_and_is_not_used_is_there_for_others(
    limited: LimitedTopics,
) -> None:
    producer = await limited.producer(TopicRates(Rate(messages=1000)))
    for number in range(3):
        limited.publish(producer, number)
        assert producer.flow.free_messages
        await pass_time(0.01)
        assert producer.flow.free_messages == 0
        assert limited.limit().passed_messages == number + 1


@on_jumping_loop
async def test_a_throttled_entry_that_cannot_be_published_takes_no_room_any_more() -> None:
    clients = Clients(asyncio.get_running_loop())
    topic = await clients.topic("x", Rate(messages=1000))
    publisher = Publisher(clients, topic, Wired(clients.memory), "p")
    for _ in range(17):
        publisher.send(1, 10)
    publisher.sink.read()
    assert publisher.sink.held_entries == 1
    publisher.passed.append(-1)  # it is out of order then, and so is refused
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    await pass_time(1)
    assert publisher.sink.held_entries == 0


@on_jumping_loop
async def test_bytes_count_as_well(limited: LimitedTopics) -> None:
    producer = await limited.producer(TopicRates(Rate(size=1000)))
    limited.publish(producer, *range(3), size=900)
    assert await limited.receipts(1) == [0]
    await pass_time(0.8)
    await asyncio.sleep(0)
    assert len(await limited.receipts(1)) == 1
    await pass_time(0.3)
    assert len(await limited.receipts(2)) == 2


@on_jumping_loop
async def test_a_removed_rate_releases_all_of_it(limited: LimitedTopics) -> None:
    producer = await limited.producer(TEN)
    limited.publish(producer, *range(30))
    await limited.set_rates(TopicRates())
    assert await limited.receipts(30) == list(range(30))
    assert producer.flow is None
    assert timers() == 0


@on_jumping_loop
async def test_a_rate_that_is_set_holds_for_those_who_are_there(limited: LimitedTopics) -> None:
    producer = await limited.producer(TopicRates())
    limited.publish(producer, *range(30))
    await limited.receipts(30)
    await limited.set_rates(TEN)
    limited.publish(producer, *range(30, 40))
    assert await limited.receipts(31) == list(range(31))
    assert limited.world.wire.held_entries == 9


@on_jumping_loop
async def test_a_raised_rate_is_felt_at_once(limited: LimitedTopics) -> None:
    producer = await limited.producer(TEN)
    limited.publish(producer, *range(30))
    await limited.set_rates(TopicRates(Rate(messages=10_000)))
    await pass_time(0.005)
    assert await limited.receipts(30) == list(range(30))


@on_jumping_loop
async def test_the_brokers_rate_and_a_groups_hold_for_all_their_topics(
    limited: LimitedTopics,
) -> None:
    producer = await limited.producer(TopicRates(resource_group="g"))
    assert producer.flow is None
    limited.limits.set_group_rate("g", Rate(messages=10))
    limited.limits.set_broker_rate(Rate(messages=1000))
    limited.publish(producer, *range(5))
    assert await limited.receipts(1) == [0]
    assert [limit.subject for limit in limited.limits.all()] == ["b", "g"]
    limited.limits.set_group_rate("g", Rate())
    await pass_time(0.002)
    assert await limited.receipts(5) == list(range(5))
    limited.limits.set_broker_rate(Rate())
    assert producer.flow is None
    assert limited.limits.all() == []


@on_jumping_loop
async def test_a_groups_rate_that_is_set_and_removed_holds_for_those_who_are_there(
    limited: LimitedTopics,
) -> None:
    producer = await limited.producer(TopicRates(resource_group="g"))
    limited.limits.set_group_rate("g", Rate(messages=10))
    limited.publish(producer, *range(5))
    assert await limited.receipts(1) == [0]
    assert limited.world.wire.held_entries == 4
    limited.limits.set_group_rate("g", Rate())
    assert await limited.receipts(5) == list(range(5))
    assert producer.flow is None
    assert timers() == 0


@on_jumping_loop
async def test_a_topic_that_changes_its_group_has_the_other_ones_limit(
    limited: LimitedTopics,
) -> None:
    producer = await limited.producer(TopicRates(resource_group="slow"))
    limited.limits.set_group_rate("slow", Rate(messages=10))
    limited.limits.set_group_rate("fast", Rate(messages=1_000_000))
    limited.publish(producer, *range(5))
    assert await limited.receipts(1) == [0]
    await limited.set_rates(TopicRates(resource_group="fast"))
    await pass_time(0.002)
    assert await limited.receipts(5) == list(range(5))
    assert timers() == 0


@on_jumping_loop
async def test_a_producer_waits_at_the_narrowest_of_the_limits_that_are_reached(
    limited: LimitedTopics,
) -> None:
    """There an administrator finds it: the topic's, then its group's, then the broker's."""
    ten = Rate(messages=10)
    producer = await limited.producer(TopicRates(ten, "g"))
    limited.limits.set_group_rate("g", ten)
    limited.limits.set_broker_rate(ten)
    limited.publish(producer, *range(30))

    def waits_at() -> list[str]:
        return [limit.level for limit in limited.limits.snapshots() if limit.producers]

    assert waits_at() == ["TopicPublishRate"]
    await limited.set_rates(TopicRates(resource_group="g"))
    assert waits_at() == ["ResourceGroupPublishRate"]
    limited.limits.set_group_rate("g", Rate())
    assert waits_at() == ["BrokerPublishRate"]


@on_jumping_loop
async def test_a_topic_that_ends_while_its_rates_are_read_has_none() -> None:
    """And the topics that are read after it have theirs."""
    read, go_on = asyncio.Event(), asyncio.Event()
    rates = TopicRates()

    async def rates_of(topic: TopicName) -> TopicRates:
        if rates == one_second and topic.local_name == "leaves":
            read.set()
            await go_on.wait()
        return rates

    one = Rate(messages=1)
    one_second = TopicRates(one, dispatch=one, subscription_dispatch=one, subscribe=one)
    limits = PublishLimits("b", rates_of)
    leaves, stays = FakeTopic("leaves"), FakeTopic("stays")
    for each in (leaves, stays):
        await limits.begin(each)
    rates = one_second
    refreshed = asyncio.ensure_future(limits.refresh([leaves, stays]))
    await read.wait()
    limits.end(leaves)
    go_on.set()
    await refreshed
    assert [limit.subject for limit in limits.all()] == [str(stays.name)]
    nothing = cast("Dispatches", None)
    assert limits.dispatch.join(leaves.name, "s", nothing).limits == ()
    assert limits.dispatch.join(stays.name, "s", nothing).limits != ()
    for _ in range(5):
        limits.subscribe.admit(leaves.name, "10.0.0.1:1", "c", 1)


@on_jumping_loop
async def test_a_producer_that_ends_takes_along_what_was_held(limited: LimitedTopics) -> None:
    producer = await limited.producer(TEN)
    other = await limited.world.producer()
    limited.publish(producer, *range(5))
    limited.publish(other, 100)
    assert await limited.receipts(1) == [0]
    assert limited.world.wire.held_entries == 5
    assert producer.close() == 4
    assert limited.world.wire.held_entries == 1
    await pass_time(0.1)
    assert await limited.receipts(2) == [0, 100]
    assert timers() == 0


@on_jumping_loop
async def test_a_topic_that_moves_holds_nothing_back(limited: LimitedTopics) -> None:
    producer = await limited.producer(TEN)
    limited.publish(producer, *range(5))
    await limited.receipts(1)
    await limited.world.registry.unload_topic(limited.world.name)
    assert limited.world.wire.held_entries == 0
    assert limited.world.wire.closed_producers == [(producer.producer_id, None)]
    assert timers() == 0
    assert limited.limits.all() == []


@on_jumping_loop
async def test_what_was_throttled_stays_counted_when_its_producer_is_gone(
    limited: LimitedTopics,
) -> None:
    producer = await limited.producer(TEN)
    topic = await limited.world.topic()
    limited.publish(producer, *range(5))
    assert limited.limits.throttled_times(topic) == 1
    producer.close()
    assert limited.limits.throttled_times(topic) == 1
    other = await limited.world.producer()
    limited.publish(other, *range(5))
    assert limited.limits.throttled_times(topic) == 2
    await limited.set_rates(TopicRates())
    assert other.flow is None
    assert limited.limits.throttled_times(topic) == 2


@on_jumping_loop
async def test_a_producer_that_comes_back_on_its_connection_starts_again(
    limited: LimitedTopics,
) -> None:
    first = await limited.producer(TEN, name="p", epoch=0)
    limited.publish(first, *range(5))
    assert await limited.receipts(1) == [0]
    request = first.request
    topic = await limited.world.topic()
    again = topic.add_producer(
        type(request)(request.producer_id, name="p", epoch=1), limited.world.wire
    )
    assert limited.world.wire.held_entries == 0
    limited.publish(again, 7)
    await pass_time(0.2)
    assert await limited.receipts(2) == [0, 7]


@on_jumping_loop
async def test_an_exclusive_producer_fences_off_what_was_held(limited: LimitedTopics) -> None:
    first = await limited.producer(TEN)
    limited.publish(first, *range(5))
    await limited.world.producer(access_mode=AccessMode.ExclusiveWithFencing)
    assert limited.world.wire.held_entries == 0
    assert limited.limit().waiting == {}


@on_jumping_loop
async def test_idle_limits_set_no_timers(limited: LimitedTopics) -> None:
    limited.rates = TEN
    for number in range(300):
        await limited.world.topic(TopicName.parse(f"persistent://t/n/t{number}"))
    assert len(limited.limits.all()) == 300
    assert timers() == 0


@on_jumping_loop
async def test_the_log_says_once_that_a_limit_is_reached_and_once_that_it_no_longer_is(
    limited: LimitedTopics, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "counterpoise.broker.limits")
    producer = await limited.producer(TEN, name="busy")
    limited.publish(producer, *range(20))
    for _ in range(20):
        await pass_time(0.1)
    await limited.receipts(20)
    await pass_time(20)
    reached, over = [record.getMessage() for record in caplog.records]
    assert reached.startswith("TopicPublishRate of persistent://t/n/x (10 messages/s) is reached")
    assert "producer busy" in reached
    assert "is no longer reached" in over
    assert "in 1.9 s it throttled 1 times, 1.9 s altogether" in over


@on_jumping_loop
async def test_each_time_that_a_limit_is_reached_is_logged_with_its_own_figures(
    limited: LimitedTopics, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "counterpoise.broker.limits")
    producer = await limited.producer(TEN)
    for entries, pause in ((6, 3.0), (6, 30.0), (11, 30.0)):
        limited.publish(producer, *range(entries))
        await pass_time(pause)
    over = [each.getMessage() for each in caplog.records if "no longer" in each.getMessage()]
    assert len(over) == 2
    # Six entries of a limit of 10/s: 0.5 s. The first two times are one span, of 3.5 s.
    assert over[0].endswith("in 3.5 s it throttled 2 times, 1.0 s altogether")
    assert over[1].endswith("in 1.0 s it throttled 1 times, 1.0 s altogether")


@on_jumping_loop
async def test_what_an_administrator_reads_of_a_throttled_producer(limited: LimitedTopics) -> None:
    producer = await limited.producer(TEN, name="busy", address="10.0.0.7:1")
    limited.publish(producer, *range(5), size=100)
    await pass_time(0.15)
    (limit,) = limited.limits.snapshots()
    assert (limit.level, limit.subject) == ("TopicPublishRate", "persistent://t/n/x")
    assert (limit.messages, limit.bytes, limit.period_s, limit.times) == (10, 0, 1, 1)
    assert (limit.passed_messages, limit.subscriptions) == (2, ())
    assert limit.seconds == pytest.approx(0.15)
    (throttled,) = limit.producers
    assert (throttled.name, throttled.address) == ("busy", "10.0.0.7:1")
    assert (throttled.topic, throttled.times) == ("persistent://t/n/x", 1)
    assert throttled.held_entries == 3
    assert 300 <= throttled.held_bytes < 600
    assert throttled.seconds == pytest.approx(0.15)
    assert limited.limits.throttled_ns(producer.flow) == pytest.approx(0.15e9)  # type: ignore[arg-type]
    await pass_time(5)
    (limit,) = limited.limits.snapshots()
    assert (limit.producers, limit.passed_messages) == ((), 5)
    assert limit.seconds == pytest.approx(0.4, abs=0.01)
    assert limited.limits.throttled_ns(producer.flow) == pytest.approx(0.4e9, abs=1e7)  # type: ignore[arg-type]


@on_jumping_loop
async def test_a_broker_that_ends_has_no_timers(limited: LimitedTopics) -> None:
    producer = await limited.producer(TEN)
    limited.publish(producer, *range(5))
    assert timers() == 1
    limited.limits.stop()
    assert timers() == 0
    assert asyncio.get_running_loop().timers_of("LimitEpisodes._look") == 0  # type: ignore[attr-defined]


@on_jumping_loop
async def test_nothing_holds_any_more_for_a_topic_that_has_ended() -> None:
    """Not for its producers, and not for a topic of the same name that nothing limits."""
    loop = asyncio.get_running_loop()
    clients = Clients(loop)
    limits = clients.limits
    topic = await clients.topic("x", Rate(messages=1))
    one = Rate(messages=1)
    rates = TopicRates(one, dispatch=one, subscription_dispatch=one, subscribe=one)
    clients.rates[topic.name] = rates
    await limits.refresh([topic])
    publisher = Publisher(clients, topic, Wired(clients.memory), "p")
    for _ in range(5):
        publisher.send(1, 10)
    publisher.sink.read()
    assert publisher.sink.held_entries
    limits.subscribe.admit(topic.name, "10.0.0.1:1", "c", 1)
    limits.end(topic)
    assert publisher.flow is None
    assert publisher.sink.held_entries == 0
    assert timers() == 0
    assert limits.dispatch.join(topic.name, "s", cast("Dispatches", None)).limits == ()
    for _ in range(5):
        limits.subscribe.admit(topic.name, "10.0.0.1:1", "c", 1)
