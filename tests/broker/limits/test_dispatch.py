"""Dispatch limits: what a subscription, a topic and a broker deliver, whatever the type.

Time is a number that the tests move; an alarm sounds when they say so.
"""

import logging

import pytest

from counterpoise.admin.subscription_json import subscription_json
from counterpoise.broker.limits.dispatch_limit import DispatchLevel, DispatchLimit
from counterpoise.broker.limits.gate import BACKLOGGED
from counterpoise.broker.limits.options import RateOptions
from counterpoise.broker.limits.rates import Rate, TopicRates, rates_of
from counterpoise.quota import SECOND_NS
from counterpoise.wire.values import SubscriptionType
from tests.broker.limits.test_publish import Limited
from tests.broker.topic.conftest import Wire, batch, publish

TYPES = list(SubscriptionType)


class Delivering(Limited):
    """Topics with a backlog, and consumers who could take all of it at once."""

    async def backlog(self, rates: TopicRates, count: int = 30) -> None:
        producer = await self.producer(rates)
        await self.world.publish(producer, *range(count))

    async def consumer(self, name: str, kind: SubscriptionType) -> Wire:
        wire = Wire()
        await self.world.consumer(kind, wire=wire, subscription=name)
        return wire

    def ring(self, seconds: float) -> None:
        """Let time pass in steps, and sound every alarm that is set."""
        end = self.now + int(seconds * SECOND_NS)
        while self.now < end:
            self.now += SECOND_NS // 100
            for limit in self._set():
                limit._ring()

    def _set(self) -> list[DispatchLimit]:
        dispatch = self.limits.dispatch
        found = [dispatch._broker, *dispatch._groups.values()]
        found += [each.limit for each in dispatch._topics.values()]
        found += [own for gates in dispatch._gates.values() for own in gates.values()]
        return [limit for limit in found if limit._timer is not None]


@pytest.fixture
def delivering() -> Delivering:
    return Delivering()


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
async def test_a_topics_rate_holds_and_nothing_is_lost(
    delivering: Delivering, kind: SubscriptionType
) -> None:
    await delivering.backlog(TopicRates(dispatch=Rate(messages=10)))
    wire = await delivering.consumer("s", kind)
    assert len(wire.deliveries) == 1
    delivering.ring(1)
    assert len(wire.deliveries) == pytest.approx(11, abs=1)
    delivering.ring(3)
    assert wire.payloads() == [str(number) for number in range(30)]
    assert delivering._set() == []


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
async def test_bytes_over_a_period_of_several_seconds(
    delivering: Delivering, kind: SubscriptionType
) -> None:
    await delivering.backlog(TopicRates(subscription_dispatch=Rate(size=1000, period_s=10)), 90)
    wire = await delivering.consumer("s", kind)
    delivering.ring(10)
    delivered = sum(len(entry) for entry in wire.entries())
    assert 1000 - 50 <= delivered <= 1000 + 2 * len(wire.entries()[0])


async def test_subscriptions_share_a_topics_rate_and_have_each_their_own(
    delivering: Delivering,
) -> None:
    await delivering.backlog(TopicRates(dispatch=Rate(messages=20)), 100)
    wires = [await delivering.consumer(f"s{n}", TYPES[n]) for n in range(4)]
    delivering.ring(10)
    shares = [len(wire.deliveries) for wire in wires]
    assert sum(shares) == pytest.approx(200, abs=4)
    assert max(shares) - min(shares) <= 4
    delivering.rates = TopicRates(subscription_dispatch=Rate(messages=10))
    await delivering.limits.refresh(delivering.limits.topics)
    delivering.ring(1)
    for wire, before in zip(wires, shares, strict=True):
        assert len(wire.deliveries) - before == pytest.approx(10, abs=2)


async def test_a_groups_part_holds_for_its_topics_alone(delivering: Delivering) -> None:
    """Nor does a topic in no group mind that there is one."""
    await delivering.backlog(TopicRates())
    await delivering.consumer("s0", TYPES[1])
    delivering.limits.dispatch.set_group_rate("g", Rate(messages=1))
    free = await delivering.consumer("s1", TYPES[1])
    assert len(free.deliveries) == 30
    delivering.rates = TopicRates(resource_group="g")
    await delivering.limits.refresh(delivering.limits.topics)
    limited = await delivering.consumer("s2", TYPES[1])
    assert len(limited.deliveries) < 10


async def test_a_removed_rate_lets_everything_go(delivering: Delivering) -> None:
    await delivering.backlog(TopicRates(dispatch=Rate(messages=1)))
    delivering.limits.dispatch.set_broker_rate(Rate(messages=1))
    wires = [await delivering.consumer(f"s{n}", kind) for n, kind in enumerate(TYPES)]
    delivering.rates = TopicRates()
    await delivering.limits.refresh(delivering.limits.topics)
    assert sum(len(wire.deliveries) for wire in wires) < 10
    delivering.limits.dispatch.set_broker_rate(Rate())
    assert [len(wire.deliveries) for wire in wires] == [30] * 4
    assert delivering._set() == []


