"""Subscriptions: created, saved, restored, trimmed and deleted."""

import asyncio
import time

import pytest

from counterpoise.admin.subscription_json import subscription_json
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import StorageError
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import InitialPosition, SubscriptionType
from tests.broker.topic.conftest import World, batch, publish
from tests.broker.topic.ends import EARLIEST
from tests.quota.jumping import on_jumping_loop
from tests.waiting import turns

SHARED = SubscriptionType.Shared


async def test_the_last_batch_index(world: World) -> None:
    producer, consumer = await world.producer(), await world.consumer()
    assert await consumer.last_batch_index() == -1
    await world.publish(producer, "single")
    assert await consumer.last_batch_index() == -1
    publish(producer, 1, 3, batch(3))
    await world.wire.until(lambda: len(world.wire.receipted) == 2)
    assert await consumer.last_batch_index() == 2


@pytest.mark.parametrize(("durable", "kind"), [(True, "Durable"), (False, "NonDurable")])
async def test_durable_and_not_durable_do_not_share_a_name(
    world: World, durable: bool, kind: str
) -> None:
    await world.consumer(SHARED, durable=durable)
    with pytest.raises(BrokerError, match=f": {kind} subscription with.*already exists") as refused:
        await world.consumer(SHARED, durable=not durable)
    assert refused.value.code is ServerError.NotAllowedError


async def test_new_properties_of_a_subscription_are_saved_at_once(world: World) -> None:
    consumer = await world.consumer()
    topic = await world.topic()
    consumer.subscription.note({"team": "a"})
    assert topic.log.cursors["s"].properties == {"team": "a"}
    consumer.subscription.note({})
    assert topic.log.cursors["s"].properties == {}


async def test_a_topic_is_in_use_by_whatever_expects_one_schema(world: World) -> None:
    topic = await world.topic()
    assert not topic.is_in_use
    await world.consumer(SHARED, takes_any_schema=True)
    assert not topic.is_in_use
    reader = await world.consumer(SHARED)
    assert topic.is_in_use
    reader.close()
    producer = await world.producer()
    assert topic.is_in_use
    producer.close()
    assert not topic.is_in_use
    await world.publish(await world.producer(), "a")
    for attached in topic.attached_producers():
        attached.close()
    assert topic.is_in_use


async def test_when_a_consumer_did_what_last_is_in_milliseconds(world: World) -> None:
    began = int(time.time() * 1000)
    await world.publish(await world.producer(), "a")
    consumer = await world.consumer(SHARED, permits=0)
    idle = (consumer.last_flow_ms, consumer.last_sent_ms, consumer.last_acked_ms)
    consumer.flow(1)
    consumer.ack_individual(world.wire.ids(consumer))
    ended = int(time.time() * 1000)
    assert idle == (0, 0, 0)
    for at in (consumer.last_flow_ms, consumer.last_sent_ms, consumer.last_acked_ms):
        assert began <= at <= ended


@pytest.mark.parametrize("force", [False, True])
async def test_unsubscribing_is_refused_while_others_are_attached(
    world: World, force: bool
) -> None:
    first, second = await world.consumer(SHARED), await world.consumer(SHARED)
    with pytest.raises(BrokerError, match="1 other") as refused:
        await first.unsubscribe()
    assert refused.value.code is ServerError.ConsumerBusy
    if not force:
        second.close()
    await first.unsubscribe(force=force)
    assert world.wire.closed_consumers == ([(second.consumer_id, None)] if force else [])
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


@on_jumping_loop
async def test_an_unloaded_topic_waits_for_those_alone_that_have_something() -> None:
    world = World(MemoryLedgerStore())
    await world.publish(await world.producer(), *"ab")
    topic = await world.topic()
    created = await topic.create_subscription("s", InitialPosition.Earliest)  # type: ignore[attr-defined]
    assert created.acknowledging().done(), "there is no consumer"
    consumer = await world.consumer(permits=0)
    assert created.acknowledging().done(), "it was sent nothing"
    consumer.flow(2)
    for acknowledge in (consumer.ack_individual, lambda ids: consumer.ack_cumulative(*ids[0][:2])):
        waits = created.acknowledging()
        assert not waits.done()
        ids = world.wire.ids(consumer)
        acknowledge(ids[:1])
        assert waits.done()
    consumer.ack_individual(world.wire.ids(consumer))
    assert created.acknowledging().done(), "it has acknowledged all"
    consumer.close()


async def test_the_last_message_id(world: World) -> None:
    consumer = await world.consumer()
    assert consumer.last_message_id()[0].entry_id == -1
    await world.publish(await world.producer(), *"abc")
    last, mark = consumer.last_message_id()
    assert last == world.wire.receipted[-1][3:]
    consumer.ack_cumulative(*world.wire.ids(consumer)[1][:2])
    assert consumer.last_message_id()[1].entry_id == 1
    assert mark.entry_id == -1


