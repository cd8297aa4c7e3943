"""What is published arrives, once, in order, and not again once it is acknowledged."""

import asyncio
from collections.abc import Callable

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.ports import ServiceUrls
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import Lost
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import InitialPosition, SubscriptionType
from tests.broker.topic.conftest import World, batch, entry, publish

NEXT = ServiceUrls("pulsar://next:6650", "pulsar+ssl://next:6651")
EXCLUSIVE, SHARED = SubscriptionType.Exclusive, SubscriptionType.Shared


async def test_receipts_come_in_order_with_positions(world: World) -> None:
    producer = await world.producer()
    await world.publish(producer, "a", "b", "c")
    ledger = world.wire.receipted[0][3]
    assert world.wire.receipted == [(producer.producer_id, n, n, ledger, n) for n in range(3)]


@pytest.mark.parametrize("kind", list(SubscriptionType))
async def test_a_consumer_gets_what_was_and_what_will_be_published(
    world: World, kind: SubscriptionType
) -> None:
    producer = await world.producer()
    await world.publish(producer, "a", "b")
    consumer = await world.consumer(kind)
    await world.publish(producer, "c")
    await world.wire.until(lambda: world.wire.payloads(consumer) == ["a", "b", "c"])


async def test_a_latest_subscription_starts_after_what_was_published(world: World) -> None:
    producer = await world.producer()
    await world.publish(producer, "before")
    consumer = await world.consumer(initial_position=InitialPosition.Latest)
    await world.publish(producer, "after")
    assert world.wire.payloads(consumer) == ["after"]


@pytest.mark.parametrize("kind", list(SubscriptionType))
async def test_permits_bound_what_is_sent(world: World, kind: SubscriptionType) -> None:
    producer = await world.producer()
    await world.publish(producer, *"abcdef")
    consumer = await world.consumer(kind, permits=2)
    assert world.wire.payloads(consumer) == ["a", "b"]
    consumer.flow(3)
    assert world.wire.payloads(consumer) == list("abcde")


@pytest.mark.parametrize("kind", list(SubscriptionType))
async def test_a_batch_costs_as_many_permits_as_it_holds_messages(
    world: World, kind: SubscriptionType
) -> None:
    producer = await world.producer()
    ten, single = batch(10), entry("single")
    publish(producer, 0, 9, ten)
    publish(producer, 10, 10, single)
    await world.wire.until(lambda: len(world.wire.receipted) == 2)
    consumer = await world.consumer(kind, permits=4)
    assert world.wire.entries() == [ten]
    assert consumer.permits == -6
    consumer.flow(6)
    assert world.wire.entries() == [ten]
    consumer.flow(1)
    assert world.wire.entries() == [ten, single]


@pytest.mark.parametrize("kind", list(SubscriptionType))
async def test_nothing_is_sent_into_a_full_connection(world: World, kind: SubscriptionType) -> None:
    producer = await world.producer()
    consumer = await world.consumer(kind)
    world.wire.writable = False
    await world.publish(producer, "a")
    assert world.wire.payloads() == []
    world.wire.writable = True
    consumer.resume()
    assert world.wire.payloads() == ["a"]


@pytest.mark.parametrize("kind", list(SubscriptionType))
async def test_only_what_was_not_acknowledged_comes_again(
    world: World, kind: SubscriptionType
) -> None:
    producer = await world.producer()
    await world.publish(producer, *"abcd")
    first = await world.consumer(kind)
    ids = world.wire.ids(first)
    first.ack_individual([ids[0], ids[2]])
    first.close()
    second = await world.consumer(kind)
    assert world.wire.payloads(second) == ["b", "d"]
    assert first.subscription.backlog == 2


async def test_a_cumulative_ack_takes_all_before_it(world: World) -> None:
    producer = await world.producer()
    await world.publish(producer, *"abcd")
    consumer = await world.consumer()
    ledger, entry_id, _ = world.wire.ids(consumer)[2]
    consumer.ack_cumulative(ledger, entry_id)
    assert consumer.subscription.backlog == 1


