"""What a topic refuses, by which error, and what stands afterwards."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.persistent import PersistentTopic
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.broker.topic.transaction_ends import LocalParticipants
from counterpoise.names.position import Position
from counterpoise.names.topic import TopicName
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import StorageError
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import EndOnParticipant
from counterpoise.wire.values import TransactionId
from tests.broker.topic.conftest import Everything, World


class FailingStore(MemoryLedgerStore):
    """Its logs cannot be deleted, and what became of them cannot be read, while it is away."""

    is_away = False

    async def delete(self, name: str) -> None:
        if self.is_away:
            raise StorageError("the disk is away")
        await super().delete(name)

    async def is_released(self, name: str) -> bool:
        if self.is_away:
            raise StorageError("the disk is away")
        return await super().is_released(name)


async def test_a_topic_whose_messages_cannot_be_deleted_is_still_there() -> None:
    store = FailingStore()
    world = World(store)
    await world.publish(await world.producer(), "a")
    store.is_away = True
    with pytest.raises(BrokerError, match="the disk is away") as refused:
        await world.registry.delete(world.name, force=True)
    assert refused.value.code is ServerError.PersistenceError
    assert world.cluster.created == [world.name]
    store.is_away = False
    assert world.wire.payloads(await world.consumer()) == ["a"]
    await world.registry.delete(world.name, force=True)
    assert world.cluster.created == []


async def test_it_is_asked_whether_the_former_owner_has_closed_a_topic() -> None:
    class Asking(Everything):
        """Asks before each topic is opened, as in a hand-over."""

        def __init__(self) -> None:
            super().__init__()
            self.answers: list[bool] = []

        async def approach(
            self, topic: TopicName, is_released: Callable[[], Awaitable[bool]]
        ) -> None:
            self.answers.append(await is_released())

    store, asking = FailingStore(), Asking()
    former = World(store)
    successor = TopicRegistry(store, asking, asking, owner="b2")
    volatile = TopicName.parse("non-persistent://t/n/y")
    await former.topic()
    for name in (former.name, volatile):
        await successor.get(name)
        await successor.unload_topic(name)
    await successor.get(former.name)
    await successor.unload_topic(former.name)
    store.is_away = True
    await successor.get(former.name)
    assert asking.answers == [False, False, True, False]


async def test_a_producer_does_not_create_a_subscription_where_that_is_not_allowed() -> None:
    world = World(MemoryLedgerStore(), options=TopicOptions(creates_subscriptions=False))
    with pytest.raises(BrokerError, match="initial subscription") as refused:
        await world.producer(initial_subscription="s")
    assert refused.value.code is ServerError.NotAllowedError
    assert not (await world.topic()).subscriptions


@pytest.mark.parametrize("strict", [False, True])
async def test_strict_names_are_asked_of_subscriptions_that_consumers_create(strict: bool) -> None:
    world = World(MemoryLedgerStore(), options=TopicOptions(strict_names=strict))
    topic = await world.topic()
    assert isinstance(topic, PersistentTopic)
    await topic.create_subscription("by/command")
    for name in ("by/command", "a-=:._1"):
        await world.consumer(subscription=name)
    if strict:
        with pytest.raises(
            BrokerError, match=r"only contains .* the current value is a/b"
        ) as refused:
            await world.consumer(subscription="a/b")
        assert refused.value.code is ServerError.ProducerBusy
    else:
        await world.consumer(subscription="a/b")
    assert ("a/b" in topic.subscriptions) is not strict


async def test_a_subscription_is_created_at_a_message(world: World) -> None:
    await world.publish(await world.producer(), *"abc")
    topic = await world.topic()
    assert isinstance(topic, PersistentTopic)
    ledger = world.wire.receipted[0][3]
    for name, at, backlog in (("second", 1, 2), ("past the end", 9, 0)):
        created = await topic.create_subscription(name, Position(ledger, at))
        assert created.backlog == backlog


async def test_at_most_so_many_subscriptions_are_created_by_commands() -> None:
    async def policies(_: object) -> Mapping[str, Any]:
        return {"maxSubscriptionsPerTopic": 1}

    world = World(MemoryLedgerStore(), policies=policies)
    topic = await world.topic()
    assert isinstance(topic, PersistentTopic)
    await topic.create_subscription("one")
    with pytest.raises(BrokerError, match="maxSubscriptionsPerTopic: 1"):
        await topic.create_subscription("two")
    assert list(topic.subscriptions) == ["one"]


async def test_a_transaction_that_ends_on_a_topic_that_is_gone_has_ended(world: World) -> None:
    ends = LocalParticipants(world.registry)
    request = EndOnParticipant(0, TransactionId(0, 1), True, -1, str(world.name), None)
    await ends.end(request)
    assert world.cluster.created == [], "it is not created for that"
    await world.topic()
    world.cluster.refused.add(world.cluster.bundle_of(world.name))
    await world.registry.unload_topic(world.name)
    with pytest.raises(BrokerError) as refused:
        await ends.end(request)
    assert refused.value.code is ServerError.ServiceNotReady
