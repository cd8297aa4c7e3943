"""One rate limit (PIP-322): messages and bytes in a period, and the flows that wait for it."""

import heapq
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from counterpoise.quota.bucket import RESOLUTION_NS, SECOND_NS, Bucket

RELEASE_NS: Final = 4_000_000
"""Flows wait until at least the tokens of this time have been earned, so that a reached limit needs
a timer at most 250 times a second."""

LATE_NS: Final = 100_000_000
"""How late a timer may be before flows that wait lose what was earned in the meantime.

The timers of a busy event loop are late, which must not lower the rate."""

NO_LIMIT: Final = 1 << 62
"""The number of messages or bytes that stands for no limit: more than can ever pass."""


class LimitLevel(StrEnum):
    """What a rate limit applies to, such as a topic or the broker, by Pulsar's names (4.2.4)."""

    TOPIC_PUBLISH = "TopicPublishRate"
    GROUP_PUBLISH = "ResourceGroupPublishRate"
    BROKER_PUBLISH = "BrokerPublishRate"
    SUBSCRIPTION_DISPATCH = "SubscriptionDispatchRate"
    TOPIC_DISPATCH = "TopicDispatchRate"
    GROUP_DISPATCH = "ResourceGroupDispatchRate"
    BROKER_DISPATCH = "BrokerDispatchRate"


class Queued(Hashable, Protocol):
    """A producer's or subscription's flow, as the limit that it waits for uses it."""

    finished: "dict[RateLimit, int]"
    """By limit where the flow had to wait: how far its fair-queuing clock has advanced there."""
    waits_at: "RateLimit | None"
    """The limit that the flow waits for."""