async def test_a_cumulative_ack_inside_a_batch_takes_all_before_the_batch(world: World) -> None:
    producer = await world.producer()
    await world.publish(producer, "before")
    publish(producer, 1, 3, batch(3))
    await world.wire.until(lambda: len(world.wire.receipted) == 2)
    await world.publish(producer, "after")
    consumer = await world.consumer()
    ledger, entry_id, _ = world.wire.ids(consumer)[1]
    consumer.ack_cumulative(ledger, entry_id, (0b100,))
    assert consumer.subscription.backlog == 2
    consumer.close()
    again = await world.consumer()
    assert [i[1] for i in world.wire.ids(again)] == [entry_id, entry_id + 1]
    again.ack_cumulative(ledger, entry_id, (0,))
    assert again.subscription.backlog == 1
    again.ack_cumulative(ledger, entry_id + 1)
    assert again.subscription.backlog == 0


async def test_a_batch_is_acknowledged_with_its_last_index(world: World) -> None:
    producer = await world.producer()
    publish(producer, 0, 2, batch(3))
    await world.wire.until(lambda: len(world.wire.receipted) == 1)
    consumer = await world.consumer(SHARED)
    ledger, entry_id, _ = world.wire.ids(consumer)[0]
    consumer.ack_individual([(ledger, entry_id, (0b101,))])
    assert consumer.subscription.backlog == 1
    consumer.ack_individual([(ledger, entry_id, ())])
    assert consumer.subscription.backlog == 0


async def test_redeliver_sends_an_exclusive_consumer_all_it_has_not_acked(world: World) -> None:
    producer = await world.producer()
    await world.publish(producer, *"abc")
    consumer = await world.consumer()
    consumer.ack_individual([world.wire.ids(consumer)[1]])
    world.wire.deliveries.clear()
    consumer.redeliver()
    assert world.wire.payloads() == ["a", "c"]


@pytest.mark.parametrize("kind", [SubscriptionType.Exclusive, SubscriptionType.Failover])
async def test_what_was_given_back_and_then_acknowledged_and_deleted_is_passed_over(
    kind: SubscriptionType,
) -> None:
    world = World(MemoryLedgerStore(ledger_entries=2))
    producer = await world.producer()
    for body in "abcde":
        await world.publish(producer, body)
    consumer = await world.consumer(kind, permits=5)
    ids = world.wire.ids(consumer)
    consumer.redeliver()
    consumer.ack_individual(ids[:3])
    topic = await world.topic()
    await topic.trim()  # type: ignore[attr-defined]
    assert topic.log.begin == 2  # type: ignore[attr-defined]
    world.wire.deliveries.clear()
    consumer.flow(10)
    assert world.wire.payloads() == ["d", "e"]


async def test_a_deleted_entry_that_is_given_back_gives_back_no_other() -> None:
    world = World(MemoryLedgerStore(ledger_entries=2))
    producer = await world.producer()
    for body in "abcd":
        await world.publish(producer, body)
    consumer = await world.consumer(SHARED)
    ids = world.wire.ids(consumer)
    consumer.ack_individual(ids[:2])
    await (await world.topic()).trim()  # type: ignore[attr-defined]
    world.wire.deliveries.clear()
    consumer.redeliver([each[:2] for each in ids[:2]])
    assert world.wire.payloads() == []


async def test_a_consumer_that_acknowledges_what_was_lost_since_holds_it_no_more(
    world: World,
) -> None:
    await world.publish(await world.producer(), *"ab")
    consumer = await world.consumer(SHARED)
    ids = world.wire.ids(consumer)
    topic = await world.topic()
    topic.lost(Lost(*ids[0][:2], ids[0][1]))  # type: ignore[attr-defined]
    assert (consumer.unacked, consumer.subscription.backlog) == (2, 1)
    consumer.ack_individual(ids[:1])
    assert consumer.unacked == 1


async def test_redeliver_counts_for_shared_consumers(world: World) -> None:
    producer = await world.producer()
    await world.publish(producer, *"abc")
    consumer = await world.consumer(SHARED)
    ledger, entry_id, _ = world.wire.ids(consumer)[1]
    world.wire.deliveries.clear()
    consumer.redeliver([(ledger, entry_id)])
    consumer.redeliver([(ledger, entry_id)])
    assert [m[2] for _, m in world.wire.deliveries] == [1, 2]
    assert world.wire.payloads() == ["b", "b"]


