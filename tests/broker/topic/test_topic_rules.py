"""What a topic allows its clients, by broker.conf and by its policies."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.topic_rules import rules_of
from counterpoise.names.topic import TopicName
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import Persistence, Quorums
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import AccessMode, SubscriptionType
from tests.broker.topic.conftest import World, entry, publish

SHARED = SubscriptionType.Shared
PERSISTENCE = (
    *(f"bookkeeper{each}" for each in ("Ensemble", "WriteQuorum", "AckQuorum")),
    "managedLedgerMaxMarkDeleteRate",
)


async def test_producers(store: MemoryLedgerStore) -> None:
    world = World(store, options=TopicOptions(max_producers=2))
    one, _two = await world.producer(name="one"), await world.producer()
    with pytest.raises(BrokerError, match="Topic reached max producers limit: 2") as full:
        await world.producer()
    assert full.value.code is ServerError.ProducerBusy
    one.close()
    await world.producer(name="one")
    # One that comes again on its connection is no further one.
    topic = await world.topic()
    (two,) = (it for it in topic.attached_producers() if it.name != "one")
    again = replace(two.request, name=two.name, epoch=two.request.epoch + 1)
    assert topic.add_producer(again, world.wire).name == two.name


async def test_consumers_of_a_subscription(store: MemoryLedgerStore) -> None:
    world = World(store, options=TopicOptions(max_consumers_per_subscription=1, key_shared=False))
    with pytest.raises(BrokerError) as disabled:
        await world.consumer(SubscriptionType.Key_Shared, subscription="keys")
    assert disabled.value.code is ServerError.NotAllowedError
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
    said["maxProducerPerTopic"] = 2
    await world.producer()
    with pytest.raises(BrokerError):
        await world.producer()
    said["maxProducerPerTopic"] = 0
    await world.producer()
    said["maxUnackedMessagesOnConsumer"] = 3
    consumer = await world.consumer(SHARED)
    await world.publish(await world.producer(), *range(9))
    assert len(world.wire.payloads()) == 3
    assert consumer.blocked


async def test_a_change_of_policies_holds_for_clients_that_are_attached() -> None:
    said: dict[str, object] = {"maxUnackedMessagesOnConsumer": 1}

    async def policies(_: TopicName) -> dict[str, object]:
        return said

    world = World(MemoryLedgerStore(), policies=policies)
    consumer, plain = await world.consumer(SHARED), await world.producer()
    encrypted = await world.producer(encrypted=True)
    await world.publish(plain, "0", "1", "2")
    assert world.wire.payloads() == ["0"]
    said["maxUnackedMessagesOnConsumer"] = 2
    topic = (await world.topic()).name
    await world.registry.policies_changed([topic])
    assert world.wire.payloads() == ["0", "1"]
    assert consumer.blocked
    said["maxMessageSize"] = 100
    await world.registry.policies_changed([topic])
    publish(plain, 9, 9, entry("x" * 100))
    await world.publish(plain, "3")
    ((_, _, error),) = world.wire.errors
    assert error.code is ServerError.NotAllowedError
    said["encryption_required"] = True
    await world.registry.policies_changed([topic])
    assert (plain.closed, encrypted.closed) == (True, False)
    with pytest.raises(BrokerError, match="Encryption is required in"):
        await world.producer()
    said.update(maxUnackedMessagesOnConsumer=0, encryption_required=False)
    await world.registry.policies_changed([topic])
    assert world.wire.payloads() == ["0", "1", "2", "3"]


@pytest.mark.parametrize("is_owned", [True, False])
async def test_a_change_of_policies_passes_over_a_topic_that_is_being_unloaded(
    is_owned: bool,
) -> None:
    said, asked, answered = dict[str, object](), asyncio.Event(), asyncio.Event()
    answered.set()

    async def policies(_: TopicName) -> dict[str, object]:
        asked.set()
        await answered.wait()
        return said

    world = World(MemoryLedgerStore(), policies=policies)
    leaving, staying = await world.topic(), await world.topic(TopicName.parse("t/n/stays"))
    said["maxProducerPerTopic"] = 7
    asked.clear()
    answered.clear()
    changed = asyncio.create_task(world.registry.policies_changed([leaving.name, staying.name]))
    await asked.wait()
    if not is_owned:
        world.cluster.refused.add(world.cluster.bundle_of(leaving.name))
    leaving.disconnect(None)
    answered.set()
    await changed
    await world.registry.policies_changed([leaving.name])
    assert (leaving.rules.producers, staying.rules.producers) == (0, 7)
    assert world.registry.loaded[leaving.name] is leaving


@pytest.mark.parametrize(
    ("policy", "value", "code"),
    [
        ("maxSubscriptionsPerTopic", 1, ServerError.NotAllowedError),
        ("subscriptionTypesEnabled", ["Exclusive"], ServerError.NotAllowedError),
        (
            "autoSubscriptionCreationOverride",
            {"allowAutoSubscriptionCreation": False},
            ServerError.SubscriptionNotFound,
        ),
    ],
)
async def test_subscriptions_that_are_not_allowed(
    policy: str, value: object, code: ServerError
) -> None:
    said: dict[str, object] = {}

    async def policies(_: TopicName) -> dict[str, object]:
        return said

    world = World(MemoryLedgerStore(), policies=policies)
    await world.consumer(SHARED, subscription="one")
    said[policy] = value
    with pytest.raises(BrokerError) as refused:
        await world.consumer(SHARED, subscription="two")
    assert refused.value.code is code
    assert set((await world.topic()).subscriptions) == {"one"}
    reader = world.consumer(SubscriptionType.Exclusive, subscription="reader", durable=False)
    if policy == "maxSubscriptionsPerTopic":
        with pytest.raises(BrokerError):
            await reader
    else:
        await reader


async def test_zero_is_no_limit(store: MemoryLedgerStore) -> None:
    options = TopicOptions(max_unacked_per_consumer=0, max_unacked_per_subscription=0)
    world = World(store, options=options)
    consumer = await world.consumer(SHARED)
    await world.publish(await world.producer(), *range(9))
    await world.wire.until(lambda: len(world.wire.payloads()) == 9)
    assert (consumer.unacked, consumer.blocked) == (9, False)


@pytest.mark.parametrize(
    ("kept", "persistence"),
    [
        (None, None),
        ((3, 2, 2, 0.5), Persistence(Quorums(3, 2, 2), 0.5)),
        ((1, 1, 1, 2), Persistence(Quorums(1, 1, 1), 2.0)),
        ((2, 2, 1, -1.0), Persistence(Quorums(2, 2, 1), 0.0)),
        ((2, 2, 2, None), Persistence(Quorums(2, 2, 2), 0.0)),
        ((2, 3, 2, 1.0), None),
        ((0, 0, 0, 1.0), None),
        (("3", 2, 2, 1.0), None),
    ],
)
def test_the_persistence_policy(
    kept: tuple[object, ...] | None, persistence: Persistence | None
) -> None:
    policy = None if kept is None else dict(zip(PERSISTENCE, kept, strict=True))
    assert rules_of({"persistence": policy}, TopicOptions()).persistence == persistence


@pytest.mark.parametrize("nonsense", [None, -1, "many", 1.5])
def test_a_policy_that_says_nothing_leaves_the_setting(nonsense: object) -> None:
    found = rules_of({"maxConsumerPerTopic": nonsense}, TopicOptions(max_consumers=7))
    assert found == replace(rules_of(None, TopicOptions()), consumers=7)


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


@pytest.mark.parametrize("encrypted", [False, True])
async def test_exclusive_access_goes_to_a_producer_that_may_stay(encrypted: bool) -> None:
    """The topic sends its plain producers away; of those that wait, the encrypted one is next."""
    said: dict[str, object] = {}

    async def policies(_: TopicName) -> dict[str, object]:
        return said

    world = World(MemoryLedgerStore(), policies=policies)
    await world.producer(access_mode=AccessMode.Exclusive)
    waiting = [
        await world.producer(access_mode=AccessMode.WaitForExclusive, encrypted=each)
        for each in (False, encrypted)
    ]
    said["encryption_required"] = True
    topic = await world.topic()
    await world.registry.policies_changed([topic.name])
    stays = [it.producer_id for it in waiting if it.request.encrypted]
    assert [producer_id for producer_id, _ in world.wire.ready] == stays
    assert len(world.wire.closed_producers) == 3 - len(stays)
    assert topic.attached_clients() == len(stays)


@pytest.mark.parametrize(("name", "full"), [("x", True), ("__change_events", False)])
async def test_a_system_topic_has_as_many_subscriptions_as_brokers(name: str, full: bool) -> None:
    world = World(MemoryLedgerStore(), options=TopicOptions(max_subscriptions=1))
    world.name = TopicName.parse(f"persistent://t/n/{name}")
    await world.consumer(subscription="one")
    with pytest.raises(BrokerError, match="maxSubscriptionsPerTopic: 1") if full else nullcontext():
        await world.consumer(subscription="two")
    assert len((await world.topic()).subscriptions) == (1 if full else 2)
