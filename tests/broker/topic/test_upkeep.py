"""Messages that expire and backlogs that exceed their quotas, by the policies of their topic."""

from dataclasses import replace

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.backlog_quota import BacklogQuota, quotas_of
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.upkeep import TopicUpkeep
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World

SHARED = SubscriptionType.Shared
NONE = BacklogQuota(-1, "producer_request_hold")


async def published(world: World, *ages_s: float) -> None:
    producer = await world.producer()
    for number, age_s in enumerate(ages_s):
        at = round((world.registry.wall() - age_s) * 1000)
        await world.publish(producer, number, publish_time=at)


def upkeep(world: World) -> TopicUpkeep:
    return TopicUpkeep(world.registry, TopicOptions)


@pytest.mark.usefixtures("now_s")
async def test_what_is_older_than_its_ttl_is_acknowledged(store: MemoryLedgerStore) -> None:
    world = World(store)
    durable = await world.consumer(SHARED, permits=0)
    reader = await world.consumer(SHARED, subscription="r", durable=False, permits=0)
    await published(world, 100, 50.001, 50, 10)
    topic = await world.topic()
    await upkeep(world).expire_messages()
    assert durable.subscription.backlog == 4
    topic.apply(replace(topic.rules, ttl_s=50))
    await upkeep(world).expire_messages()
    assert durable.subscription.backlog == 2
    assert reader.subscription.acks.mark <= 1
    durable.flow(10)
    assert world.wire.payloads(durable) == ["2", "3"]


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("producer_request_hold", ServerError.ProducerBlockedQuotaExceededError),
        ("producer_exception", ServerError.ProducerBlockedQuotaExceededException),
    ],
)
@pytest.mark.parametrize("is_age", [False, True])
@pytest.mark.usefixtures("now_s")
async def test_producers_of_a_backlog_that_exceeds_its_quota_leave_until_it_shrinks(
    store: MemoryLedgerStore, policy: str, code: ServerError, is_age: bool
) -> None:
    """At its limit a quota is exceeded, by the subscription that lags most."""
    world = World(store)
    faster = await world.consumer(SHARED, subscription="faster", permits=0)
    consumer = await world.consumer(SHARED, permits=0)
    await published(world, 40, 39.999)
    faster.subscription.skip(1)
    topic = await world.topic()
    limit = 40 if is_age else topic.log.size
    topic.apply(replace(topic.rules, quotas=(BacklogQuota(limit, policy, is_age=is_age),)))
    with pytest.raises(BrokerError) as refused:
        await world.producer()
    assert refused.value.code is code
    (attached,) = topic.attached_producers()
    await upkeep(world).check_quotas()
    assert attached.closed
    for each in (consumer, faster):
        each.subscription.skip(1)
        await upkeep(world).check_quotas()
        await world.producer()


@pytest.mark.usefixtures("now_s")
async def test_eviction_leaves_nine_tenths_of_the_quota_and_its_producers(
    store: MemoryLedgerStore,
) -> None:
    world = World(store)
    consumer = await world.consumer(SHARED, permits=0)
    await published(world, *range(100, 0, -1))
    topic = await world.topic()
    half = topic.log.size // 2
    quota = BacklogQuota(half, "consumer_backlog_eviction")
    topic.apply(replace(topic.rules, quotas=(quota,)))
    await world.producer()
    await upkeep(world).check_quotas()
    assert consumer.subscription.backlog == 45
    young = BacklogQuota(20, "consumer_backlog_eviction", is_age=True)
    topic.apply(replace(topic.rules, quotas=(young,)))
    await upkeep(world).check_quotas()
    assert consumer.subscription.backlog == 20
    assert all(not each.closed for each in topic.attached_producers())


@pytest.mark.parametrize(
    ("stored", "found"),
    [
        ({}, ()),
        ({"destination_storage": {"limit": -1}}, ()),
        ({"destination_storage": {"limit": 9}}, (BacklogQuota(9, NONE.policy),)),
        ({"destination_storage": {"limit": 9, "limitSize": 8}}, (BacklogQuota(8, NONE.policy),)),
        (
            {"message_age": {"limitTime": 7, "policy": "producer_exception"}},
            (BacklogQuota(7, "producer_exception", is_age=True),),
        ),
        ({"destination_storage": "odd", "message_age": {"limitTime": "odd"}}, ()),
    ],
)
def test_quotas_as_policies_hold_them(
    stored: dict[str, object], found: tuple[BacklogQuota, ...]
) -> None:
    assert quotas_of({"backLogQuotaMap": stored}, NONE) == found