async def test_a_subscription_that_waits_for_acknowledgements_says_so(
    store: MemoryLedgerStore,
) -> None:
    """As in Pulsar, until less than half of the limit is unacknowledged."""
    world = World(store, options=TopicOptions(max_unacked_per_subscription=4))
    producer, consumer = await world.producer(), await world.consumer(SHARED)
    await world.publish(producer, *"abcd")
    await world.publish(producer, *"ef")
    for acknowledged, is_blocked, delivered in (0, True, 4), (2, True, 4), (3, False, 6):
        consumer.ack_individual(world.wire.ids(consumer)[:acknowledged])
        json = await subscription_json(consumer.subscription)
        assert json["blockedSubscriptionOnUnackedMsgs"] is is_blocked
        assert len(world.wire.payloads(consumer)) == delivered


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
    await late.seek_to(EARLIEST)
    assert late.subscription.backlog == 4


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
    consumer.ack_individual([ids[n] for n in (3, 4, 5, 8)])
    assert consumer.subscription.advanced_ms == 0, "the first one is not acknowledged"
    consumer.ack_individual([ids[0]])
    assert consumer.subscription.advanced_ms == consumer.last_acked_ms > 0
    await world.registry.unload_topic(world.name)
    again = await world.consumer()
    assert world.wire.payloads(again) == ["1", "2", "6", "7", "9"]
    again.ack_cumulative(*world.wire.ids(again)[-1][:2])
    assert again.subscription.backlog == 0
    assert again.subscription.advanced_ms == again.last_acked_ms > 0


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
    given = await topic.create_subscription("given", properties={"team": "a"})
    assert (given.properties, topic.log.cursors["given"].properties) == ({"team": "a"},) * 2
    with pytest.raises(BrokerError, match="already exists"):
        await topic.create_subscription("late")


async def test_two_first_consumers_at_once_make_one_subscription(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although each of them has to read first where it begins."""
    await world.publish(await world.producer(), "a")
    log = (await world.topic()).log
    read, reads = log.read, list[int]()

    async def slowly(index: int, most: int) -> object:
        reads.append(index)
        await asyncio.sleep(0)
        return await read(index, most)

    monkeypatch.setattr(log, "cached", lambda _: None)
    monkeypatch.setattr(log, "read", slowly)
    made = await asyncio.gather(*(world.consumer(SHARED, rollback_seconds=10**6) for _ in range(3)))
    assert len({id(c.subscription) for c in made}) == 1
    assert len(reads) >= 3


async def answered(work: asyncio.Future[object]) -> bool:
    """Whether it is done once everything has run that can."""
    await turns()
    return work.done()


async def test_every_consumer_of_a_new_subscription_waits_until_it_is_saved(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await world.topic()
    save, on_disk = topic.log.cursors_saved, asyncio.get_running_loop().create_future()

    async def when_on_disk() -> None:
        if not await asyncio.shield(on_disk):
            raise StorageError("no space is left")
        await save()

    monkeypatch.setattr(topic.log, "cursors_saved", when_on_disk)
    first, second = (asyncio.ensure_future(world.consumer(SHARED)) for _ in range(2))
    assert not any([await answered(each) for each in (first, second)])
    # The first one's save fails, and who asks for it again waits for the next.
    on_disk.set_result(False)
    for each in first, second:
        with pytest.raises(BrokerError, match="no space is left"):
            await each
    with pytest.raises(BrokerError, match="no space is left"):
        await topic.create_subscription("s")
    on_disk = asyncio.get_running_loop().create_future()
    again = asyncio.ensure_future(world.consumer(SHARED))
    assert not await answered(again)
    on_disk.set_result(True)
    await again
    world.take_over()
    assert "s" in (await world.topic()).subscriptions


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
    going = asyncio.ensure_future(topic.subscriptions["s"].unsubscribe(None, force=True))
    assert not await answered(going)
    on_disk.set_result(None)
    await going
    with pytest.raises(BrokerError, match="closed meanwhile") as refused:
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


@pytest.mark.parametrize("durable", [False, True])
async def test_a_consumer_that_has_unsubscribed_ends_no_later_subscription_of_that_name(
    world: World, durable: bool
) -> None:
    """Its client closes it as well, or hangs up."""
    gone = await world.consumer(SubscriptionType.Shared, durable=durable)
    await gone.unsubscribe()
    assert gone.closed
    later = await world.consumer(SubscriptionType.Shared, durable=durable)
    gone.close()
    assert list((await world.topic()).subscriptions) == ["s"]
    await world.publish(await world.producer(), "a")
    assert world.wire.payloads(later) == ["a"]
