"""Publish limits: an entry that exceeds a limit is throttled, and released in fair turns.

Pulsar stops reading from a connection when one of its producers has reached a limit, which stops
everything else on that connection. Here only the entries of that producer are throttled, in their
order. Reading stops only when too many entries of the connection are throttled
(`PauseReason.PUBLISH_RATE`). A client that waits for receipts before it sends more, as all do once
their queue is full, never has that many; so its other producers keep their rate and latency.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from counterpoise.broker.limits.dispatch import DispatchLimits
from counterpoise.broker.limits.dispatch_flow import PublishRate
from counterpoise.broker.limits.publish_flow import LimitedProducer, ProducerFlow
from counterpoise.broker.limits.rates import Rate, TopicRates
from counterpoise.broker.limits.runner import LimitRunner
from counterpoise.broker.limits.snapshot import LimitSnapshot, of_dispatch, of_publish
from counterpoise.broker.limits.subscribe import SubscribeLimits
from counterpoise.names.callbacks import NanosecondClock
from counterpoise.names.topic import TopicName
from counterpoise.quota import LimitLevel, PublishFlow, RateLimit


class LimitedTopic(Protocol):
    """What publish limits call on a topic."""

    @property
    def meter_in(self) -> PublishRate:
        """The meter of what is published to the topic."""

    @property
    def name(self) -> TopicName:
        """The topic's name."""

    def attached_producers(self) -> Sequence[LimitedProducer]:
        """The topic's producers."""


@dataclass(slots=True)
class _PublishedTopic:
    """One topic's publish limit, its resource group, and counts."""

    limit: RateLimit
    group: str | None = None
    throttled: int = 0
    """How often producers of this topic were throttled that no limit applies to any more."""


