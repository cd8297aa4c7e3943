"""Deliveries under their limits: which apply, what may be delivered now, and what counts."""

import gc
from dataclasses import dataclass

import pytest

from counterpoise.broker.limits.dispatch import DispatchLimits
from counterpoise.broker.limits.dispatch_flow import (
    BACKLOGGED,
    DispatchCounting,
    DispatchFlow,
    DispatchLimit,
)
from counterpoise.broker.limits.rates import Rate, TopicRates
from counterpoise.broker.limits.runner import LimitRunner
from counterpoise.names.topic import TopicName
from counterpoise.quota import NO_LIMIT, SECOND_NS, LimitLevel
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time

LEVEL = LimitLevel.TOPIC_DISPATCH


@dataclass
class Published:
    rate: float = 0.0
    byte_rate: float = 0.0


class Subscription:
    """A dispatcher that is asked, and delivers nothing by itself."""

    behind = 10_000

    def __init__(
        self, runner: LimitRunner, *limits: DispatchLimit, counting: DispatchCounting | None = None
    ) -> None:
        self.turns = 0
        self.flow = DispatchFlow(runner, self, counting or DispatchCounting(), "t", "s")
        self.flow.limits = limits

    def dispatch(self) -> None:
        self.turns += 1


def limit_of(runner: LimitRunner, rate: Rate, published: Published | None = None) -> DispatchLimit:
    limit = DispatchLimit(LEVEL, "t")
    now = limit.follow(rate, published, now_ns())
    runner.set_rate(limit, now.messages, now.size, now.period_s)
    return limit


@pytest.mark.parametrize("period_s", [1, 10])
def test_a_relative_rate_follows_what_is_published_once_a_second(period_s: int) -> None:
    published = Published(3, 500)
    limit = DispatchLimit(LEVEL, "t")
    rate = limit.follow(Rate(20, 0, period_s, relative=True), published, 0)
    assert rate == Rate(20 + 3 * period_s, 0, period_s)
    limit.set_rate(rate.messages, rate.size, 0, period_s)

    def followed(now: int, wanted: float) -> bool:
        limit.left(now)
        assert limit.bytes is None, "a limit in messages alone stays one"
        return limit.messages.rate == 20 + wanted * period_s

    published.rate = 5
    assert followed(SECOND_NS - 1, 3)
    assert followed(SECOND_NS, 5)
    published.rate = 7
    assert followed(2 * SECOND_NS - 1, 5)
    assert followed(2 * SECOND_NS, 7)
    in_bytes = limit.follow(Rate(0, 2000, period_s, relative=True), published, 0)
    assert in_bytes == Rate(0, 2000 + 500 * period_s, period_s), "and one in bytes alone, too"


@on_jumping_loop
async def test_the_scarcest_of_all_limits_decides() -> None:
    runner = LimitRunner(now_ns)
    limits = [limit_of(runner, Rate(*rate)) for rate in ((1000, 0), (500, 9000), (0, 4000))]
    subscription = Subscription(runner, *limits)
    least = [min(each.left(0)[kind] for each in limits) for kind in (0, 1)]
    assert list(subscription.flow.budget()) == least
    assert NO_LIMIT not in least
    assert len({each.left(0) for each in limits}) == 3


@on_jumping_loop
async def test_a_subscription_that_waits_is_not_counted_again_and_has_one_turn() -> None:
    runner = LimitRunner(now_ns)
    limit = limit_of(runner, Rate(100))
    subscription = Subscription(runner, limit)
    subscription.flow.took(5, 5, 100)
    for _ in range(3):
        assert subscription.flow.budget() == (0, 0)
    assert subscription.flow.events.total() == 1
    await pass_time(1)
    assert subscription.turns == 1


@pytest.mark.parametrize(("rate", "what"), [(Rate(1000), "messages"), (Rate(0, 100_000), "bytes")])
@on_jumping_loop
async def test_one_that_comes_while_another_waits_waits_for_the_same(rate: Rate, what: str) -> None:
    """Though something has been earned again: the other has the first turn."""
    runner = LimitRunner(now_ns)
    limit = limit_of(runner, rate)
    first, second = (Subscription(runner, limit) for _ in range(2))
    first.flow.took(100, 100, 10_000)
    assert first.flow.budget() == (0, 0)
    assert limit.resume_at is not None
    await pass_time((limit.resume_at - now_ns() - SECOND_NS // 1000) / SECOND_NS)
    assert min(limit.left(now_ns())) > 0
    assert second.flow.budget() == (0, 0)
    assert second.flow.events == {(LEVEL, what): 1}


@pytest.mark.parametrize("behind", [BACKLOGGED, BACKLOGGED + 1])
@on_jumping_loop
async def test_what_a_subscription_that_does_not_lag_gets_counts_nowhere(behind: int) -> None:
    runner = LimitRunner(now_ns)
    limit = limit_of(runner, Rate(100))
    subscription = Subscription(runner, limit, counting=DispatchCounting(caught_up=False))
    subscription.behind = behind
    subscription.flow.budget()
    subscription.flow.took(3, 1, 100)
    assert limit.passed_messages == (3 if behind > BACKLOGGED else 0)


class Deliveries:
    """The dispatch limits of a broker, with a subscription of each of three topics."""

    def __init__(self) -> None:
        self.runner = LimitRunner(now_ns)
        self.limits = DispatchLimits("b", self.runner)
        self.names = [TopicName.parse(f"persistent://t/n/{number}") for number in range(3)]
        self.flows = [self.join(name) for name in self.names]

    def join(self, name: TopicName) -> DispatchFlow:
        subscription = Subscription(self.runner)
        return self.limits.join(name, "s", subscription)

    def set_rates(self, rates: TopicRates, published: Published | None = None) -> None:
        for name in self.names:
            self.limits.set_topic_rates(name, rates, published or Published())

    def of(self, flow: DispatchFlow) -> list[str]:
        """By level what is allowed of messages in a second."""
        return [f"{each.level} {each.messages.rate}" for each in flow.limits if each.messages]


@on_jumping_loop
async def test_a_change_reaches_each_topic_of_a_group_and_of_the_broker() -> None:
    here = Deliveries()
    here.set_rates(TopicRates(resource_group="g"))
    for group, broker in ((7, 0), (7, 9), (8, 9), (0, 9), (0, 0)):
        here.limits.set_group_rate("g", Rate(group))
        here.limits.set_broker_rate(Rate(broker))
        wanted = [f"ResourceGroupDispatchRate {group}"] if group else []
        wanted += [f"BrokerDispatchRate {broker}"] if broker else []
        for flow in here.flows:
            assert here.of(flow) == wanted


@pytest.mark.parametrize("later", [False, True])
@on_jumping_loop
async def test_a_policy_for_one_subscription_holds_whenever_that_comes(later: bool) -> None:
    here = Deliveries()
    here.set_rates(TopicRates(subscriptions={"s": Rate(20, relative=True)}), Published(rate=5))
    flow = here.join(here.names[0]) if later else here.flows[0]
    assert here.of(flow) == ["SubscriptionDispatchRate 25"]


@on_jumping_loop
async def test_nothing_is_kept_of_topics_that_are_gone() -> None:
    here = Deliveries()
    here.set_rates(TopicRates(dispatch=Rate(5)))
    for name, flow in zip(here.names, here.flows, strict=True):
        here.limits.leave(name, flow)
        here.limits.end(name)
    names = set(here.names)
    del name
    here.flows.clear()
    here.names.clear()
    gc.collect()
    for name in names:
        (mine,) = [each for each in gc.get_referrers(name) if isinstance(each, dict | set)]
        assert mine is names
