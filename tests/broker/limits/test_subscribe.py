"""How often one consumer may subscribe."""

import gc

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.limits.options import RateOptions
from counterpoise.broker.limits.rates import Rate, TopicRates, rates_of
from counterpoise.broker.limits.subscribe import SWEEP, SubscribeLimits
from counterpoise.broker.namespaces.policies.applied import applied_policies
from counterpoise.broker.topic.ports import SubscribeRequest
from counterpoise.names.topic import TopicName
from counterpoise.quota import SECOND_NS, Bucket
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import SubscriptionType
from tests.broker.limits.conftest import LimitedTopics
from tests.broker.topic.conftest import Wire
from tests.quota.jumping import on_jumping_loop, pass_time

TWO_IN_TEN = TopicRates(subscribe=Rate(2, period_s=10))
STORED = TopicName.parse("persistent://t/n/x")
FLEETING = TopicName.parse("non-persistent://t/n/x")


class Subscribing(LimitedTopics):
    """One client that subscribes and leaves, again and again."""

    async def subscribe(
        self,
        name: str = "c",
        consumer_id: int = 1,
        address: str = "10.0.0.1:5000",
        topic: TopicName = STORED,
        times: int = 1,
    ) -> None:
        loaded = await self.world.topic(topic)
        for _ in range(times):
            request = SubscribeRequest(
                "s", SubscriptionType.Exclusive, consumer_id, name, address=address
            )
            (await loaded.subscribe(request, Wire())).close()


@pytest.fixture
def subscribing() -> Subscribing:
    made = Subscribing()
    made.rates = TWO_IN_TEN
    return made


@on_jumping_loop
async def test_a_consumer_that_subscribes_too_often_is_refused_as_pulsar_does(
    subscribing: Subscribing,
) -> None:
    await subscribing.subscribe(times=2)
    with pytest.raises(BrokerError) as refused:
        await subscribing.subscribe()
    assert refused.value.code is ServerError.NotAllowedError
    assert refused.value.message == "Subscribe limited by subscribe rate limit per consumer."
    await pass_time(5 - 1e-9)
    with pytest.raises(BrokerError):
        await subscribing.subscribe()
    await pass_time(1e-9)
    await subscribing.subscribe()
    with pytest.raises(BrokerError):
        await subscribing.subscribe()


@on_jumping_loop
async def test_who_is_refused_leaves_no_subscription_behind(subscribing: Subscribing) -> None:
    await subscribing.subscribe(times=2)
    topic = await subscribing.world.topic()
    topic.subscriptions["s"].end()
    with pytest.raises(BrokerError):
        await subscribing.subscribe()
    assert not topic.subscriptions


@on_jumping_loop
async def test_a_bucket_is_a_consumers_and_not_its_connections(subscribing: Subscribing) -> None:
    await subscribing.subscribe(times=2)
    with pytest.raises(BrokerError):
        await subscribing.subscribe(address="10.0.0.1:5001")
    await subscribing.subscribe(address="10.0.0.2:5000")
    await subscribing.subscribe(name="d")
    await subscribing.subscribe(consumer_id=2)
    await subscribing.subscribe(topic=TopicName.parse("persistent://t/n/y"))


@on_jumping_loop
async def test_a_topic_that_stores_nothing_has_no_such_limit(subscribing: Subscribing) -> None:
    await subscribing.subscribe(topic=FLEETING, times=5)


@on_jumping_loop
async def test_a_rate_changes_while_the_topic_is_served(subscribing: Subscribing) -> None:
    await subscribing.subscribe(times=2)

    async def now(rates: TopicRates) -> None:
        subscribing.rates = rates
        await subscribing.limits.refresh(subscribing.limits.topics)

    await now(TopicRates(subscribe=Rate(4, period_s=10)))
    await subscribing.subscribe(times=4)
    with pytest.raises(BrokerError):
        await subscribing.subscribe()
    # The same rate once more gives nothing away.
    await now(TopicRates(subscribe=Rate(4, period_s=10)))
    with pytest.raises(BrokerError):
        await subscribing.subscribe()
    await now(TopicRates())
    await subscribing.subscribe(times=20)


@on_jumping_loop
async def test_a_topic_that_leaves_takes_its_buckets_along(subscribing: Subscribing) -> None:
    await subscribing.subscribe(times=2)
    with pytest.raises(BrokerError):
        await subscribing.subscribe()
    await subscribing.world.registry.unload_topic(STORED)
    await subscribing.subscribe(times=2)


def buckets() -> int:
    gc.collect()
    return sum(isinstance(each, Bucket) for each in gc.get_objects())


def test_names_that_are_made_up_take_no_memory_for_long() -> None:
    now, before = 0, buckets()
    limits = SubscribeLimits(lambda: now)
    limits.set_rate(STORED, TWO_IN_TEN.subscribe)
    for number in range(20 * SWEEP):
        now += SECOND_NS
        limits.admit(STORED, "10.0.0.1:1", f"made-up-{number}", 0)
    assert buckets() - before <= SWEEP


def policy(count: object, period_s: object) -> dict[str, object]:
    return {"subscribeThrottlingRatePerConsumer": count, "ratePeriodInSecond": period_s}


@pytest.mark.parametrize(
    ("topic", "namespace", "expected"),
    [
        (None, None, Rate(7, period_s=30)),
        (None, policy(5, 60), Rate(5, period_s=60)),
        (policy(1, 2), policy(5, 60), Rate(1, period_s=2)),
        (policy(-1, 30), policy(5, 60), Rate()),
        (None, policy(5, 0), Rate()),
        (None, policy("5", 60), Rate()),
    ],
)
def test_the_topics_policy_comes_before_its_namespaces(
    topic: dict[str, object] | None, namespace: dict[str, object] | None, expected: Rate
) -> None:
    own = {"subscribeRate": topic} if topic else None
    shared = {"clusterSubscribeRate": {"here": namespace, "there": policy(9, 9)}}
    found = rates_of(applied_policies(own, shared, "here"), RateOptions(subscribes=7)).subscribe
    assert bool(found) is bool(expected)
    assert not found or found == expected
