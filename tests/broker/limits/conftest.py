"""The limits of one broker's topics, on a clock that jumps."""

import asyncio

import pytest

from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import TopicRates
from counterpoise.broker.topic.producer import Producer
from counterpoise.names.topic import TopicName
from counterpoise.quota import SECOND_NS, RateLimit
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.events import Send
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import Wire, World, entry
from tests.quota.jumping import now_ns


class LimitedTopics:
    """A broker's topics, whose rates a test sets."""

    def __init__(self) -> None:
        self.rates = TopicRates()
        self.limits = PublishLimits("b", self._rates_of, clock_ns=now_ns)
        self.world = World(
            MemoryLedgerStore(), limits=self.limits, now=lambda: now_ns() / SECOND_NS
        )

    async def _rates_of(self, topic: TopicName) -> TopicRates:
        return self.rates

    async def set_rates(self, rates: TopicRates) -> None:
        """Change the rates of the topics that are there."""
        self.rates = rates
        await self.limits.refresh(self.limits.topics)

    async def producer(self, rates: TopicRates, **options: object) -> Producer:
        self.rates = rates
        return await self.world.producer(**options)

    def publish(self, producer: Producer, *numbers: int, size: int = 0) -> None:
        """SENDs that came in one read."""
        bodies = [(number, entry("x" * size if size else number)) for number in numbers]
        sends = [Send(0, number, number, 1, False, body) for number, body in bodies]
        producer.publish(sends, sum(len(body) for _, body in bodies))

    async def receipts(self, count: int) -> list[int]:
        await self.world.wire.until(lambda: len(self.world.wire.receipted) >= count)
        return [receipt[1] for receipt in self.world.wire.receipted]

    def limit(self) -> RateLimit:
        (limit,) = self.limits.all()
        return limit

    async def backlog(self, rates: TopicRates, count: int = 30) -> None:
        producer = await self.producer(rates)
        await self.world.publish(producer, *range(count))

    async def consumer(self, name: str, kind: SubscriptionType, permits: int = 1000) -> Wire:
        """A consumer that could take all of the backlog at once."""
        wire = Wire()
        await self.world.consumer(kind, wire=wire, subscription=name, permits=permits)
        return wire


def timers() -> int:
    """How many limits have a timer."""
    loop = asyncio.get_running_loop()
    return loop.timers_of("LimitRunner._release")


@pytest.fixture
def limited() -> LimitedTopics:
    return LimitedTopics()
