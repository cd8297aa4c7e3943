"""What is deleted because it is not used: acknowledged messages, subscriptions, whole topics."""

from collections.abc import Mapping
from typing import Any

import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.peers.system_topic import KEEPER
from counterpoise.broker.topic.log_name import log_name
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.persistent import PersistentTopic
from counterpoise.broker.topic.retention import Inactivity, Retention, TopicLifetime, inactivity_of
from counterpoise.broker.topic.upkeep import TopicUpkeep
from counterpoise.names.topic import TopicName
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World, entry

HALF_A_MEGABYTE = 1 << 19
MINUTE = 60.0
CAUGHT_UP = "delete_when_subscriptions_caught_up"


class Cared:
    """A broker's topics with policies, and what it does to them from time to time."""

    def __init__(self, **policies: Any) -> None:
        self.policies: dict[str, Any] = policies
        self.options = TopicOptions()
        self.world = World(
            MemoryLedgerStore(ledger_entries=2), policies=self.read, live=lambda: self.options
        )
        self.upkeep = TopicUpkeep(self.world.registry, lambda: self.options, BackgroundTasks())

    async def read(self, _: TopicName) -> Mapping[str, Any]:
        return self.policies

    async def topic(self) -> PersistentTopic:
        return await self.world.topic()

    async def publish(self, *ages_minutes: float) -> None:
        producer = await self.world.producer()
        for age in ages_minutes:
            at = round((self.world.registry.wall() - age * MINUTE) * 1000)
            overhead = len(entry("", publish_time=at))
            body = "x" * (HALF_A_MEGABYTE - overhead)
            await self.world.publish(producer, body, publish_time=at)
        producer.close()

    async def store_has_it(self) -> bool:
        return await self.world.store.exists(log_name(self.world.name))

    def wait(self, minutes: float) -> None:
        self.world.registry.wall.advance(minutes * MINUTE)


