"""Publish limits at work: what exceeds a limit is held here, and let go in fair turns.

Pulsar stops reading from a connection when one of its producers has reached a limit, and with it
everything else on that connection. Here the entries of that producer are held, in its order, and
the connection is read on; only when too much is held for one connection does reading stop
(`PauseReason.PUBLISH_RATE`). A client that waits for its receipts before it sends more, as all do
up to their queue, never gets there; so its other producers keep their rate and their latency.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from counterpoise.broker.limits.dispatch import DispatchLimits
from counterpoise.broker.limits.episodes import Episodes
from counterpoise.broker.limits.ports import LimitedProducer, LimitedTopic
from counterpoise.broker.limits.rates import Rate, TopicRates
from counterpoise.broker.limits.seen import SeenLimit, seen_dispatch, seen_publish
from counterpoise.broker.limits.subscribe import SubscribeLimits
from counterpoise.names.topic import TopicName
from counterpoise.quota import SECOND_NS, Flow, Level, PublishLimit, Throttle
from counterpoise.quota.throttle import Released

TIMER_S: Final = 0.001
"""No alarm is set for less: event loops count in milliseconds."""

SETTLE_S: Final = 0.008
"""How long a producer may keep what was set aside for it: half of a resolution step."""

GoOn = Callable[[], None]
"""Publishes an entry that was held."""


@dataclass(slots=True)
class _Topic:
    """A topic as its limits know it."""

    limit: PublishLimit
    group: str | None = None
    throttled: int = 0
    """How often producers that are gone had to wait."""


class PublishLimits:
    """The publish limits of one broker, all levels of them.

    Limits that are not reached cost nothing but the counting; there is one timer for each limit
    that somebody waits at, and none otherwise.
    """

    def __init__(
        self,
        broker: str,
        rates_of: Callable[[TopicName], Awaitable[TopicRates]],
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """``rates_of``: the rates of a topic as the policies have them now."""
        self._rates_of = rates_of
        self._now = clock_ns
        self._throttle = Throttle()
        self._broker = PublishLimit(Level.BROKER, broker)
        self._groups: dict[str, PublishLimit] = {}
        self._topics: dict[LimitedTopic, _Topic] = {}
        self._timers: dict[PublishLimit, asyncio.TimerHandle] = {}
        self._settles = False
        self.episodes = Episodes(clock_ns)
        self.dispatch = DispatchLimits(broker, clock_ns, self.episodes)
        self.subscribe = SubscribeLimits(clock_ns)

    # Topics and their producers come and go.

    async def begin(self, topic: LimitedTopic) -> None:
        """A topic is loaded: its limits hold from its first entry on."""
        rates = await self._rates_of(topic.name)
        self._topics[topic] = _Topic(PublishLimit(Level.TOPIC, str(topic.name)))
        self._set(topic, rates)

    async def prepare(self, topic: TopicName) -> None:
        """Read what `begin` will ask for."""
        await self._rates_of(topic)

    def end(self, topic: LimitedTopic) -> None:
        """The topic is here no longer."""
        self.dispatch.end(topic.name)
        self.subscribe.end(topic.name)
        if self._topics.pop(topic, None) is not None:
            for producer in topic.attached_producers():
                self.detach(topic, producer)

    def attach(self, topic: LimitedTopic, producer: LimitedProducer) -> None:
        """A producer has come."""
        limits = self._limits_of(topic)
        if limits:
            producer.flow = Flow(producer, limits)

    def detach(self, topic: LimitedTopic, producer: LimitedProducer) -> int:
        """The producer is gone, and what was held of it; returns how many entries that were."""
        flow, producer.flow = producer.flow, None
        if flow is None:
            return 0
        self._remember(topic, flow)
        count, size = len(flow.held), flow.held_bytes
        self._throttle.end(flow, self._now())
        if count:
            producer.sink.held(-count, -size)
        self._set_timers()
        return count

    def _remember(self, topic: LimitedTopic, flow: Flow) -> None:
        """A flow ends, and what was counted of it stays the topic's."""
        known = self._topics.get(topic)
        if known is not None:
            known.throttled += flow.throttled_count

    # Entries.

    def offer(self, flow: Flow, messages: int, size: int, go_on: GoOn) -> bool:
        """Whether an entry may pass now; if not it is held until ``go_on`` is called for it."""
        if not self._settles:
            self._settles = True
            asyncio.get_running_loop().call_later(SETTLE_S, self._settle)
        if self._throttle.offer(flow, messages, size, go_on, self._now()):
            return True
        producer: LimitedProducer = flow.owner
        producer.sink.held(1, size)
        if self._throttle.alarms:
            if flow.waits_at is not None:
                who = f"producer {producer.name} on {producer.request.address}"
                self.episodes.began(flow.waits_at, who)
            self._set_timers()
        return False

    def _settle(self) -> None:
        self._settles = False
        self._throttle.settle()

    def _let_go(self, limit: PublishLimit) -> None:
        self._timers.pop(limit, None)
        self._pass(self._throttle.release(limit, self._now()))
        self._set_timers()

    def _pass(self, released: Released) -> None:
        for flow, (_, size, go_on) in released:
            producer: LimitedProducer = flow.owner
            producer.sink.held(-1, -size)
            go_on()

    def _set_timers(self) -> None:
        alarms = self._throttle.alarms
        if not alarms:
            return
        now = self._now()
        for limit in alarms:
            timer = self._timers.pop(limit, None)
            if timer is not None:
                timer.cancel()
            if limit.resume_at is not None:
                delay_s = max(TIMER_S, (limit.resume_at - now) / SECOND_NS)
                loop = asyncio.get_running_loop()
                self._timers[limit] = loop.call_later(delay_s, self._let_go, limit)
        alarms.clear()

    # Rates change.

    async def refresh(self, topics: Iterable[LimitedTopic]) -> None:
        """Read the rates of these topics again."""
        for topic in list(topics):
            rates = await self._rates_of(topic.name)
            if topic in self._topics:
                self._set(topic, rates)

    def set_broker_rate(self, rate: Rate) -> None:
        """Limit the whole broker to so much, from now on."""
        before = self._broker.active
        self._throttle.set_rates(self._broker, rate.messages, rate.size, self._now())
        if self._broker.active != before:
            for topic in self._topics:
                self._regroup(topic)
        self._set_timers()

    def set_group_rate(self, name: str, rate: Rate) -> None:
        """Limit this broker's part of a resource group to so much, from now on."""
        limit = self._groups.get(name)
        if limit is None:
            limit = self._groups[name] = PublishLimit(Level.RESOURCE_GROUP, name)
        before = limit.active
        self._throttle.set_rates(limit, rate.messages, rate.size, self._now())
        if limit.active != before:
            for topic, known in self._topics.items():
                if known.group == name:
                    self._regroup(topic)
        self._set_timers()

    def _set(self, topic: LimitedTopic, rates: TopicRates) -> None:
        self.dispatch.set_topic_rates(topic.name, rates, topic.meter_in)
        self.subscribe.set_rate(topic.name, rates.subscribe)
        known = self._topics[topic]
        before = self._limits_of(topic)
        publish = rates.publish
        self._throttle.set_rates(known.limit, publish.messages, publish.size, self._now())
        known.group = rates.resource_group
        if self._limits_of(topic) != before:
            self._regroup(topic)
        self._set_timers()

    def _limits_of(self, topic: LimitedTopic) -> tuple[PublishLimit, ...]:
        """What applies to a topic, the narrowest first."""
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
                self._pass(self._throttle.set_limits(producer.flow, limits, self._now()))
                if not limits:
                    self._remember(topic, producer.flow)
                    producer.flow = None
            elif limits and not producer.closed:
                producer.flow = Flow(producer, limits)

    # What can be seen.

    @property
    def topics(self) -> Iterable[LimitedTopic]:
        """The topics that it knows."""
        return list(self._topics)

    def group_of(self, topic: LimitedTopic) -> str | None:
        """The resource group of a topic."""
        return self._topics[topic].group if topic in self._topics else None

    def group(self, name: str) -> PublishLimit | None:
        """This broker's part of a resource group."""
        return self._groups.get(name)

    def all(self) -> list[PublishLimit]:
        """Every publish limit that limits anything: the broker's, the groups', the topics'."""
        topics = [each.limit for each in self._topics.values()]
        return [it for it in (self._broker, *self._groups.values(), *topics) if it.active]

    def seen(self) -> list[SeenLimit]:
        """Every limit of publishing and of delivery as it is now, with those who wait."""
        now = self._now()
        publish = [seen_publish(limit, now) for limit in self.all()]
        return publish + [seen_dispatch(limit, now) for limit in self.dispatch.all()]

    def throttled_times(self, topic: LimitedTopic) -> int:
        """How often a topic's producers had to wait, at whichever limit, since it was loaded."""
        known = self._topics.get(topic)
        flows = (it.flow for it in topic.attached_producers())
        now = sum(flow.throttled_count for flow in flows if flow is not None)
        return now + (known.throttled if known is not None else 0)

    def throttled_ns(self, flow: Flow) -> int:
        """For how long a producer has had to wait altogether."""
        since = flow.throttled_since
        return flow.throttled_ns + (self._now() - since if since is not None else 0)

    def stop(self) -> None:
        """No more alarms: the broker ends."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.episodes.stop()