async def test_who_leaves_waits_no_longer(delivering: Delivering) -> None:
    await delivering.backlog(TopicRates(dispatch=Rate(messages=1)))
    await delivering.consumer("s", SubscriptionType.Shared)
    dispatch = delivering.limits.dispatch
    dispatch.set_broker_rate(Rate(messages=1))
    delivering.rates = TopicRates()
    await delivering.limits.refresh(delivering.limits.topics)
    gate = (await delivering.world.topic()).subscriptions["s"].gate
    assert gate is not None
    assert list(dispatch._broker.waiting) == [gate]
    assert gate.throttled[DispatchLevel.BROKER, "messages"] == 1
    await delivering.world.registry.unload_topic(delivering.world.name)
    assert dispatch._broker.waiting == {}, "whoever stays would wait for its turn"
    assert delivering._set() == []
    assert delivering.limits.dispatch._gates == {}
    assert delivering.limits.dispatch._topics == {}


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
async def test_a_batch_counts_its_messages_or_once(
    delivering: Delivering, kind: SubscriptionType
) -> None:
    producer = await delivering.producer(TopicRates(dispatch=Rate(messages=100)))
    for number in range(400):
        publish(producer, number, number, batch(10))
    await delivering.receipts(400)
    wire = Wire()
    await delivering.world.consumer(kind, wire=wire, subscription="s", permits=10_000)
    delivering.ring(2)
    before = len(wire.deliveries)
    assert before == pytest.approx(20, abs=2)
    delivering.limits.dispatch.set_terms(whole_batches=True, caught_up=True)
    delivering.ring(2)
    assert len(wire.deliveries) - before == pytest.approx(200, abs=12)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
async def test_who_does_not_lag_may_be_free_of_limits(
    delivering: Delivering, kind: SubscriptionType
) -> None:
    await delivering.backlog(TopicRates(dispatch=Rate(messages=100)), BACKLOGGED + 150)
    delivering.limits.dispatch.set_terms(whole_batches=False, caught_up=False)
    wire = Wire()
    await delivering.world.consumer(kind, wire=wire, subscription="s", permits=10_000)
    delivering.ring(1)
    assert len(wire.deliveries) == pytest.approx(100, abs=6)
    delivering.ring(1)
    assert len(wire.deliveries) == BACKLOGGED + 150
    assert delivering._set() == []


async def test_who_waits_is_free_at_once_when_the_terms_change(delivering: Delivering) -> None:
    await delivering.backlog(TopicRates(dispatch=Rate(messages=1)))
    wires = [await delivering.consumer(f"s{n}", kind) for n, kind in enumerate(TYPES)]
    delivering.limits.dispatch.set_terms(whole_batches=False, caught_up=False)
    assert [len(wire.deliveries) for wire in wires] == [30] * 4


async def test_a_relative_rate_comes_on_top_of_what_is_published(delivering: Delivering) -> None:
    relative = Rate(messages=10, relative=True)
    await delivering.backlog(TopicRates(dispatch=relative), 300)
    wire = await delivering.consumer("s", SubscriptionType.Exclusive)
    # What is published is looked at once a second.
    delivering.ring(1.2)
    before = len(wire.deliveries)
    delivering.ring(0.5)
    # 300 were published in this second, and 10 more may be delivered.
    assert len(wire.deliveries) - before == pytest.approx(150, abs=15)
    delivering.now += 1000 * SECOND_NS
    delivering.ring(0.01)
    before = len(wire.deliveries)
    delivering.ring(3)
    # Now hardly anything is published.
    assert len(wire.deliveries) - before == pytest.approx(30, abs=3)


def test_policies_and_settings_may_make_a_rate_relative() -> None:
    policy = {"dispatchThrottlingRateInMsg": 5, "relativeToPublishRate": True}
    options = RateOptions(subscription_dispatch_messages=7, dispatch_relative=True)
    found = rates_of({"dispatchRate": policy}, None, "here", options)
    assert found.dispatch == Rate(5, 0, 1, relative=True)
    assert found.subscription_dispatch == Rate(7, 0, 1, relative=True)
    plain = rates_of({"dispatchRate": {"dispatchThrottlingRateInMsg": 5}}, None, "here", options)
    assert plain.dispatch == Rate(5)