@dataclass(slots=True, eq=False, repr=False)
class RateLimit:
    """A limit on messages and bytes per period; either may be absent.

    It is exceeded while one of its two token buckets is empty. The entry that empties a bucket
    still passes, and its excess is earned back before others do. A bucket's capacity is what one
    resolution step earns, so in any second at most the rate, that step and one entry pass. (Only
    tokens earned while flows waited for a late timer, by up to `LATE_NS`, are kept for them.)
    Pulsar's buckets have the capacity of a second, and allow up to twice the rate in the first
    second.

    Flows that find the limit exceeded wait in its queue, by start-time fair queuing: each flow has
    a clock that advances by its part of what passes this limit, and the flow that is furthest
    behind has the next turn. Equal flows alternate. A flow that sends little waits for at most one
    turn of each other flow, however much these have to pass.
    """

    level: LimitLevel
    subject: str
    """The subscription, topic, resource group or broker under this limit."""
    messages: Bucket | None = field(default=None, init=False)
    bytes: Bucket | None = field(default=None, init=False)
    open: bool = field(default=True, init=False)
    """Whether a flow may pass now, as far as is known: tokens are left, and no flow waits."""
    passed_messages: int = field(default=0, init=False)
    """Messages that have passed this limit since it was made."""
    passed_bytes: int = field(default=0, init=False)
    resume_at: int | None = field(default=None, init=False)
    """When waiting flows get their next turns, in nanoseconds; None while none waits."""
    waiting: dict[Queued, int] = field(default_factory=dict, init=False)
    """The flows that wait for this limit, in order of arrival, each with its ticket number."""
    throttled_count: int = field(default=0, init=False)
    """How often flows began to wait while no other waited."""
    throttled_ns: int = field(default=0, init=False)
    """How long any flow has waited for this limit, in nanoseconds in all."""
    throttled_since: int | None = field(default=None, init=False)
    """When flows began to wait, in nanoseconds of the clock; None while none waits."""
    rested_at: int = field(default=0, init=False)
    """When the last wait ended, in nanoseconds of the clock."""
    _heap: list[tuple[int, int, Queued]] = field(default_factory=list, init=False)
    _tickets: int = field(default=0, init=False)
    _clock: int = field(default=0, init=False)
    """The virtual clock of the flow whose turn was last: a flow that begins to wait starts there,
    so it has no claim to turns of the past."""
    _served: int = field(default=0, init=False)

    def __repr__(self) -> str:
        return f"<{self.level} of {self.subject}>"

    @property
    def active(self) -> bool:
        """Whether a rate is set for messages or for bytes."""
        return self.messages is not None or self.bytes is not None

    @property
    def period_ns(self) -> int:
        """The period of its rates in nanoseconds; one second if no rate is set."""
        return next((each.period_ns for each in (self.messages, self.bytes) if each), SECOND_NS)

    def set_rate(self, messages: int, size: int, now: int, period_s: int = 1) -> None:
        """Allow ``messages`` and ``size`` bytes per period from ``now`` (ns) on; 0 or less means
        unlimited.

        The balance is kept: an excess is still earned back, and setting a rate twice allows nothing
        extra.
        """
        period_ns = period_s * SECOND_NS
        waiting = self.throttled_since is not None
        self.messages = _changed(self.messages, messages, period_ns, now, waiting=waiting)
        self.bytes = _changed(self.bytes, size, period_ns, now, waiting=waiting)
        if self.waiting:
            self.resume_at = now + self.wait_ns(now)
        else:
            self.open = self.has_tokens(now)

    def charge(self, messages: int, size: int, now: int) -> None:
        """Take tokens for messages and bytes that passed; `open` becomes False if none are left."""
        self.passed_messages += messages
        self.passed_bytes += size
        bucket = self.messages
        if bucket is not None:
            if now > bucket.due:
                bucket.update_balance(now)
            bucket.balance -= messages
            if bucket.balance <= 0:
                self.open = False
        bucket = self.bytes
        if bucket is not None:
            if now > bucket.due:
                bucket.update_balance(now)
            bucket.balance -= size
            if bucket.balance <= 0:
                self.open = False

    def has_tokens(self, now: int) -> bool:
        """Whether both buckets have tokens at exactly ``now`` (ns); an absent bucket has."""
        messages, size = self.messages, self.bytes
        return (messages is None or messages.update_balance(now, consistent=True) > 0) and (
            size is None or size.update_balance(now, consistent=True) > 0
        )

    def left(self, now: int) -> tuple[int, int]:
        """The messages and the bytes that may pass now; 0 or less means none."""
        messages, size = self.messages, self.bytes
        return (
            NO_LIMIT if messages is None else messages.update_balance(now, consistent=True),
            NO_LIMIT if size is None else size.update_balance(now, consistent=True),
        )

    def admits(self, now: int) -> bool:
        """Whether a flow outside the queue may pass: tokens are left, and the queue is empty."""
        if not self.open and not self.waiting:
            self.open = self.has_tokens(now)
        return self.open

    def wait_ns(self, now: int) -> int:
        """Nanoseconds until there are enough tokens to let waiting flows go on."""
        waits = [each.wait_ns(now) for each in (self.messages, self.bytes) if each is not None]
        return max(waits, default=0)

    def waited_ns(self, now: int) -> int:
        """Total time in nanoseconds, until ``now``, for which any flow waited for this limit."""
        since = self.throttled_since
        return self.throttled_ns + (now - since if since is not None else 0)

    def enqueue(self, flow: Queued, now: int) -> None:
        """Add a flow to the queue of those that wait for this limit."""
        if self.throttled_since is None:
            self.throttled_count += 1
            self.throttled_since = now
            self._keep(waiting=True)
        self.open = False
        start = max(self._clock, flow.finished.get(self, 0))
        self._tickets += 1
        self.waiting[flow] = self._tickets
        flow.waits_at = self
        heapq.heappush(self._heap, (start, self._tickets, flow))
        if self.resume_at is None:
            self.resume_at = now + self.wait_ns(now)

    def dequeue(self) -> Queued:
        """Remove and return the flow whose turn is next."""
        while True:
            start, ticket, flow = heapq.heappop(self._heap)
            if self.waiting.get(flow) == ticket:
                break
        del self.waiting[flow]
        flow.waits_at = None
        flow.finished[self] = start
        self._clock = max(self._clock, start)
        return flow

    def advance(self, flow: Queued, messages: int, size: int) -> None:
        """Advance a flow's fair-queuing clock by what it passed in its turn."""
        cost = 1
        if self.messages is not None:
            cost = messages * self.messages.period_ns // self.messages.rate
        if self.bytes is not None:
            cost = max(cost, size * self.bytes.period_ns // self.bytes.rate)
        finish = flow.finished[self] = flow.finished.get(self, self._clock) + cost
        self._served = max(self._served, finish)

    def leave(self, flow: Queued, now: int) -> None:
        """Remove a flow from the queue before its turn."""
        del self.waiting[flow]
        flow.waits_at = None
        self.rest(now)

    def rest(self, now: int) -> None:
        """End a round of turns at ``now`` (ns): schedule the next one, or end the throttling."""
        if self.waiting:
            self.resume_at = now + self.wait_ns(now)
            return
        self._heap.clear()
        self._clock = max(self._clock, self._served)
        self.resume_at = None
        if self.throttled_since is not None:
            self.throttled_ns += now - self.throttled_since
            self.throttled_since, self.rested_at = None, now
            self._keep(waiting=False)
        self.open = self.has_tokens(now)

    def _keep(self, *, waiting: bool) -> None:
        for bucket in (self.messages, self.bytes):
            if bucket is not None:
                bucket.keep_at_most(_capacity(bucket.rate, bucket.period_ns, waiting=waiting))


def _capacity(rate: int, period_ns: int, *, waiting: bool) -> int:
    if waiting:
        return max(2, rate * LATE_NS // period_ns)
    return max(1, rate * RESOLUTION_NS // period_ns)


def _changed(
    bucket: Bucket | None, rate: int, period_ns: int, now: int, *, waiting: bool
) -> Bucket | None:
    if rate <= 0:
        return None
    capacity = _capacity(rate, period_ns, waiting=waiting)
    target = max(1, rate * RELEASE_NS // period_ns)
    if bucket is None:
        few = _capacity(rate, period_ns, waiting=False)
        return Bucket(rate, now, period_ns=period_ns, capacity=capacity, initial=few, target=target)
    if (bucket.rate, bucket.period_ns) != (rate, period_ns):
        bucket.change(now, rate=rate, period_ns=period_ns, capacity=capacity, target=target)
    return bucket
