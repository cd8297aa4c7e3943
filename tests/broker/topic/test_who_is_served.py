"""Which consumer of a subscription is served, and what it waits for."""

import asyncio
from typing import cast

import pytest

from counterpoise.admin.subscription_json import subscription_json
from counterpoise.broker.topic.dispatch.shared import SharedDispatcher
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import Wire, World, payload
from tests.broker.topic.ends import EARLIEST
from tests.quota.jumping import JumpingLoop, on_jumping_loop, pass_time
from tests.waiting import WITHIN_S

FAILOVER, SHARED = SubscriptionType.Failover, SubscriptionType.Shared


async def test_failover_serves_one_and_notifies_both(world: World) -> None:
    producer = await world.producer()
    first = await world.consumer(FAILOVER, consumer_name="a")
    second = await world.consumer(FAILOVER, consumer_name="b", priority_level=1)
    await world.publish(producer, *"ab")
    assert (world.wire.payloads(first), world.wire.payloads(second)) == (["a", "b"], [])
    async with asyncio.timeout(WITHIN_S):
        await world.wire.notified.wait()
    assert world.wire.active == [(second.consumer_id, False), (first.consumer_id, True)]
    first.ack_individual(world.wire.ids(first)[:1])
    first.close()
    assert world.wire.active[-1] == (second.consumer_id, True)
    assert world.wire.payloads(second) == ["b"]


async def test_a_consumer_that_is_served_no_longer_is_notified(store: MemoryLedgerStore) -> None:
    world = World(store, options=TopicOptions(failover_delay_ms=0))
    old = await world.consumer(FAILOVER, consumer_name="old", priority_level=1)
    new = await world.consumer(FAILOVER, consumer_name="new")
    assert world.wire.active == [
        (old.consumer_id, True),
        (old.consumer_id, False),
        (new.consumer_id, True),
    ]


@on_jumping_loop
async def test_a_failover_waits_for_none_that_has_left_and_notifies_none_of_what_ended() -> None:
    world = World(MemoryLedgerStore(), options=TopicOptions(failover_delay_ms=1000))
    await world.publish(await world.producer(), "a")
    old = await world.consumer(FAILOVER, consumer_name="old", priority_level=1)
    await pass_time(2)
    new = await world.consumer(FAILOVER, consumer_name="new")
    await pass_time(0.5)
    assert world.wire.payloads(new) == []
    old.close()
    assert world.wire.payloads(new) == ["a"]
    notified = [(old.consumer_id, True), (new.consumer_id, False), (new.consumer_id, True)]
    assert world.wire.active == notified
    await new.unsubscribe()
    late = await world.consumer(FAILOVER, permits=0)
    await pass_time(0.5)
    await late.unsubscribe()
    await pass_time(2)
    assert world.wire.active == notified


@on_jumping_loop
async def test_a_failover_that_switches_twice_in_its_delay_serves_the_last_one_alone() -> None:
    world = World(MemoryLedgerStore(), options=TopicOptions(failover_delay_ms=1000))
    await world.consumer(FAILOVER, consumer_name="first", priority_level=2)
    await pass_time(2)
    passed = await world.consumer(FAILOVER, consumer_name="passed", priority_level=1)
    await pass_time(0.5)
    last = await world.consumer(FAILOVER, consumer_name="last")
    await world.publish(await world.producer(), "a")
    await pass_time(2)
    await world.publish(await world.producer(), "b")
    assert world.wire.payloads(last) == ["a", "b"]
    assert world.wire.payloads(passed) == []
    assert world.wire.active[-1] == (last.consumer_id, True)
    assert (passed.consumer_id, True) not in world.wire.active


async def test_a_failover_switch_lets_acknowledgements_arrive_first(
    store: MemoryLedgerStore,
) -> None:
    world = World(store, options=TopicOptions(failover_delay_ms=20))
    producer = await world.producer()
    old = await world.consumer(FAILOVER, consumer_name="old", priority_level=1)
    await world.publish(producer, *"ab")
    new = await world.consumer(FAILOVER, consumer_name="new")
    assert world.wire.payloads(new) == []
    old.ack_individual(world.wire.ids(old))
    await world.publish(producer, "c")
    await world.wire.until(lambda: world.wire.payloads(new) == ["c"])
    assert world.wire.payloads(old) == ["a", "b"]


async def test_one_that_stands_by_has_nothing_delivered_again(world: World) -> None:
    first = await world.consumer(FAILOVER, consumer_name="a")
    second = await world.consumer(FAILOVER, consumer_name="b", priority_level=1)
    await world.publish(await world.producer(), *"ab")
    second.redeliver()
    assert world.wire.payloads() == ["a", "b"]
    first.redeliver()
    assert world.wire.payloads(first) == ["a", "b"] * 2


async def test_consumers_that_share_acknowledge_nothing_cumulatively(world: World) -> None:
    consumer = await world.consumer(SHARED)
    await world.publish(await world.producer(), *"ab")
    consumer.ack_cumulative(*world.wire.ids(consumer)[-1])
    assert consumer.subscription.backlog == 2


async def test_what_a_consumer_leaves_behind_counts_against_no_limit() -> None:
    world = World(MemoryLedgerStore(), options=TopicOptions(max_unacked_per_subscription=2))
    await world.publish(await world.producer(), *"abcd")
    first = await world.consumer(SHARED, permits=2)
    second = await world.consumer(SHARED)
    assert (world.wire.payloads(first), world.wire.payloads(second)) == (["a", "b"], [])
    first.close()
    assert world.wire.payloads(second)[:2] == ["a", "b"]


