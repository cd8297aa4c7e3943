"""Cursors that are moved, restored and trimmed; who is active; what blocks."""

import asyncio
import time

import pytest

from counterpoise.admin.subscription_json import subscription_json
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.ports import EARLIEST, LATEST, KeySharedMeta
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import Position
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import InitialPosition, SubscriptionType
from tests.broker.topic.conftest import Wire, World, batch, payload, publish
from tests.quota.jumping import on_jumping_loop, pass_time

EXCLUSIVE, SHARED = SubscriptionType.Exclusive, SubscriptionType.Shared
FAILOVER = SubscriptionType.Failover


async def test_seek_to_a_message_makes_it_the_next(world: World) -> None:
    producer = await world.producer()
    await world.publish(producer, *"abcde")
    consumer = await world.consumer(SHARED)
    ids = world.wire.ids(consumer)
    consumer.ack_individual(ids)
    await consumer.seek_to(Position(*ids[2][:2]))
    assert world.wire.closed_consumers == [(consumer.consumer_id, None)]
    again = await world.consumer(SHARED)
    assert world.wire.payloads(again) == ["c", "d", "e"]


@pytest.mark.parametrize(
    ("where", "left"), [(EARLIEST, "abcd"), (LATEST, "d"), (Position(0, 100), "d")]
)
async def test_seek_to_an_end(world: World, where: Position, left: str) -> None:
    producer = await world.producer()
    await world.publish(producer, *"abc")
    consumer = await world.consumer()
    await consumer.seek_to(where)
    again = await world.consumer()
    await world.publish(producer, "d")
    assert world.wire.payloads(again) == list(left)


@pytest.mark.parametrize(("when", "left"), [(0, "abcd"), (15, "bcd"), (20, "bcd"), (99, "")])
async def test_seek_to_a_time(world: World, when: int, left: str) -> None:
    producer = await world.producer()
    for n, body in enumerate("abcd"):
        await world.publish(producer, body, publish_time=10 * (n + 1))
    consumer = await world.consumer()
    await consumer.seek_to_time(when)
    assert world.wire.payloads(await world.consumer()) == list(left)


async def test_a_reader_starts_at_its_message_and_leaves_nothing(world: World) -> None:
    await world.publish(await world.producer(), *"abcd")
    ledger = world.wire.receipted[0][3]
    reader = await world.consumer(durable=False, start_message_id=Position(ledger, 1))
    assert world.wire.payloads(reader) == ["b", "c", "d"]
    topic = await world.topic()
    assert list(topic.subscriptions) == ["s"]
    reader.close()
    assert list(topic.subscriptions) == []


async def test_the_last_batch_index(world: World) -> None:
    producer, consumer = await world.producer(), await world.consumer()
    assert await consumer.last_batch_index() == -1
    await world.publish(producer, "single")
    assert await consumer.last_batch_index() == -1
    publish(producer, 1, 3, batch(3))
    await world.wire.until(lambda: len(world.wire.receipted) == 2)
    assert await consumer.last_batch_index() == 2


@pytest.mark.parametrize(("start", "got"), [(EARLIEST, ["a", "b"]), (LATEST, [])])
async def test_a_reader_starts_at_an_end(world: World, start: Position, got: list[str]) -> None:
    await world.publish(await world.producer(), *"ab")
    reader = await world.consumer(durable=False, start_message_id=start)
    assert world.wire.payloads(reader) == got


async def test_a_durable_subscription_begins_at_no_message_of_a_reader(world: World) -> None:
    await world.publish(await world.producer(), *"ab")
    ledger = world.wire.receipted[0][3]
    options = {"start_message_id": Position(ledger, 1)}
    assert world.wire.payloads(await world.consumer(**options)) == ["a", "b"]


@pytest.mark.parametrize(("durable", "kind"), [(True, "Durable"), (False, "NonDurable")])
async def test_durable_and_not_durable_do_not_share_a_name(
    world: World, durable: bool, kind: str
) -> None:
    await world.consumer(SHARED, durable=durable)
    with pytest.raises(BrokerError, match=f": {kind} subscription with.*already exists") as refused:
        await world.consumer(SHARED, durable=not durable)
    assert refused.value.code is ServerError.NotAllowedError


