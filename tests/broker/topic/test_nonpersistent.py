"""Non-persistent topics: straight to who has permits, or dropped."""

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.nonpersistent import NonPersistentTopic
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.names.topic import TopicName
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import NO_POSITION
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import Send
from counterpoise.wire.values import SubscriptionType, TransactionId
from tests.broker.topic.conftest import World, batch, entry, publish
from tests.broker.topic.ends import EARLIEST
from tests.quota.jumping import on_jumping_loop

NAME = TopicName.parse("non-persistent://t/n/x")


@pytest.fixture
async def volatile(world: World) -> World:
    world.name = NAME
    return world


@pytest.mark.parametrize("kind", list(SubscriptionType))
async def test_only_what_is_published_now_and_fits(volatile: World, kind: SubscriptionType) -> None:
    producer = await volatile.producer()
    await volatile.publish(producer, "before")
    consumer = await volatile.consumer(kind, permits=2)
    await volatile.publish(producer, *"abc")
    assert volatile.wire.payloads() == ["a", "b"]
    consumer.flow(1)
    await volatile.publish(producer, "d")
    assert volatile.wire.payloads() == ["a", "b", "d"]
    topic = await volatile.topic()
    assert isinstance(topic, NonPersistentTopic)
    assert topic.dropped == 1
    assert (topic.meter_in.messages, topic.meter_out.messages) == (5, 3)
    assert consumer.subscription.backlog == 0
    consumer.ack_individual(volatile.wire.ids(consumer))
    consumer.redeliver()
    consumer.redeliver([(0, 0)])


async def test_a_batch_takes_as_many_permits_as_it_has_messages(volatile: World) -> None:
    consumer = await volatile.consumer(permits=4)
    publish(await volatile.producer(), 0, 0, batch(3))
    await volatile.wire.until(lambda: len(volatile.wire.deliveries) == 1)
    assert consumer.permits == 1


@on_jumping_loop
async def test_a_failover_waits_for_no_acknowledgements() -> None:
    world = World(MemoryLedgerStore())
    world.name = NAME
    await world.consumer(SubscriptionType.Failover, priority_level=1)
    second = await world.consumer(SubscriptionType.Failover)
    await world.publish(await world.producer(), "a")
    assert world.wire.payloads(second) == ["a"]


async def test_every_subscription_gets_it(volatile: World) -> None:
    one = await volatile.consumer(subscription="one")
    two = await volatile.consumer(subscription="two")
    await volatile.publish(await volatile.producer(), "a")
    assert volatile.wire.payloads(one) == volatile.wire.payloads(two) == ["a"]


async def test_nothing_is_kept(volatile: World) -> None:
    consumer = await volatile.consumer()
    with pytest.raises(BrokerError, match="cannot be sought"):
        await consumer.seek_to(EARLIEST)
    assert await consumer.last_batch_index() == -1
    assert consumer.last_message_id() == (NO_POSITION, NO_POSITION)
    topic, producer = await volatile.topic(), await volatile.producer()
    assert topic.last_message_id() == NO_POSITION
    with pytest.raises(BrokerError, match="has no end"):
        await volatile.registry.terminate(NAME)
    topic.publish_in_transaction(producer, TransactionId(0, 1), Send(0, 7, 7, 1, False, entry("a")))
    [(number, sequence_id, refusal)] = volatile.wire.errors
    assert (number, sequence_id) == (producer.producer_id, 7)
    assert refusal.code is ServerError.NotAllowedError
    producer.close()
    consumer.close()
    assert dict((await volatile.topic()).subscriptions) == {}
    assert not await volatile.store.exists("t/n/non-persistent/x")
    await volatile.registry.delete(NAME)
    with pytest.raises(BrokerError) as refused:
        await volatile.registry.get(NAME, create=False)
    assert refused.value.code is ServerError.TopicNotFound


async def test_what_is_dropped_is_counted_by_messages(volatile: World) -> None:
    await volatile.consumer(permits=0)
    producer = await volatile.producer()
    publish(producer, 0, 0, batch(3))
    publish(producer, 1, 1, entry("x"))
    topic = await volatile.topic()
    assert isinstance(topic, NonPersistentTopic)
    assert (topic.dropped, producer.meter.messages, topic.meter_in.messages) == (4, 4, 4)


@pytest.mark.parametrize("name", [NAME, TopicName.parse("persistent://t/n/x")])
async def test_a_broker_may_serve_no_topics_of_a_domain(
    store: MemoryLedgerStore, name: TopicName
) -> None:
    served = {"persistent_topics": False, "non_persistent_topics": False}
    served["non_persistent_topics" if name.is_persistent else "persistent_topics"] = True
    world = World(store, options=TopicOptions(**served))
    with pytest.raises(BrokerError) as caught:
        await world.topic(name)
    assert caught.value.code is ServerError.NotAllowedError