async def test_an_exclusive_subscription_has_one_consumer(world: World) -> None:
    await world.consumer()
    with pytest.raises(BrokerError, match="Exclusive consumer is already connected") as refused:
        await world.consumer()
    assert refused.value.code is ServerError.ConsumerBusy


async def test_types_do_not_mix(world: World) -> None:
    await world.consumer(SHARED)
    with pytest.raises(BrokerError, match="different type") as refused:
        await world.consumer(SubscriptionType.Failover)
    assert refused.value.code is ServerError.ConsumerBusy


async def test_a_producer_name_is_taken_once(world: World) -> None:
    await world.producer(name="me")
    with pytest.raises(BrokerError, match="'me' is already connected") as refused:
        await world.producer(name="me")
    assert refused.value.code is ServerError.ProducerBusy


async def test_given_names_differ(world: World) -> None:
    assert (await world.producer()).name != (await world.producer()).name


async def test_unloading_keeps_everything_that_was_acknowledged(world: World) -> None:
    producer = await world.producer()
    consumer = await world.consumer(SHARED)
    await world.publish(producer, *"abcd")
    ids = world.wire.ids(consumer)
    consumer.ack_individual([ids[0], ids[2]])
    publish(producer, 4, 4, entry("e"))
    bundle = world.cluster.bundle_of(world.name)
    world.cluster.refused.add(bundle)
    assert await world.registry.unload_bundle(bundle, NEXT) == 1
    assert world.wire.receipted[-1][1] == 4
    assert world.wire.closed_producers == [(producer.producer_id, NEXT)]
    assert world.wire.closed_consumers == [(consumer.consumer_id, NEXT)]
    with pytest.raises(BrokerError) as refused:
        await world.topic()
    assert refused.value.code is ServerError.ServiceNotReady

    world.cluster.refused.clear()
    world.registry = TopicRegistry(world.store, world.cluster, world.cluster, owner="broker-2")
    again = await world.consumer(SHARED)
    assert world.wire.payloads(again) == ["b", "d", "e"]


class Disk:
    """Keeps what a log writes until `release`."""

    def __init__(self, log: object, monkeypatch: pytest.MonkeyPatch) -> None:
        self._kept: list[Callable[[], None]] = []
        # Private: a disk that has not answered is between a log and its memory.
        write = log._write  # type: ignore[attr-defined]
        monkeypatch.setattr(log, "_write", lambda group: self._kept.append(lambda: write(group)))

    @property
    def busy(self) -> bool:
        return bool(self._kept)

    def release(self) -> None:
        kept, self._kept = self._kept, []
        for each in kept:
            each()


@pytest.mark.parametrize("url", [NEXT, None])
async def test_an_unload_waits_for_the_receipts_of_what_is_under_way(
    world: World, url: ServiceUrls | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await world.producer()
    topic = await world.topic()
    disk = Disk(topic.log, monkeypatch)
    order: list[str] = []
    monkeypatch.setattr(world.wire, "receipts", lambda *_: order.append("receipts"))
    monkeypatch.setattr(world.wire, "close_producer", lambda *_: order.append("close"))
    publish(producer, 0, 0, entry("one"))
    while not disk.busy:  # noqa: ASYNC110 - turns of the loop
        await asyncio.sleep(0)
    publish(producer, 1, 1, entry("two"))
    unloading = asyncio.ensure_future(
        world.registry.unload_bundle(world.cluster.bundle_of(world.name), url)
    )
    for _ in range(100):
        await asyncio.sleep(0)
    assert order == []
    assert not unloading.done()
    while not unloading.done():
        disk.release()
        await asyncio.sleep(0)
    assert order == ["receipts", "receipts", "close"]
    consumer = await world.consumer()
    assert world.wire.payloads(consumer) == ["one", "two"]


async def test_a_fenced_owner_gives_no_receipt_and_lets_its_clients_go(world: World) -> None:
    producer = await world.producer()
    other = TopicRegistry(world.store, world.cluster, world.cluster, owner="broker-2")
    await other.get(world.name)
    publish(producer, 0, 0, entry("lost"))
    await world.wire.until(lambda: bool(world.wire.closed_producers))
    assert world.wire.receipted == []
    assert world.name not in world.registry.loaded