async def test_no_subscription_is_made_on_a_topic_that_closed_while_its_start_was_searched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.publish(await world.producer(), "a", publish_time=1)
    topic = await world.topic()
    read, chunk = asyncio.Event(), topic.log.cached(0)

    async def late(_index: int, _bytes: int) -> object:
        await read.wait()
        return chunk

    monkeypatch.setattr(topic.log, "cached", lambda _index: None)
    monkeypatch.setattr(topic.log, "read", late)
    subscribing = asyncio.ensure_future(world.consumer(rollback_seconds=10))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not subscribing.done()
    topic.closing = True
    read.set()
    with pytest.raises(BrokerError, match="is being unloaded") as refused:
        await subscribing
    assert refused.value.code is ServerError.ServiceNotReady
    assert dict(topic.subscriptions) == {}
    topic.closing = False


async def test_a_reader_starts_so_many_seconds_back(world: World) -> None:
    producer, now_ms = await world.producer(), round(time.time() * 1000)
    for age_s in (3600, 1000, 10):
        await world.publish(producer, age_s, publish_time=now_ms - 1000 * age_s)
    for number, (back_s, got) in enumerate(((2000, ["1000", "10"]), (100, ["10"]))):
        reader = await world.consumer(
            subscription=f"r{number}", durable=False, rollback_seconds=back_s
        )
        assert world.wire.payloads(reader) == got


async def test_new_properties_of_a_subscription_are_saved_at_once(world: World) -> None:
    consumer = await world.consumer()
    topic = await world.topic()
    consumer.subscription.note({"team": "a"})
    assert topic.log.cursors["s"].properties == {"team": "a"}
    consumer.subscription.note({})
    assert topic.log.cursors["s"].properties == {}


async def test_unsubscribing_is_refused_while_others_are_attached(world: World) -> None:
    first, second = await world.consumer(SHARED), await world.consumer(SHARED)
    with pytest.raises(BrokerError, match="1 other") as refused:
        await first.unsubscribe()
    assert refused.value.code is ServerError.ConsumerBusy
    second.close()
    await first.unsubscribe()
    topic = await world.topic()
    assert (dict(topic.subscriptions), dict(topic.log.cursors)) == ({}, {})


async def test_what_a_topic_has_sent_stays_counted_when_a_subscription_goes(world: World) -> None:
    await world.publish(await world.producer(), *"abc")
    consumer = await world.consumer()
    assert world.wire.payloads(consumer) == [*"abc"]
    topic = await world.topic()
    sent = topic.meter_out.messages, topic.meter_out.bytes
    assert sent[0] == 3
    await consumer.unsubscribe()
    assert (topic.meter_out.messages, topic.meter_out.bytes) == sent


async def test_the_last_message_id(world: World) -> None:
    consumer = await world.consumer()
    assert consumer.last_message_id()[0].entry_id == -1
    await world.publish(await world.producer(), *"abc")
    last, mark = consumer.last_message_id()
    assert last == world.wire.receipted[-1][3:]
    consumer.ack_cumulative(*world.wire.ids(consumer)[1][:2])
    assert consumer.last_message_id()[1].entry_id == 1
    assert mark.entry_id == -1


async def test_failover_serves_one_and_notifies_both(world: World) -> None:
    producer = await world.producer()
    first = await world.consumer(FAILOVER, consumer_name="a")
    second = await world.consumer(FAILOVER, consumer_name="b", priority_level=1)
    await world.publish(producer, *"ab")
    assert (world.wire.payloads(first), world.wire.payloads(second)) == (["a", "b"], [])
    async with asyncio.timeout(10):
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
    assert consumer.blocked
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


async def test_a_subscription_that_waits_for_acknowledgements_says_so(
    store: MemoryLedgerStore,
) -> None:
    world = World(store, options=TopicOptions(max_unacked_per_subscription=2))
    producer, consumer = await world.producer(), await world.consumer(SHARED)
    await world.publish(producer, *"ab")
    assert (await subscription_json(consumer.subscription))["blockedSubscriptionOnUnackedMsgs"]
    consumer.ack_individual(world.wire.ids(consumer)[:1])
    assert not (await subscription_json(consumer.subscription))["blockedSubscriptionOnUnackedMsgs"]


