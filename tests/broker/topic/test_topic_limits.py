"""How many may use a topic, by broker.conf and by the policies of its namespace."""

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.topic_limits import TopicLimits, headcount_of
from counterpoise.names.topic import TopicName
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World

SHARED = SubscriptionType.Shared


async def test_producers(store: MemoryLedgerStore) -> None:
    world = World(store, options=TopicOptions(max_producers=2))
    one, _two = await world.producer(name="one"), await world.producer()
    with pytest.raises(BrokerError, match="Topic reached max producers limit: 2") as full:
        await world.producer()
    assert full.value.code is ServerError.ProducerBusy
    one.close()
    await world.producer(name="one")


async def test_consumers_of_a_subscription(store: MemoryLedgerStore) -> None:
    world = World(store, options=TopicOptions(max_consumers_per_subscription=1))
    first = await world.consumer(SHARED)
    with pytest.raises(BrokerError, match="Subscription reached max consumers limit: 1") as full:
        await world.consumer(SHARED)
    assert full.value.code is ServerError.ConsumerBusy
    await world.consumer(SHARED, subscription="another")
    first.close()
    await world.consumer(SHARED)


async def test_consumers_of_a_topic(store: MemoryLedgerStore) -> None:
    world = World(store, options=TopicOptions(max_consumers=2))
    for name in ("one", "two"):
        await world.consumer(SHARED, subscription=name)
    with pytest.raises(BrokerError, match="Topic reached max consumers limit: 2") as full:
        await world.consumer(SHARED, subscription="three", durable=False)
    assert full.value.code is ServerError.ConsumerBusy
    assert set((await world.topic()).subscriptions) == {"one", "two"}


async def test_a_namespaces_policies_go_before_the_settings_and_are_heard_of_at_once() -> None:
    said: dict[str, object] = {}

    async def policies(_: TopicName) -> dict[str, object]:
        return said

    world = World(MemoryLedgerStore(), options=TopicOptions(max_producers=1), policies=policies)
    await world.producer()
    with pytest.raises(BrokerError):
        await world.producer()
    said["max_producers_per_topic"] = 2
    await world.producer()
    with pytest.raises(BrokerError):
        await world.producer()
    said["max_producers_per_topic"] = 0
    await world.producer()
    said["max_unacked_messages_per_consumer"] = 3
    consumer = await world.consumer(SHARED)
    await world.publish(await world.producer(), *range(9))
    assert len(world.wire.payloads()) == 3
    assert consumer.blocked


async def test_zero_is_no_limit(store: MemoryLedgerStore) -> None:
    options = TopicOptions(max_unacked_per_consumer=0, max_unacked_per_subscription=0)
    world = World(store, options=options)
    consumer = await world.consumer(SHARED)
    await world.publish(await world.producer(), *range(9))
    await world.wire.until(lambda: len(world.wire.payloads()) == 9)
    assert (consumer.unacked, consumer.blocked) == (9, False)


@pytest.mark.parametrize("nonsense", [None, -1, "many", 1.5])
def test_a_policy_that_says_nothing_leaves_the_setting(nonsense: object) -> None:
    found = headcount_of({"max_consumers_per_topic": nonsense}, TopicOptions(max_consumers=7))
    assert found == TopicLimits(0, 7, 0, 50_000, 200_000)


async def test_key_shared_without_a_ring(store: MemoryLedgerStore) -> None:
    world = World(store, options=TopicOptions(key_shared_ring=False))
    keyed = SubscriptionType.Key_Shared
    one, two = await world.consumer(keyed), await world.consumer(keyed)
    for n in range(40):
        await world.publish(await world.producer(), n, partition_key=str(n % 8))
    assert {p for c in (one, two) for p in world.wire.payloads(c)} == {str(n) for n in range(40)}
    assert not {int(p) % 8 for p in world.wire.payloads(one)} & {
        int(p) % 8 for p in world.wire.payloads(two)
    }
    assert world.wire.payloads(one)
    assert world.wire.payloads(two)