@pytest.mark.parametrize("seeks", [False, True])
@on_jumping_loop
async def test_nothing_wakes_for_delayed_messages_of_a_subscription_that_is_gone(
    seeks: bool,
) -> None:
    world = World(MemoryLedgerStore())
    consumer = await world.consumer(SHARED)
    due = round((world.registry.wall() + 60) * 1000)
    await world.publish(await world.producer(), "a", deliver_at_time=due)
    loop = cast("JumpingLoop", asyncio.get_running_loop())
    assert loop.timers_of("SharedDispatcher._due") == 1
    await (consumer.seek_to(EARLIEST) if seeks else consumer.unsubscribe())
    assert loop.timers_of("SharedDispatcher._due") == 0


async def test_a_shared_consumer_is_blocked_by_what_it_does_not_acknowledge(
    store: MemoryLedgerStore,
) -> None:
    world = World(store, options=TopicOptions(max_unacked_per_consumer=4))
    producer = await world.producer()
    consumer = await world.consumer(SHARED, permits=0)
    await world.publish(producer, *range(10))
    consumer.flow(100)
    assert world.wire.payloads() == ["0", "1", "2", "3"]
    assert consumer.blocked
    consumer.ack_individual(world.wire.ids(consumer)[:1])
    assert (consumer.blocked, len(world.wire.payloads())) == (True, 4)
    consumer.ack_individual(world.wire.ids(consumer)[1:2])
    assert len(world.wire.payloads()) == 6


async def test_what_another_consumer_acknowledges_is_held_no_longer(world: World) -> None:
    """After a reconnect a client acknowledges what it got on its former connection."""
    producer = await world.producer()
    first, second = [await world.consumer(SHARED, permits=1) for _ in range(2)]
    await world.publish(producer, *"ab")
    first.ack_individual(world.wire.ids(second))
    assert (first.unacked, second.unacked) == (1, 0)
    assert (await subscription_json(first.subscription))["unackedMessages"] == 1


async def test_a_shared_subscription_goes_round(world: World) -> None:
    producer = await world.producer()
    consumers = [await world.consumer(SHARED) for _ in range(3)]
    for n in range(9):
        await world.publish(producer, n)
    assert [len(world.wire.payloads(c)) for c in consumers] == [3, 3, 3]


async def test_a_better_priority_is_served_first(world: World) -> None:
    producer = await world.producer()
    low = await world.consumer(SHARED, priority_level=1)
    high = await world.consumer(SHARED, permits=2)
    await world.publish(producer, *"abcd")
    assert world.wire.payloads(high) == ["a", "b"]
    assert world.wire.payloads(low) == ["c", "d"]


async def test_a_message_waits_for_its_time_to_the_millisecond(
    store: MemoryLedgerStore, now_s: list[float]
) -> None:
    world = World(store, options=TopicOptions(delay_is_strict=True))
    producer = await world.producer()
    consumer = await world.consumer(SHARED)
    for body, after_ms in (("much later", 3_600_000), ("now", 0), ("third", 2), ("second", 1)):
        due = int(now_s[0] * 1000) + after_ms
        await world.publish(producer, body, deliver_at_time=due)
    assert world.wire.payloads(consumer) == ["now"]
    assert (consumer.subscription.delayed, consumer.subscription.backlog) == (3, 4)
    shown = await subscription_json(consumer.subscription)
    assert (shown["msgDelayed"], shown["msgBacklogNoDelayed"]) == (3, 1)
    for arrived in (["now", "second"], ["now", "second", "third"]):
        now_s[0] += 0.001
        await world.wire.until(lambda: len(world.wire.deliveries) >= len(arrived))  # noqa: B023
        assert world.wire.payloads(consumer) == arrived
    assert consumer.subscription.delayed == 1
    # What is passed over is neither delayed nor to be redelivered.
    subscription, dispatcher = consumer.subscription, consumer.subscription.dispatcher
    assert isinstance(dispatcher, SharedDispatcher)
    consumer.permits = 0
    consumer.redeliver()
    assert len(dispatcher.redeliveries) == 3
    subscription.skip(None)
    assert (subscription.delayed, dispatcher.redeliveries) == (0, {})


async def test_to_the_first_consumer_that_comes_nothing_was_ever_sent(
    store: MemoryLedgerStore, now_s: list[float]
) -> None:
    """Whatever others held, had returned, or waited for."""
    world = World(store, options=TopicOptions(delay_is_strict=True))
    producer = await world.producer()
    leaving = await world.consumer(SHARED)
    await world.publish(producer, "later", deliver_at_time=int(now_s[0] * 1000) + 1)
    await world.publish(producer, *"ab")
    leaving.redeliver(None)
    leaving.close()
    now_s[0] += 1
    next_one = await world.consumer(SHARED)
    await world.publish(producer, "end", deliver_at_time=int(now_s[0] * 1000) + 1)
    now_s[0] += 1
    await world.wire.until(lambda: "end" in world.wire.payloads())
    bodies = ["later", "a", "b", "end"]
    assert world.wire.payloads(next_one) == bodies
    next_one.redeliver(None)
    again = [(m[2], payload(m[3])) for _, m in world.wire.deliveries[-4:]]
    assert again == [(1, body) for body in bodies]


async def test_a_consumer_of_a_dead_connection_is_not_sent_anything(world: World) -> None:
    gone = Wire()
    consumer = await world.consumer(wire=gone)
    consumer.close()
    await world.publish(await world.producer(), "a")
    assert gone.deliveries == []
