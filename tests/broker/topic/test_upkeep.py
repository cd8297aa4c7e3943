"""Messages that expire and backlogs that exceed their quotas, by the policies of their topic."""

from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace

import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.backlog_quota import BacklogQuota, quotas_of
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.retention import Retention
from counterpoise.broker.topic.upkeep import TopicUpkeep
from counterpoise.names.topic import TopicName
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import StorageError
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World, entry
from tests.quota.jumping import on_jumping_loop, pass_time
from tests.waiting import until

SHARED = SubscriptionType.Shared
NONE = BacklogQuota(-1, "producer_request_hold")


async def published(world: World, *ages_s: float) -> None:
    producer = await world.producer()
    for number, age_s in enumerate(ages_s):
        at = round((world.registry.wall() - age_s) * 1000)
        await world.publish(producer, number, publish_time=at)


def upkeep(world: World) -> TopicUpkeep:
    return TopicUpkeep(world.registry, TopicOptions, BackgroundTasks())


@pytest.mark.parametrize(("backlog", "looks"), [(999, False), (1000, True)])
@pytest.mark.parametrize("attached", [False, True])
async def test_a_small_backlog_that_consumers_are_at_work_on_is_not_looked_at(
    world: World, backlog: int, looks: bool, attached: bool
) -> None:
    """As by Pulsar; it counts for what an administrator is answered."""
    consumer = await world.consumer(SHARED, permits=0)
    topic, producer = await world.topic(), await world.producer()
    context = (producer, 0, 0)
    topic.log.extend([entry("x")] * backlog, [1] * backlog, [context] * backlog)
    await topic.log.drain()
    if not attached:
        consumer.close()
    assert await consumer.subscription.expire(1) is (looks or not attached)
    assert consumer.subscription.backlog == backlog


async def test_what_no_client_can_read_is_as_old_as_can_be(world: World) -> None:
    consumer = await world.consumer(SHARED, permits=0)
    topic, producer = await world.topic(), await world.producer()
    for number in range(2):
        topic.log.append(b"no entry", 1, (producer, number, number))
    await topic.log.drain()
    topic.apply(replace(topic.rules, ttl_s=1))
    await upkeep(world).expire_messages()
    assert consumer.subscription.backlog == 0


@pytest.mark.usefixtures("now_s")
async def test_what_is_older_than_its_ttl_is_acknowledged(store: MemoryLedgerStore) -> None:
    world = World(store)
    durable = await world.consumer(SHARED, permits=0)
    reader = await world.consumer(SHARED, subscription="r", durable=False, permits=0)
    await published(world, 100, 50.001, 50, 10)
    topic = await world.topic()
    await upkeep(world).expire_messages()
    assert durable.subscription.backlog == 4
    assert durable.subscription.expired_at == 0
    topic.apply(replace(topic.rules, ttl_s=50))
    await upkeep(world).policies_changed([topic.name, TopicName.parse("persistent://p/n/none")])
    await until(lambda: durable.subscription.backlog == 2, "a shorter time is applied at once")
    assert durable.subscription.expired_at == world.registry.wall()
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


