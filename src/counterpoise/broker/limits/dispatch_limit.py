"""One dispatch limit: messages and bytes that may be delivered in a period, and who waits for them.

Counted is what was delivered, so a batch may pass a limit and is paid for afterwards. Pulsar looks
again every second; here the wait is as long as it takes.

Source: ``DispatchRateLimiter`` of Pulsar 4.0.7.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from counterpoise.broker.limits.ports import Published, Waiter
from counterpoise.broker.limits.rates import Rate
from counterpoise.quota import SECOND_NS, Bucket

NO_LIMIT: Final = 1 << 62
BURST_S: Final = 0.05
"""A limit holds back what it does not use for this long: the longest burst after a rest."""
TIMER_S: Final = 0.002
"""No alarm is set for less."""
RENEW_NS: Final = SECOND_NS
"""How often a limit that is relative to what is published follows it."""


class DispatchLevel(StrEnum):
    """Where a dispatch limit holds (Pulsar's ``DispatchRateLimiter.Type``)."""

    SUBSCRIPTION = "SubscriptionDispatchRate"
    TOPIC = "TopicDispatchRate"
    RESOURCE_GROUP = "ResourceGroupDispatchRate"
    BROKER = "BrokerDispatchRate"


class DispatchLimit:
    """Messages and bytes that may be delivered in a period; either may be absent."""

    def __init__(
        self,
        level: DispatchLevel,
        subject: str,
        clock_ns: Callable[[], int],
        on_wait: Callable[[DispatchLimit, Waiter], None] = lambda limit, gate: None,
    ) -> None:
        """``subject``: whose deliveries it limits. ``on_wait`` hears when somebody has to wait."""
        self.level = level
        self.subject = subject
        self.messages: Bucket | None = None
        self.bytes: Bucket | None = None
        #: Subscriptions that wait here, in the order of their turns.
        self.waiting: dict[Waiter, None] = {}
        #: What has been delivered under it, since it was made.
        self.passed_messages = 0
        self.passed_bytes = 0
        #: How often somebody had to wait here while nobody did, for how long altogether, and since
        #: when somebody does.
        self.throttled_count = 0
        self.throttled_ns = 0
        self.throttled_since: int | None = None
        self._now = clock_ns
        self._on_wait = on_wait
        self._timer: asyncio.TimerHandle | None = None
        self._rate = Rate()
        self._published: Published | None = None
        self._renewed = 0

    @property
    def active(self) -> bool:
        """Whether it limits anything."""
        return self.messages is not None or self.bytes is not None

    def set_rate(self, rate: Rate, published: Published | None = None) -> None:
        """Allow so much from now on; those who wait are looked at at once.

        ``published``: what a relative rate comes on top of.
        """
        self._rate = rate
        self._published = published if rate.relative else None
        self._renew(self._now())
        if self.waiting:
            self._arm(0.0)

    def _renew(self, now: int) -> None:
        self._renewed = now
        rate, published = self._rate, self._published
        messages, size = rate.messages, rate.size
        if published is not None:
            # What is not limited at all stays so.
            messages += int(published.rate * rate.period_s) if messages else 0
            size += int(published.byte_rate * rate.period_s) if size else 0
        self.messages = _bucket(self.messages, messages, rate.period_s, now)
        self.bytes = _bucket(self.bytes, size, rate.period_s, now)

    def left(self) -> tuple[int, int]:
        """Messages and bytes that may be delivered now."""
        now = self._now()
        if self._published is not None and now - self._renewed >= RENEW_NS:
            self._renew(now)
        return tuple(  # type: ignore[return-value]
            NO_LIMIT if each is None else max(0, each.settle(now, consistent=True))
            for each in (self.messages, self.bytes)
        )

    def took(self, messages: int, size: int) -> None:
        """So much was delivered."""
        self.passed_messages += messages
        self.passed_bytes += size
        if self.messages is not None:
            self.messages.balance -= messages
        if self.bytes is not None:
            self.bytes.balance -= size

    def has_others(self, gate: Waiter) -> bool:
        """Whether somebody else waits here before this one."""
        return bool(self.waiting) and next(iter(self.waiting)) is not gate

    def wait(self, gate: Waiter) -> None:
        """Let a subscription wait for its turn."""
        now = self._now()
        if gate.throttled_since is None:
            gate.throttled_since = now
        self.waiting[gate] = None
        if self.throttled_since is None:
            self.throttled_count += 1
            self.throttled_since = now
            self._on_wait(self, gate)
        if self._timer is None:
            self._arm()

    def leave(self, gate: Waiter) -> None:
        """It waits no longer."""
        self.waiting.pop(gate, None)
        if not self.waiting:
            self._arm()

    def _arm(self, delay_s: float | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.waiting:
            if self.throttled_since is not None:
                self.throttled_ns += self._now() - self.throttled_since
                self.throttled_since = None
            return
        if delay_s is None:
            now = self._now()
            waits = [each.wait_ns(now) for each in (self.messages, self.bytes) if each]
            delay_s = max(waits, default=0) / SECOND_NS
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(TIMER_S, delay_s), self._ring)

    def _ring(self) -> None:
        self._timer = None
        try:
            for gate in list(self.waiting):
                if min(self.left()) <= 0:
                    break
                # Another's turn may have ended it.
                if gate in self.waiting:
                    del self.waiting[gate]
                    gate.turn()
        finally:
            self._arm()


def _bucket(bucket: Bucket | None, rate: int, period_s: int, now: int) -> Bucket | None:
    if rate <= 0:
        return None
    capacity = max(1, int(rate * BURST_S / period_s))
    target = max(1, capacity // 10)
    period_ns = period_s * SECOND_NS
    if bucket is None:
        return Bucket(rate, now, period_ns=period_ns, capacity=capacity, target=target)
    if (bucket.rate, bucket.period_ns) != (rate, period_ns):
        bucket.change(now, rate=rate, period_ns=period_ns, capacity=capacity, target=target)
    return bucket
