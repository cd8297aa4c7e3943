"""Clients that publish under a broker's limits, each as fast as it is let."""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from counterpoise.broker.connection.pause import ReadingPause
from counterpoise.broker.connection.throttled import ThrottledMemory, ThrottledPublishes
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.publish_flow import ProducerFlow
from counterpoise.broker.limits.rates import Rate, TopicRates
from counterpoise.names.topic import TopicName
from tests.broker.connection.test_pause import StrictTransport
from tests.quota.jumping import JumpingLoop

READ_BYTES = 64 * 1024
"""What a connection reads at once."""


@dataclass
class Origin:
    address: str


class Still:
    """Nothing is published, as far as dispatch limits know."""

    rate = byte_rate = 0.0


class FakeTopic:
    """A topic with its producers, and a note of what it took: milliseconds, messages, bytes."""

    def __init__(self, name: str) -> None:
        self.name = TopicName.parse(f"persistent://t/n/{name}")
        self.meter_in = Still()
        self.producers: list[Publisher] = []
        self.messages: Counter[int] = Counter()
        self.bytes: Counter[int] = Counter()

    def attached_producers(self) -> "list[Publisher]":
        return list(self.producers)


class Wired:
    """A connection: it is read while nothing pauses it, and its producers take turns."""

    def __init__(self, memory: ThrottledMemory, entries_max: int = 50_000) -> None:
        self.transport = StrictTransport()
        self.pause = ReadingPause(cast("object", self.transport), lambda: 0.0)  # type: ignore[arg-type]
        self._held = ThrottledPublishes(self.pause, memory, entries_max, 16 << 20)
        self.unread: deque[tuple[Publisher, int, int, int]] = deque()

    def count_throttled(self, entries: int, size: int) -> None:
        self._held.add(entries, size)
        assert self._held.entries >= 0
        assert self._held.size >= 0

    @property
    def held_entries(self) -> int:
        return self._held.entries

    def read(self) -> None:
        room = READ_BYTES
        while self.unread and self.transport.reading and room > 0:
            publisher, number, messages, size = self.unread.popleft()
            room -= size
            publisher.arrived(number, messages, size)


class Publisher:
    """A producer and its client: it sends again what room its queue has."""

    def __init__(self, broker: "Clients", topic: FakeTopic, wire: Wired, name: str) -> None:
        self.broker, self.topic, self.sink, self.name = broker, topic, wire, name
        self.flow: ProducerFlow | None = None
        self.closed = False
        self.request = Origin("10.0.0.1:1")
        self.sent = 0
        self.passed: list[int] = []
        self.late_ns = 0
        """By number, in nanoseconds, when entries were sent that did not pass at once."""
        self._sent_at: dict[int, int] = {}
        topic.producers.append(self)
        broker.limits.attach(topic, self)

    @property
    def outstanding(self) -> int:
        return self.sent - len(self.passed)

    def send(self, messages: int, size: int) -> None:
        self._sent_at[self.sent] = self.broker.now()
        self.sink.unread.append((self, self.sent, messages, size))
        self.sent += 1

    def arrived(self, number: int, messages: int, size: int) -> None:
        """What `Topic.publish` does with an entry."""
        if self.closed:
            return
        flow = self.flow
        if flow is None or flow.offer(
            messages, size, lambda: self.accepted(number, messages, size)
        ):
            self.accepted(number, messages, size)

    def accepted(self, number: int, messages: int, size: int) -> None:
        assert not self.closed, "what is held ends with its producer"
        assert number == len(self.passed), "entries keep their order"
        self.passed.append(number)
        now = self.broker.now()
        self.late_ns = max(self.late_ns, now - self._sent_at.pop(number))
        self.topic.messages[now // 1_000_000] += messages
        self.topic.bytes[now // 1_000_000] += size

    def close(self) -> None:
        self.closed = True
        self.broker.limits.detach(self.topic, self)
        self.topic.producers.remove(self)


class Clients:
    """A broker's limits with everybody who publishes there, on a loop whose time jumps."""

    def __init__(self, loop: JumpingLoop, memory: int = 0) -> None:
        self._loop = loop
        self.memory = ThrottledMemory(memory)
        self.rates: dict[TopicName, TopicRates] = {}
        self.limits = PublishLimits("b", self._rates_of, clock_ns=self.now)

    def now(self) -> int:
        return self._loop.jumping.now_ns

    async def _rates_of(self, topic: TopicName) -> TopicRates:
        return self.rates.get(topic, TopicRates())

    async def topic(
        self, name: str, rate: Rate | None = None, group: str | None = None
    ) -> FakeTopic:
        made = FakeTopic(name)
        self.rates[made.name] = TopicRates(rate or Rate(), group)
        await self.limits.begin(made)
        return made


def busiest_second(passed: Counter[int], seconds: int) -> int:
    """The most that passed in any second, whenever it began."""
    return max(_sums(passed, seconds))


def _sums(passed: Counter[int], seconds: int) -> Iterator[int]:
    last = 1000 * seconds
    found = sum(passed[each] for each in range(1000))
    yield found
    for end in range(1000, last):
        found += passed[end] - passed[end - 1000]
        yield found


def jain(values: list[int]) -> float:
    """Jain's index of fairness: 1 is equal."""
    return sum(values) ** 2 / (len(values) * sum(each * each for each in values))