async def test_what_is_seen_of_a_limit_that_holds_up_subscriptions(
    delivering: Delivering, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "counterpoise.broker.limits")
    await delivering.backlog(TopicRates(dispatch=Rate(size=200, period_s=2)), 30)
    for name in ("s1", "s2"):
        await delivering.consumer(name, SubscriptionType.Shared)
    delivering.ring(4.5)
    (limit,) = delivering.limits.seen()
    assert (limit.level, limit.subject) == ("TopicDispatchRate", "persistent://t/n/x")
    assert (limit.messages, limit.bytes, limit.period_s) == (0, 200, 2)
    topic = await delivering.world.topic()
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
        # Whatever it was let deliver meanwhile, it had to wait again.
        told = await subscription_json(subscription)
        assert told["dispatchThrottledBytesEventsByTopicLimit"] == each.times > 1
        assert told["dispatchThrottledMsgEventsByTopicLimit"] == 0
        assert told["dispatchThrottledBytesEventsByBrokerLimit"] == 0
        assert told["dispatchThrottledBy"] == "TopicDispatchRate"
    delivering.ring(60)
    (limit,) = delivering.limits.seen()
    assert limit.subscriptions == ()
    waited = limit.seconds
    delivering.ring(12)
    assert delivering.limits.seen()[0].seconds == waited, "nobody waits any more"
    assert "dispatchThrottledBy" not in await subscription_json(topic.subscriptions["s1"])
    for open_limit in list(delivering.limits.episodes._open):
        delivering.limits.episodes._look(open_limit)
    reached, over = [record.getMessage() for record in caplog.records]
    assert reached.startswith(
        "TopicDispatchRate of persistent://t/n/x (200 bytes in 2 s) is reached: subscription s"
    )
    assert "is no longer reached" in over


async def test_events_are_counted_by_what_was_lacking_and_where(delivering: Delivering) -> None:
    await delivering.backlog(
        TopicRates(subscription_dispatch=Rate(messages=10), dispatch=Rate(messages=10_000)), 90
    )
    delivering.limits.dispatch.set_broker_rate(Rate(messages=5))
    await delivering.consumer("s", SubscriptionType.Exclusive)
    delivering.ring(2)
    topic = await delivering.world.topic()
    told = await subscription_json(topic.subscriptions["s"])
    assert told["dispatchThrottledMsgEventsBySubscriptionLimit"] > 0
    assert told["dispatchThrottledMsgEventsByBrokerLimit"] > 0
    assert told["dispatchThrottledMsgEventsByTopicLimit"] == 0
    assert not any(told[name] for name in told if name.startswith("dispatchThrottledBytes"))


async def test_one_whose_turn_ends_another_does_not_keep_the_rest_from_theirs(
    delivering: Delivering,
) -> None:
    await delivering.backlog(TopicRates(dispatch=Rate(messages=100)), 60)
    for name in ("a", "b", "c"):
        await delivering.consumer(name, SubscriptionType.Shared)
    (limit,) = delivering.limits.dispatch.all()
    first, second, _ = limit.waiting
    goes_on = first._go_on

    def end_another() -> None:
        # It has no use for its turn, so the next one gets it.
        delivering.limits.dispatch.close(delivering.world.name, second)
        first._go_on = goes_on

    first._go_on = end_another
    delivering.ring(0.1)
    topic = await delivering.world.topic()
    topic.subscriptions["a"].wake()
    delivering.ring(3)
    delivered = {name: it.meters.out.messages for name, it in topic.subscriptions.items()}
    assert delivered["a"] == delivered["c"] == 60


async def test_one_that_fails_in_its_turn_does_not_stop_the_others(delivering: Delivering) -> None:
    await delivering.backlog(TopicRates(dispatch=Rate(messages=100)), 60)
    for name in ("a", "b"):
        await delivering.consumer(name, SubscriptionType.Shared)
    (limit,) = delivering.limits.dispatch.all()
    first = next(iter(limit.waiting))

    def fail() -> None:
        raise RuntimeError("a fault elsewhere")

    first._go_on = fail
    delivering.now += SECOND_NS // 10
    with pytest.raises(RuntimeError):
        limit._ring()
    delivering.ring(2)
    topic = await delivering.world.topic()
    assert topic.subscriptions["b"].meters.out.messages == 60


async def test_a_subscriptions_own_rate_comes_before_the_one_of_all(
    delivering: Delivering,
) -> None:
    rates = TopicRates(
        subscription_dispatch=Rate(messages=10), subscriptions={"fast": Rate(messages=20)}
    )
    await delivering.backlog(rates, 100)
    wires = [await delivering.consumer(name, SubscriptionType.Shared) for name in ("fast", "slow")]
    delivering.ring(2)
    assert len(wires[0].deliveries) == pytest.approx(40, abs=2)
    assert len(wires[1].deliveries) == pytest.approx(20, abs=2)
    delivering.rates = TopicRates(subscriptions={"slow": Rate(messages=10)})
    await delivering.limits.refresh(delivering.limits.topics)
    delivering.ring(2)
    assert len(wires[0].deliveries) == 100
    assert len(wires[1].deliveries) == pytest.approx(40, abs=2)


def test_what_a_topic_says_of_subscriptions_may_be_anything() -> None:
    rate = {"dispatchThrottlingRateInMsg": 5, "dispatchThrottlingRateInByte": -1}
    own = {"a": {"dispatchRate": rate}, "b": {"dispatchRate": None}, "c": {}, "d": "odd", "e": None}
    found = rates_of({"subscriptionPolicies": own}, None, "here", RateOptions())
    assert found.subscriptions == {"a": Rate(5)}
    for odd in (None, [], "x", 5):
        assert not rates_of(
            {"subscriptionPolicies": odd}, None, "here", RateOptions()
        ).subscriptions