def retention(minutes: int, megabytes: int) -> dict[str, Any]:
    return {
        "retentionPolicies": {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
    }


def inactivity(mode: str = "delete_when_no_subscriptions", **changed: Any) -> dict[str, Any]:
    policy = {
        "inactiveTopicDeleteMode": mode,
        "maxInactiveDurationSeconds": 600,
        "deleteWhileInactive": True,
    }
    return {"inactiveTopicPolicies": {**policy, **changed}}


@pytest.mark.parametrize(
    ("minutes", "megabytes", "acknowledged", "begin"),
    [
        (0, 0, 7, 6),
        (-1, -1, 7, 0),
        (0, -1, 7, 6),
        (-1, 0, 7, 6),
        (45, -1, 7, 2),
        (45, -1, 1, 0),
        (45, -1, 2, 2),
        (5, -1, 3, 2),
        (-1, 2, 7, 4),
        (-1, 4, 7, 0),
        (45, 2, 7, 4),
        (5, 100, 7, 4),
    ],
)
async def test_ledgers_are_kept_until_they_are_old_or_too_many(
    minutes: int, megabytes: int, acknowledged: int, begin: int
) -> None:
    """Ledgers of two entries of half a megabyte, of which the newest is never deleted.

    A producer's clock is five minutes ahead, for the last of the third one.
    """
    cared = Cared(**retention(minutes, megabytes))
    consumer = await cared.world.consumer(SubscriptionType.Shared, permits=0)
    await cared.publish(60, 50, 40, 30, 20, -5, 0, 0)
    topic = await cared.topic()
    consumer.subscription.skip(acknowledged)
    await cared.upkeep.trim()
    assert topic.log.begin == begin


async def test_a_retention_holds_without_a_subscription_and_from_its_change_on() -> None:
    cared = Cared(**retention(45, -1))
    await cared.publish(40, 30, 20, 10, 0)
    topic = await cared.topic()
    await cared.upkeep.trim()
    assert topic.log.begin == 0
    cared.wait(16)
    await cared.upkeep.trim()
    assert topic.log.begin == 2
    cared.policies.clear()
    await cared.world.registry.policies_changed([topic.name])
    reader = await cared.world.consumer(subscription="r", durable=False, permits=0)
    await cared.upkeep.trim()
    assert topic.log.begin == 4
    assert reader.subscription.backlog == 1


@pytest.mark.usefixtures("now_s")
async def test_a_subscription_goes_that_had_no_consumer_for_its_time() -> None:
    cared = Cared(subscription_expiration_time_minutes=10)
    used = await cared.world.consumer(subscription="used", permits=0)
    idle = [await cared.world.consumer(subscription=each, permits=0) for each in ("left", KEEPER)]
    topic = await cared.topic()
    cared.wait(20)
    for each in idle:
        each.close()
    cared.wait(10)
    await cared.upkeep.expire_subscriptions()
    assert {*topic.subscriptions} == {"used", "left", KEEPER}
    cared.wait(0.2)
    cared.policies["subscription_expiration_time_minutes"] = 0
    await cared.world.topic()
    await cared.upkeep.expire_subscriptions()
    assert {*topic.subscriptions} == {"used", "left", KEEPER}
    cared.policies.clear()
    cared.options = TopicOptions(subscription_minutes=10)
    await cared.world.topic()
    await cared.upkeep.expire_subscriptions()
    assert {*topic.subscriptions} == {"used", KEEPER}, "what keeps messages for compaction stays"
    assert used.subscription.consumers


@pytest.mark.parametrize(
    ("minutes", "entries", "idle_s", "is_over"),
    [
        (0, 0, 59.9, False),
        (0, 0, 60, True),
        (-1, 0, 60, True),
        (0, 5, 60, True),
        (2, 0, 60, True),
        (2, 5, 119.9, False),
        (2, 5, 120, True),
        (-1, 5, 9e9, False),
    ],
)
def test_an_unused_topic_stays_for_its_time_and_for_that_of_its_messages(
    minutes: int, entries: int, idle_s: float, is_over: bool
) -> None:
    lifetime = TopicLifetime(Retention(minutes, -1), Inactivity(is_deleted=True, seconds=60))
    assert lifetime.is_over(idle_s, entries) is is_over
    assert not TopicLifetime(Retention(minutes, -1)).is_over(idle_s, entries)


def test_a_policy_of_inactivity_without_a_mode_has_the_brokers() -> None:
    default = Inactivity(mode=CAUGHT_UP, seconds=600)
    policy = {"deleteWhileInactive": True, "maxInactiveDurationSeconds": 5}
    assert inactivity_of({"inactiveTopicPolicies": policy}, default) == (True, CAUGHT_UP, 5)
    assert inactivity_of({}, default) is default


@pytest.mark.parametrize("mode", ["delete_when_no_subscriptions", CAUGHT_UP])
async def test_a_topic_without_clients_is_deleted_once_it_was_idle_for_its_time(mode: str) -> None:
    cared = Cared(**inactivity(mode))
    await cared.publish(0)
    assert await cared.store_has_it()
    cared.wait(9.9)
    await cared.upkeep.delete_inactive()
    assert cared.world.cluster.created
    cared.wait(0.2)
    await cared.upkeep.delete_inactive()
    assert not cared.world.cluster.created
    assert not await cared.store_has_it()
    assert cared.world.name not in cared.world.registry.loaded
    await cared.publish(0)
    assert (await cared.topic()).log.end == 1


@pytest.mark.parametrize(
    ("policies", "options"),
    [
        ({}, TopicOptions(deletes_inactive=False)),
        (inactivity(), TopicOptions(deletes_inactive=False)),
        (inactivity(deleteWhileInactive=False), TopicOptions()),
        (inactivity() | retention(30, -1), TopicOptions()),
        (inactivity() | retention(-1, -1), TopicOptions()),
    ],
)
async def test_a_topic_stays_where_neither_policy_nor_setting_deletes_it(
    policies: dict[str, Any], options: TopicOptions
) -> None:
    cared = Cared(**policies)
    cared.options = options
    await cared.publish(0)
    cared.wait(20)
    await cared.upkeep.delete_inactive()
    assert cared.world.cluster.created


async def test_a_consumer_that_has_read_all_keeps_its_topic_and_nothing_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cared = Cared(**inactivity(CAUGHT_UP))
    consumer = await cared.world.consumer()
    caplog.set_level("INFO")
    cared.wait(20)
    for _ in range(2):
        await cared.upkeep.delete_inactive()
    assert cared.world.cluster.created
    assert not caplog.text
    consumer.close()
    await cared.upkeep.delete_inactive()
    assert not cared.world.cluster.created


async def test_a_subscription_keeps_its_topic_or_only_its_backlog_does() -> None:
    cared = Cared(**inactivity())
    consumer = await cared.world.consumer(permits=0)
    await cared.publish(0)
    consumer.close()
    cared.wait(20)
    await cared.upkeep.delete_inactive()
    cared.policies = inactivity(CAUGHT_UP)
    await cared.world.topic()
    cared.wait(20)
    await cared.upkeep.delete_inactive()
    assert cared.world.cluster.created
    consumer.subscription.skip(None)
    connected = await cared.world.consumer(permits=0)
    cared.wait(20)
    await cared.upkeep.delete_inactive()
    assert cared.world.cluster.created, "a consumer is attached"
    connected.close()
    await cared.upkeep.delete_inactive()
    assert not cared.world.cluster.created


async def test_a_producer_or_a_consumer_that_comes_meanwhile_keeps_the_topic() -> None:
    """Also if it is gone again: the subscription that it left, and the moment of its leaving."""
    cared = Cared(**inactivity())
    await cared.publish(0)
    topic = await cared.topic()
    cared.wait(20)
    assert topic.is_idle()
    for come in (cared.world.producer, cared.world.consumer):
        (await come()).close()
        with pytest.raises(BrokerError, match="in use again") as refused:
            await cared.world.registry.delete(topic.name, if_idle=True)
        assert refused.value.code is ServerError.NotAllowedError
    assert cared.world.cluster.created


async def test_only_the_owner_deletes_and_brokers_own_topics_stay() -> None:
    cared = Cared(**inactivity())
    own = TopicName.parse("persistent://pulsar/system/loadbalancer-service-unit-state")
    await cared.world.topic(own)
    await cared.publish(0)
    await cared.world.registry.unload_topic(cared.world.name)
    cared.wait(20)
    await cared.upkeep.delete_inactive()
    assert {*cared.world.cluster.created} == {own, cared.world.name}


async def test_a_consumer_keeps_a_topic_that_stores_nothing() -> None:
    cared = Cared(**inactivity(CAUGHT_UP))
    cared.world.name = TopicName.parse("non-persistent://t/n/x")
    consumer = await cared.world.consumer()
    for _ in range(2):
        cared.wait(20)
        await cared.upkeep.delete_inactive()
    consumer.close()
    await cared.upkeep.delete_inactive()
    assert cared.world.name in cared.world.registry.loaded, "it was in use a moment ago"
    cared.wait(20)
    await cared.upkeep.delete_inactive()
    assert cared.world.name not in cared.world.registry.loaded


@pytest.mark.parametrize("deletes_whole", [False, True])
async def test_a_partitioned_topic_goes_with_its_partitions_if_the_broker_says_so(
    deletes_whole: bool,
) -> None:
    cared = Cared(**inactivity())
    cared.options = TopicOptions(deletes_inactive_partitioned=deletes_whole)
    cared.world.name = cared.world.name.partition(0)
    await cared.publish(0)
    cared.wait(20)
    await cared.upkeep.delete_inactive()
    assert cared.world.cluster.unparted == [cared.world.name] * deletes_whole


async def test_a_topic_that_stores_nothing_is_closed() -> None:
    cared = Cared(**inactivity(CAUGHT_UP))
    name = TopicName.parse("non-persistent://t/n/x")
    await cared.world.topic(name)
    cared.wait(20)
    await cared.upkeep.delete_inactive()
    assert name not in cared.world.registry.loaded