class PublishLimits:
    """All rate limits on publishing to one broker; one that is not reached costs counting only."""

    def __init__(
        self,
        broker: str,
        rates_of: Callable[[TopicName], Awaitable[TopicRates]],
        *,
        clock_ns: NanosecondClock = time.monotonic_ns,
    ) -> None:
        """``broker``: this broker's id; ``rates_of`` returns the rates in force for a topic."""
        self._rates_of = rates_of
        self.runner = LimitRunner(clock_ns)
        self._broker = RateLimit(LimitLevel.BROKER_PUBLISH, broker)
        self._groups: dict[str, RateLimit] = {}
        self._topics: dict[LimitedTopic, _PublishedTopic] = {}
        self.dispatch = DispatchLimits(broker, self.runner)
        self.subscribe = SubscribeLimits(clock_ns)

    # Topics and their producers come and go.

    async def begin(self, topic: LimitedTopic) -> None:
        """Apply the limits to a topic that was loaded, before its first entry."""
        rates = await self._rates_of(topic.name)
        self._topics[topic] = _PublishedTopic(RateLimit(LimitLevel.TOPIC_PUBLISH, str(topic.name)))
        self._set(topic, rates)

    async def prepare(self, topic: TopicName) -> None:
        """Read in advance the policies that `begin` needs."""
        await self._rates_of(topic)

    def end(self, topic: LimitedTopic) -> None:
        """Remove the limits of a topic that was unloaded."""
        self.dispatch.end(topic.name)
        self.subscribe.end(topic.name)
        if self._topics.pop(topic, None) is not None:
            for producer in topic.attached_producers():
                self.detach(topic, producer)

    def attach(self, topic: LimitedTopic, producer: LimitedProducer) -> None:
        """Apply the topic's limits to a producer that was attached."""
        limits = self._limits_of(topic)
        if limits:
            producer.flow = ProducerFlow(self.runner, producer, limits)

    def detach(self, topic: LimitedTopic, producer: LimitedProducer) -> int:
        """Drop the throttled entries of a producer that was detached; returns their number."""
        flow, producer.flow = producer.flow, None
        if flow is None:
            return 0
        self._remember(topic, flow)
        count, size = len(flow.entries), flow.throttled_bytes
        self.runner.end(flow)
        if count:
            producer.sink.count_throttled(-count, -size)
        return count

    def _remember(self, topic: LimitedTopic, flow: PublishFlow) -> None:
        """Add the count of a producer to which limits no longer apply to its topic's count."""
        known = self._topics.get(topic)
        if known is not None:
            known.throttled += flow.throttled_count

    # Rates change.

    async def refresh(self, topics: Iterable[LimitedTopic]) -> None:
        """Read and apply the rates of these topics again."""
        for topic in list(topics):
            rates = await self._rates_of(topic.name)
            if topic in self._topics:
                self._set(topic, rates)

    def set_broker_rate(self, rate: Rate) -> None:
        """Set the whole broker's publish rate."""
        before = self._broker.active
        self.runner.set_rate(self._broker, rate.messages, rate.size)
        if self._broker.active != before:
            for topic in self._topics:
                self._regroup(topic)

    def set_group_rate(self, name: str, rate: Rate) -> None:
        """Set this broker's share of a resource group's publish rate."""
        limit = self._groups.get(name)
        if limit is None:
            limit = self._groups[name] = RateLimit(LimitLevel.GROUP_PUBLISH, name)
        before = limit.active
        self.runner.set_rate(limit, rate.messages, rate.size)
        if limit.active != before:
            for topic, known in self._topics.items():
                if known.group == name:
                    self._regroup(topic)

    def _set(self, topic: LimitedTopic, rates: TopicRates) -> None:
        self.dispatch.set_topic_rates(topic.name, rates, topic.meter_in)
        self.subscribe.set_rate(topic.name, rates.subscribe)
        known = self._topics[topic]
        before = self._limits_of(topic)
        self.runner.set_rate(known.limit, rates.publish.messages, rates.publish.size)
        known.group = rates.resource_group
        if self._limits_of(topic) != before:
            self._regroup(topic)

    def _limits_of(self, topic: LimitedTopic) -> tuple[RateLimit, ...]:
        """The limits of a topic, the narrowest first."""
        known = self._topics.get(topic)
        if known is None:
            return ()
        group = self._groups.get(known.group) if known.group else None
        found = (known.limit, group, self._broker)
        return tuple(each for each in found if each is not None and each.active)

    def _regroup(self, topic: LimitedTopic) -> None:
        limits = self._limits_of(topic)
        for producer in topic.attached_producers():
            if producer.flow is not None:
                self.runner.set_limits(producer.flow, limits)
                if not limits:
                    self._remember(topic, producer.flow)
                    producer.flow = None
            elif limits:
                producer.flow = ProducerFlow(self.runner, producer, limits)

    # For the admin API and the metrics.

    @property
    def topics(self) -> Iterable[LimitedTopic]:
        """The loaded topics."""
        return list(self._topics)

    def group_of(self, topic: LimitedTopic) -> str | None:
        """The name of a topic's resource group; None if it has none."""
        return self._topics[topic].group if topic in self._topics else None

    def group(self, name: str) -> RateLimit | None:
        """The limit of this broker's share of a resource group; None if there is none."""
        return self._groups.get(name)

    def all(self) -> list[RateLimit]:
        """Every publish limit that is set: the broker's, the groups', the topics'."""
        topics = [each.limit for each in self._topics.values()]
        return [it for it in (self._broker, *self._groups.values(), *topics) if it.active]

    def snapshots(self) -> list[LimitSnapshot]:
        """The state of every publish and dispatch limit, with all that waits for it."""
        now = self.runner.now()
        publish = [of_publish(limit, now) for limit in self.all()]
        return publish + [of_dispatch(limit, now) for limit in self.dispatch.all()]

    def throttled_times(self, topic: LimitedTopic) -> int:
        """How often any limit throttled a topic's producers since it was loaded."""
        known = self._topics.get(topic)
        flows = (it.flow for it in topic.attached_producers())
        now = sum(flow.throttled_count for flow in flows if flow is not None)
        return now + (known.throttled if known is not None else 0)

    def throttled_ns(self, flow: PublishFlow) -> int:
        """How long a producer was throttled in all, in nanoseconds."""
        since = flow.throttled_since
        return flow.throttled_ns + (self.runner.now() - since if since is not None else 0)

    def stop(self) -> None:
        """Set no more timers: the broker stops."""
        self.runner.stop()
