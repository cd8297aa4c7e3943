"""Dispatch limits: what a subscription, a topic and a broker deliver, whatever the type."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from counterpoise.admin.subscription_json import subscription_json
from counterpoise.broker.limits.dispatch_flow import BACKLOGGED
from counterpoise.broker.limits.options import RateOptions
from counterpoise.broker.limits.rates import Rate, TopicRates, rates_of
from counterpoise.quota import NO_LIMIT, LimitLevel
from counterpoise.wire.values import SubscriptionType
from tests.broker.limits.conftest import LimitedTopics, timers
from tests.broker.topic.conftest import batch, publish
from tests.broker.topic.ends import EARLIEST
from tests.quota.jumping import on_jumping_loop, pass_time

TYPES = list(SubscriptionType)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@on_jumping_loop
async def test_a_topics_rate_holds_and_nothing_is_lost(
    limited: LimitedTopics, kind: SubscriptionType
) -> None:
    await limited.backlog(TopicRates(dispatch=Rate(messages=10)))
    wire = await limited.consumer("s", kind)
    assert len(wire.deliveries) == 1
    await pass_time(1)
    assert len(wire.deliveries) == pytest.approx(11, abs=1)
    await pass_time(3)
    assert wire.payloads() == [str(number) for number in range(30)]
    assert timers() == 0


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@on_jumping_loop
async def test_bytes_over_a_period_of_several_seconds(
    limited: LimitedTopics, kind: SubscriptionType
) -> None:
    await limited.backlog(TopicRates(subscription_dispatch=Rate(size=1000, period_s=10)), 90)
    wire = await limited.consumer("s", kind)
    await pass_time(10)
    delivered = sum(len(entry) for entry in wire.entries())
    assert 1000 - 50 <= delivered <= 1000 + 2 * len(wire.entries()[0])


@on_jumping_loop
async def test_subscriptions_share_a_topics_rate_and_have_each_their_own(
    limited: LimitedTopics,
) -> None:
    await limited.backlog(TopicRates(dispatch=Rate(messages=20)), 100)
    wires = [await limited.consumer(f"s{n}", TYPES[n]) for n in range(4)]
    await pass_time(10)
    shares = [len(wire.deliveries) for wire in wires]
    assert sum(shares) == pytest.approx(200, abs=4)
    assert max(shares) - min(shares) <= 4
    await limited.set_rates(TopicRates(subscription_dispatch=Rate(messages=10)))
    await pass_time(1)
    for wire, before in zip(wires, shares, strict=True):
        assert len(wire.deliveries) - before == pytest.approx(10, abs=2)


@on_jumping_loop
async def test_a_groups_part_holds_for_its_topics_alone(limited: LimitedTopics) -> None:
    """Nor does a topic in no group mind that there is one."""
    await limited.backlog(TopicRates())
    await limited.consumer("s0", TYPES[1])
    limited.limits.dispatch.set_group_rate("g", Rate(messages=1))
    free = await limited.consumer("s1", TYPES[1])
    assert len(free.deliveries) == 30
    await limited.set_rates(TopicRates(resource_group="g"))
    limited = await limited.consumer("s2", TYPES[1])
    assert len(limited.deliveries) < 10


@on_jumping_loop
async def test_a_removed_rate_releases_everything(limited: LimitedTopics) -> None:
    await limited.backlog(TopicRates(dispatch=Rate(messages=1)))
    limited.limits.dispatch.set_broker_rate(Rate(messages=1))
    wires = [await limited.consumer(f"s{n}", kind) for n, kind in enumerate(TYPES)]
    await limited.set_rates(TopicRates())
    assert sum(len(wire.deliveries) for wire in wires) < 10
    limited.limits.dispatch.set_broker_rate(Rate())
    assert [len(wire.deliveries) for wire in wires] == [30] * 4
    assert timers() == 0


@on_jumping_loop
async def test_a_subscription_that_ends_waits_no_longer(limited: LimitedTopics) -> None:
    await limited.backlog(TopicRates(dispatch=Rate(messages=1)))
    await limited.consumer("s", SubscriptionType.Shared)
    limited.limits.dispatch.set_broker_rate(Rate(messages=1))
    await limited.set_rates(TopicRates())
    flow = (await limited.world.topic()).subscriptions["s"].flow
    (broker,) = limited.limits.dispatch.all()
    assert list(broker.waiting) == [flow]
    assert flow.events[LimitLevel.BROKER_DISPATCH, "messages"] == 1
    await limited.world.registry.unload_topic(limited.world.name)
    assert broker.waiting == {}, "a flow that is gone would get a turn"
    assert timers() == 0
    limited.limits.dispatch.set_broker_rate(Rate())
    assert limited.limits.dispatch.all() == [], "limits of a topic that is gone are kept"


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@on_jumping_loop
async def test_a_batch_counts_its_messages_or_once(
    limited: LimitedTopics, kind: SubscriptionType
) -> None:
    producer = await limited.producer(TopicRates(dispatch=Rate(messages=100)))
    for number in range(400):
        publish(producer, number, number, batch(10))
    await limited.receipts(400)
    wire = await limited.consumer("s", kind, permits=10_000)
    await pass_time(2)
    before = len(wire.deliveries)
    assert before == pytest.approx(20, abs=2)
    limited.limits.dispatch.set_counting(whole_batches=True, caught_up=True)
    await pass_time(2)
    assert len(wire.deliveries) - before == pytest.approx(200, abs=12)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@on_jumping_loop
async def test_a_subscription_that_does_not_lag_may_be_free_of_limits(
    limited: LimitedTopics, kind: SubscriptionType
) -> None:
    await limited.backlog(TopicRates(dispatch=Rate(messages=100)), BACKLOGGED + 150)
    limited.limits.dispatch.set_counting(whole_batches=False, caught_up=False)
    wire = await limited.consumer("s", kind, permits=10_000)
    await pass_time(1)
    assert len(wire.deliveries) == pytest.approx(100, abs=6)
    await pass_time(1)
    assert len(wire.deliveries) == BACKLOGGED + 150
    assert timers() == 0


@on_jumping_loop
async def test_a_waiting_subscription_goes_on_when_it_counts_no_longer(
    limited: LimitedTopics,
) -> None:
    await limited.backlog(TopicRates(dispatch=Rate(messages=1)))
    wires = [await limited.consumer(f"s{n}", kind) for n, kind in enumerate(TYPES)]
    limited.limits.dispatch.set_counting(whole_batches=False, caught_up=False)
    assert [len(wire.deliveries) for wire in wires] == [30] * 4


def test_policies_and_settings_may_make_a_rate_relative() -> None:
    policy = {"dispatchThrottlingRateInMsg": 5, "relativeToPublishRate": True}
    options = RateOptions(subscription_dispatch_messages=7, dispatch_relative=True)
    found = rates_of({"dispatchRate": policy}, options)
    assert found.dispatch == Rate(5, 0, 1, relative=True)
    assert found.subscription_dispatch == Rate(7, 0, 1, relative=True)
    plain = rates_of({"dispatchRate": {"dispatchThrottlingRateInMsg": 5}}, options)
    assert plain.dispatch == Rate(5)


@on_jumping_loop
async def test_what_is_seen_of_a_limit_that_holds_up_subscriptions(
    limited: LimitedTopics, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "counterpoise.broker.limits")
    await limited.backlog(TopicRates(dispatch=Rate(size=200, period_s=2)), 30)
    for name in ("s1", "s2"):
        await limited.consumer(name, SubscriptionType.Shared)
    await pass_time(4.5)
    (limit,) = limited.limits.snapshots()
    assert (limit.level, limit.subject) == ("TopicDispatchRate", "persistent://t/n/x")
    assert (limit.messages, limit.bytes, limit.period_s) == (0, 200, 2)
    topic = await limited.world.topic()
    assert limit.passed_bytes == topic.meter_out.bytes > 0
    assert limit.passed_messages == topic.meter_out.messages
    assert (limit.times, limit.producers) == (1, ())
    assert limit.seconds == pytest.approx(4.5, abs=0.1)
    assert {each.name for each in limit.subscriptions} == {"s1", "s2"}
    for each in limit.subscriptions:
        assert each.topic == "persistent://t/n/x"
        subscription = topic.subscriptions[each.name]
        assert each.behind == 30 - subscription.meters.out.messages
        assert each.seconds == pytest.approx(4.5, abs=0.1)
        # Whatever it delivered meanwhile, it had to wait again.
        stats = await subscription_json(subscription)
        assert stats["dispatchThrottledBytesEventsByTopicLimit"] == each.times > 1
        assert stats["dispatchThrottledMsgEventsByTopicLimit"] == 0
        assert stats["dispatchThrottledBytesEventsByBrokerLimit"] == 0
        assert stats["dispatchThrottledBy"] == "TopicDispatchRate"
    await pass_time(60)
    (limit,) = limited.limits.snapshots()
    assert limit.subscriptions == ()
    waited = limit.seconds
    await pass_time(20)
    assert limited.limits.snapshots()[0].seconds == waited, "no flow waits any more"
    assert "dispatchThrottledBy" not in await subscription_json(topic.subscriptions["s1"])
    reached, over = [record.getMessage() for record in caplog.records]
    assert reached.startswith(
        "TopicDispatchRate of persistent://t/n/x (200 bytes in 2 s) is reached: subscription s"
    )
    assert "is no longer reached" in over


@on_jumping_loop
async def test_events_are_counted_by_what_was_lacking_and_where(limited: LimitedTopics) -> None:
    await limited.backlog(
        TopicRates(subscription_dispatch=Rate(messages=10), dispatch=Rate(messages=10_000)), 90
    )
    limited.limits.dispatch.set_broker_rate(Rate(messages=5))
    await limited.consumer("s", SubscriptionType.Exclusive)
    await pass_time(2)
    topic = await limited.world.topic()
    stats = await subscription_json(topic.subscriptions["s"])
    assert stats["dispatchThrottledMsgEventsBySubscriptionLimit"] > 0
    assert stats["dispatchThrottledMsgEventsByBrokerLimit"] > 0
    assert stats["dispatchThrottledMsgEventsByTopicLimit"] == 0
    assert not any(stats[name] for name in stats if name.startswith("dispatchThrottledBytes"))


class Backlog:
    """A subscription that delivers what it may; `then` is done in its next turn instead."""

    def __init__(self, limited: LimitedTopics, name: str, behind: int) -> None:
        self.behind = behind
        self.delivered: list[float] = []
        self.then: Callable[[], None] | None = None
        self.flow = limited.limits.dispatch.join(limited.world.name, name, self)

    def dispatch(self) -> None:
        if self.then is not None and self.flow.waits_at is None:
            then, self.then = self.then, None
            then()
            return
        while self.behind and (free := min(self.flow.budget())) > 0:
            count = min(free, self.behind)
            self.behind -= count
            self.delivered += [asyncio.get_running_loop().time()] * count
            self.flow.took(count, count, 0)


async def rivals(limited: LimitedTopics, rate: int, *behind: int) -> list[Backlog]:
    await limited.producer(TopicRates(dispatch=Rate(messages=rate)))
    found = [Backlog(limited, f"s{n}", each) for n, each in enumerate(behind)]
    for each in found:
        each.dispatch()
    return found


@dataclass
class Published:
    rate: float = 0.0
    byte_rate: float = 0.0


@on_jumping_loop
async def test_a_relative_rate_comes_on_top_of_what_is_published(limited: LimitedTopics) -> None:
    published = Published(300.0, 30_000.0)
    relative = TopicRates(dispatch=Rate(messages=10, relative=True))
    limited.limits.dispatch.set_topic_rates(limited.world.name, relative, published)
    each = Backlog(limited, "s", 10_000)
    for rate, seconds in ((300.0, 2), (0.0, 3), (100.0, 2)):
        published.rate = rate
        # What is published is looked at once a second.
        await pass_time(2)
        before = len(each.delivered)
        each.dispatch()
        await pass_time(seconds)
        assert len(each.delivered) - before == pytest.approx((rate + 10) * seconds, rel=0.03, abs=2)
    assert limited.limits.dispatch.all()[0].bytes is None, "bytes were never limited"


@pytest.mark.parametrize(("behind", "exempt"), [(BACKLOGGED, True), (BACKLOGGED + 1, False)])
@on_jumping_loop
async def test_a_subscription_lags_with_more_than_a_thousand_entries(
    limited: LimitedTopics, behind: int, exempt: bool
) -> None:
    limited.limits.dispatch.set_counting(whole_batches=False, caught_up=False)
    await limited.producer(TopicRates(dispatch=Rate(messages=10)))
    each = Backlog(limited, "s", behind)
    assert (each.flow.budget() == (NO_LIMIT, NO_LIMIT)) is exempt


@on_jumping_loop
async def test_a_turn_that_ends_another_flow_does_not_cost_the_rest_theirs(
    limited: LimitedTopics,
) -> None:
    first, second, third = await rivals(limited, 100, 60, 60, 60)
    second.then = lambda: limited.limits.dispatch.leave(limited.world.name, third.flow)
    await pass_time(0.1)
    assert timers() == 1, "the first one waits still"
    second.dispatch()
    await pass_time(3)
    assert (first.behind, second.behind) == (0, 0)
    assert third.behind > 50
    assert timers() == 0


@on_jumping_loop
async def test_a_turn_that_fails_does_not_cost_the_rest_theirs(limited: LimitedTopics) -> None:
    first, second, third = await rivals(limited, 100, 60, 60, 60)
    failed: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))

    def fail() -> None:
        raise RuntimeError("a fault elsewhere")

    second.then = fail
    await pass_time(3)
    assert (first.behind, third.behind) == (0, 0)
    assert len(failed) == 1
    assert timers() == 0


@on_jumping_loop
async def test_a_newcomer_does_not_overtake_those_that_wait(limited: LimitedTopics) -> None:
    """It comes at the moment when the limit has tokens again, and before their turn."""
    first, second = await rivals(limited, 10, 20, 20)
    assert first.delivered == [0.0]
    await asyncio.sleep(0)
    # Both owe nothing any more 99 ms later; the timer fires a millisecond after that.
    newcomer = Backlog(limited, "new", 20)
    asyncio.get_running_loop().call_later(0.09995, newcomer.dispatch)
    await pass_time(2)
    assert second.delivered[0] < newcomer.delivered[0], "it waited first"
    counts = [len(each.delivered) for each in (first, second, newcomer)]
    # The first one delivered before any had to wait.
    assert max(counts) - min(counts) <= 2, "turns go round"


@on_jumping_loop
async def test_a_subscriptions_own_rate_comes_before_the_one_of_all(limited: LimitedTopics) -> None:
    rates = TopicRates(
        subscription_dispatch=Rate(messages=10), subscriptions={"fast": Rate(messages=20)}
    )
    await limited.backlog(rates, 100)
    wires = [await limited.consumer(name, SubscriptionType.Shared) for name in ("fast", "slow")]
    await pass_time(2)
    assert len(wires[0].deliveries) == pytest.approx(40, abs=2)
    assert len(wires[1].deliveries) == pytest.approx(20, abs=2)
    await limited.set_rates(TopicRates(subscriptions={"slow": Rate(messages=10)}))
    await pass_time(2)
    assert len(wires[0].deliveries) == 100
    assert len(wires[1].deliveries) == pytest.approx(40, abs=2)


def test_what_a_topic_says_of_subscriptions_may_be_anything() -> None:
    rate = {"dispatchThrottlingRateInMsg": 5, "dispatchThrottlingRateInByte": -1}
    own = {"a": {"dispatchRate": rate}, "b": {"dispatchRate": None}, "c": {}, "d": "odd", "e": None}
    found = rates_of({"subscriptionPolicies": own}, RateOptions())
    assert found.subscriptions == {"a": Rate(5)}
    for odd in (None, [], "x", 5):
        assert not rates_of({"subscriptionPolicies": odd}, RateOptions()).subscriptions


@on_jumping_loop
async def test_a_subscription_that_ends_or_is_sought_leaves_no_limit_behind() -> None:
    limited = LimitedTopics()
    limited.rates = TopicRates(subscription_dispatch=Rate(messages=10))
    consumer = await limited.world.consumer()
    assert len(limited.limits.dispatch.all()) == 1
    await consumer.seek_to(EARLIEST)
    assert limited.limits.dispatch.all() == []
    consumer = await limited.world.consumer()
    assert len(limited.limits.dispatch.all()) == 1
    await consumer.unsubscribe()
    assert limited.limits.dispatch.all() == []