async def test_ledgers_go_once_every_subscription_is_done_with_them() -> None:
    world = World(MemoryLedgerStore(ledger_entries=3))
    producer = await world.producer()
    fast = await world.consumer(subscription="fast")
    slow = await world.consumer(subscription="slow")
    for n in range(10):
        await world.publish(producer, n)
    topic = await world.topic()
    fast.ack_individual(world.wire.ids(fast))
    fast.subscription.save()
    await asyncio.sleep(0)
    assert topic.log.begin == 0
    slow.ack_individual(world.wire.ids(slow)[:7])
    slow.subscription.save()
    await asyncio.sleep(0)
    assert topic.log.begin == 6
    late = await world.consumer(subscription="late")
    assert world.wire.payloads(late) == ["6", "7", "8", "9"]


@pytest.mark.parametrize("acknowledge", ["ack_individual", "ack_cumulative"])
@pytest.mark.parametrize("what", ["trimmed", "never written"])
async def test_an_acknowledgement_of_what_is_not_kept_acknowledges_nothing(
    acknowledge: str, what: str
) -> None:
    world = World(MemoryLedgerStore(ledger_entries=3))
    producer, consumer = await world.producer(), await world.consumer()
    for n in range(6):
        await world.publish(producer, n)
    first = world.wire.ids(consumer)[0]
    if what == "trimmed":
        consumer.ack_individual(world.wire.ids(consumer)[:4])
        consumer.subscription.save()
        await asyncio.sleep(0)
        acked = [(*first[:2], ())]
    else:
        acked = [(first[0], 99, ())]
    before = consumer.subscription.backlog
    if acknowledge == "ack_individual":
        consumer.ack_individual(acked)
        assert consumer.subscription.backlog == before
    else:
        consumer.ack_cumulative(*acked[0][:2])
        assert consumer.subscription.backlog == before - (0 if what == "trimmed" else 3)


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, SubscriptionType.Key_Shared])
async def test_a_reader_that_lags_goes_on_behind_what_was_deleted(kind: SubscriptionType) -> None:
    world = World(MemoryLedgerStore(ledger_entries=3))
    producer = await world.producer()
    reader = await world.consumer(
        kind, subscription="reader", durable=False, start_message_id=EARLIEST, permits=1
    )
    durable = await world.consumer(subscription="durable")
    for n in range(10):
        await world.publish(producer, n)
    reader.redeliver()
    durable.ack_individual(world.wire.ids(durable)[:8])
    durable.subscription.save()
    await asyncio.sleep(0)
    reader.flow(100)
    assert world.wire.payloads(reader) == ["0", "6", "7", "8", "9"]
    assert reader.subscription.backlog == 4


@pytest.mark.parametrize(("count", "left"), [(0, "bdef"), (2, "ef"), (99, ""), (None, "")])
async def test_skipping(world: World, count: int | None, left: str) -> None:
    producer = await world.producer()
    consumer = await world.consumer(SHARED)
    await world.publish(producer, *"abcdef")
    ids = world.wire.ids(consumer)
    consumer.ack_individual([ids[0], ids[2]])
    consumer.subscription.skip(count)
    assert consumer.unacked == consumer.subscription.backlog == len(left)
    consumer.close()
    again = await world.consumer(SHARED)
    assert world.wire.payloads(again) == list(left)


async def test_acknowledged_ranges_come_back_with_the_next_owner(world: World) -> None:
    producer = await world.producer()
    consumer = await world.consumer(SHARED)
    await world.publish(producer, *range(10))
    ids = world.wire.ids(consumer)
    consumer.ack_individual([ids[n] for n in (0, 3, 4, 5, 8)])
    await world.registry.unload_topic(world.name)
    again = await world.consumer(SHARED)
    assert world.wire.payloads(again) == ["1", "2", "6", "7", "9"]
    again.ack_individual(world.wire.ids(again))
    assert again.subscription.backlog == 0


async def test_a_save_is_bounded_and_a_topic_that_leaves_saves_everything(
    store: MemoryLedgerStore,
) -> None:
    world = World(store, options=TopicOptions(saved_ranges=3))
    producer = await world.producer()
    consumer = await world.consumer(SHARED)
    await world.publish(producer, *range(20))
    consumer.ack_individual(world.wire.ids(consumer)[1::2])
    consumer.subscription.save()
    assert len(consumer.subscription.log.cursors["s"].acked) == 3
    await world.registry.unload_topic(world.name)
    again = await world.consumer(SHARED)
    assert world.wire.payloads(again) == [str(n) for n in range(0, 20, 2)]


