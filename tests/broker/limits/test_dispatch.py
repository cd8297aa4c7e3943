"""Dispatch limits: what a subscription, a topic and a broker deliver, whatever the type.

Time is a number that the tests move; an alarm sounds when they say so.
"""

import pytest

from counterpoise.broker.limits.dispatch import DispatchLimit
from counterpoise.broker.limits.rates import Rate, TopicRates
from counterpoise.quota import SECOND_NS
from counterpoise.wire.values import SubscriptionType
from tests.broker.limits.test_publish import Limited
from tests.broker.topic.conftest import Wire

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
        found = [dispatch._broker, *(limit for limit, _ in dispatch._topics.values())]
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
    await delivering.world.registry.unload_topic(delivering.world.name)
    assert delivering.limits.dispatch._gates == {}
    assert delivering.limits.dispatch._topics == {}