@pytest.mark.usefixtures("now_s")
@pytest.mark.parametrize(
    ("quota", "exceeds"),
    [
        (BacklogQuota(50, NONE.policy, is_age=True), True),
        (BacklogQuota(51, NONE.policy, is_age=True), False),
        (BacklogQuota(200, NONE.policy), True),
        (BacklogQuota(201, NONE.policy), False),
    ],
)
async def test_a_backlog_of_just_its_quota_exceeds_it(
    store: MemoryLedgerStore, quota: BacklogQuota, exceeds: bool
) -> None:
    """As in Pulsar, by the slowest subscription and its oldest message."""
    world = World(store)
    slow = await world.consumer(SHARED, permits=0)
    await world.consumer(SHARED, subscription="done", permits=0)
    await published(world, 80, 50)
    topic = await world.topic()
    # Entries of a size that is easy to count with.
    size, entries = topic.log.size, topic.log.end
    slow.subscription.advance(0)
    topic.subscriptions["done"].skip(None)
    scaled = quota if quota.is_age else replace(quota, limit=quota.limit - 200 + size // entries)
    assert (await topic.backlog().exceeded((scaled,)) == scaled) is exceeds


@pytest.mark.parametrize(
    ("stored", "found"),
    [
        ({}, ()),
        ({"destination_storage": {"limit": -1}}, ()),
        ({"destination_storage": {"limit": 9}}, (BacklogQuota(9, NONE.policy),)),
        ({"destination_storage": {"limit": 9, "limitSize": 8}}, (BacklogQuota(8, NONE.policy),)),
        ({"destination_storage": {"limit": 9, "limitSize": -1}}, (BacklogQuota(9, NONE.policy),)),
        ({"destination_storage": {"limit": -1, "limitSize": 8}}, (BacklogQuota(8, NONE.policy),)),
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


LOOKS = {
    "expire_subscriptions": 12,
    "expire_messages": 30,
    "check_quotas": 40,
    "compact": 60,
    "trim": 20,
    "delete_inactive": 36,
    "save_sequence_ids": 10,
    "forget_producers": 6,
}
"""How often in an hour."""


@pytest.mark.parametrize("off", [False, True])
@on_jumping_loop
async def test_each_look_comes_as_often_as_its_setting_says(off: bool) -> None:
    looks: Counter[str] = Counter()
    options = TopicOptions(
        subscription_check_minutes=0 if off else 5,
        expiry_check_minutes=0 if off else 2,
        quota_check_s=90,
        quota_checks=not off,
        compaction_check_s=60,
        retention_check_s=180,
        inactive_check_s=100,
        dedup_check_s=0 if off else 360,
        dedup_inactive_minutes=30,
    )

    class Counted(TopicUpkeep):
        """Counts its looks instead of taking them."""

    def counted(name: str) -> Callable[[TopicUpkeep], Coroutine[None, None, None]]:
        async def look(_upkeep: TopicUpkeep) -> None:
            looks[name] += 1

        return look

    for name in LOOKS:
        setattr(Counted, name, counted(name))
    background = BackgroundTasks()
    care = Counted(World(MemoryLedgerStore()).registry, lambda: options, background)
    care.start()
    await pass_time(3601)
    never = ("expire_subscriptions", "expire_messages", "check_quotas", "save_sequence_ids")
    assert looks == {name: n for name, n in LOOKS.items() if not (off and name in never)}
    await background.stop()
    before = Counter(looks)
    await care.look_at_all()
    assert looks - before == dict.fromkeys(looks, 1)


@pytest.mark.parametrize("what", ["expire_messages", "trim", "check_quotas"])
@pytest.mark.usefixtures("now_s")
async def test_a_topic_that_cannot_be_read_keeps_no_other_from_its_upkeep(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(MemoryLedgerStore(ledger_entries=1))
    broken, sound = (TopicName.parse(f"persistent://t/n/{each}") for each in ("broken", "sound"))
    quota = BacklogQuota(50, "consumer_backlog_eviction", is_age=True)
    for name in (broken, sound):
        world.name = name
        consumer = await world.consumer(SHARED, permits=0)
        await published(world, 100, 100)
        topic = await world.topic()
        if what == "trim":
            kept = replace(topic.rules.lifetime, retention=Retention(1, -1))
            topic.apply(replace(topic.rules, lifetime=kept))
            consumer.subscription.skip(None)
        else:
            topic.apply(replace(topic.rules, ttl_s=50, quotas=(quota,)))

    def cached(_index: int) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr((await world.topic(broken)).log, "cached", cached)
    await getattr(upkeep(world), what)()
    topic = await world.topic(sound)
    assert (topic.log.begin, topic.subscriptions["s"].backlog) == (1 if what == "trim" else 0, 0)


async def test_a_topic_within_its_quota_keeps_no_other_from_being_looked_at(
    store: MemoryLedgerStore,
) -> None:
    world = World(store)
    attached = []
    for name, limit in (("within", 1 << 30), ("beyond", 1)):
        world.name = TopicName.parse(f"persistent://t/n/{name}")
        await world.consumer(SHARED, permits=0)
        await published(world, 1)
        topic = await world.topic()
        topic.apply(replace(topic.rules, quotas=(BacklogQuota(limit, "producer_exception"),)))
        attached += topic.attached_producers()
    await upkeep(world).check_quotas()
    assert [each.closed for each in attached] == [False, True]