async def test_an_acknowledgement_from_before_the_unload_still_counts(world: World) -> None:
    producer = await world.producer()
    first, second = await world.consumer(SHARED), await world.consumer(SHARED)
    for n in range(4):
        await world.publish(producer, n)
    assert (first.unacked, second.unacked) == (2, 2)
    first.ack_individual([i for c in (first, second) for i in world.wire.ids(c)])
    assert first.subscription.backlog == 0
    assert (first.unacked, second.unacked) == (0, 0)


@pytest.mark.parametrize(
    "name", ["pulsar.dedup", "__transaction_buffer", "s__transaction_pending_ack"]
)
async def test_no_subscription_has_the_name_of_a_cursor_of_the_topic(
    world: World, name: str
) -> None:
    topic = await world.topic()
    with pytest.raises(BrokerError) as refused:
        await topic.create_subscription(name)
    assert refused.value.code is ServerError.NotAllowedError
    assert name not in topic.subscriptions


async def test_create_subscription_without_a_consumer(world: World) -> None:
    producer = await world.producer()
    topic = await world.topic()
    await world.publish(producer, "a")
    await topic.create_subscription("early", InitialPosition.Earliest)
    await topic.create_subscription("late")
    assert (topic.subscriptions["early"].backlog, topic.subscriptions["late"].backlog) == (1, 0)
    with pytest.raises(BrokerError, match="already exists"):
        await topic.create_subscription("late")


async def test_two_first_consumers_at_once_make_one_subscription(world: World) -> None:
    await world.publish(await world.producer(), "a")
    made = await asyncio.gather(*(world.consumer(SHARED, rollback_seconds=10**6) for _ in range(3)))
    assert len({id(c.subscription) for c in made}) == 1


async def test_a_consumer_whose_subscription_goes_while_it_is_saved_comes_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attached to a dispatcher that is never woken again, it would wait for ever."""
    topic = await world.topic()
    on_disk = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(topic.log, "cursors_saved", lambda: on_disk)
    first = asyncio.ensure_future(world.consumer())
    while "s" not in topic.subscriptions:  # noqa: ASYNC110 - a turn or two of the loop
        await asyncio.sleep(0)
    await topic.subscriptions["s"].unsubscribe(None, force=True)
    on_disk.set_result(None)
    with pytest.raises(BrokerError, match="deleted meanwhile") as refused:
        await first
    assert refused.value.code is ServerError.ServiceNotReady
    again = await world.consumer()
    await world.publish(await world.producer(), "a")
    assert world.wire.payloads(again) == ["a"]


async def test_a_topic_loads_once_for_all_who_ask(world: World) -> None:
    topics = await asyncio.gather(*(world.topic() for _ in range(10)))
    assert len(set(map(id, topics))) == 1
    assert world.cluster.created == [world.name]


async def test_a_topic_that_does_not_exist(world: World) -> None:
    with pytest.raises(BrokerError, match="not found") as refused:
        await world.registry.get(world.name, create=False)
    assert refused.value.code is ServerError.TopicNotFound


async def test_delete_is_refused_while_the_topic_is_in_use(world: World) -> None:
    producer = await world.producer()
    await world.publish(producer, "a")
    with pytest.raises(BrokerError, match="1 connected"):
        await world.registry.delete(world.name)
    await world.registry.delete(world.name, force=True)
    assert world.wire.closed_producers == [(producer.producer_id, None)]
    assert world.cluster.created == []
    assert world.wire.payloads(await world.consumer()) == []


async def test_a_consumer_of_a_dead_connection_is_not_sent_anything(world: World) -> None:
    gone = Wire()
    consumer = await world.consumer(wire=gone)
    consumer.close()
    await world.publish(await world.producer(), "a")
    assert gone.deliveries == []


async def test_a_reader_that_is_refused_leaves_no_subscription(world: World) -> None:
    with pytest.raises(BrokerError, match="must not be empty"):
        await world.consumer(
            SubscriptionType.Key_Shared, durable=False, key_shared=KeySharedMeta(())
        )
    assert not (await world.topic()).subscriptions
