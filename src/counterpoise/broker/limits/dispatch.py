"""Dispatch limits: how much a subscription, a topic and a broker may deliver.

A subscription that finds one of its limits empty waits there for its turn; turns go round, and each
delivers what is left at most. Counted is what was delivered, so a batch may pass a limit and is
paid for afterwards. Pulsar looks again every second; here the wait is as long as it takes.

Topics that store nothing have no dispatch limits, as in Pulsar: who is not sent a message at once
is never sent it, so a limit there would lose what it should delay.

Source: ``DispatchRateLimiter`` of Pulsar 4.0.7.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from counterpoise.broker.limits.ports import Published
from counterpoise.broker.limits.rates import Rate
from counterpoise.names.topic import TopicName
from counterpoise.quota import SECOND_NS, Bucket

NO_LIMIT: Final = 1 << 62
BURST_S: Final = 0.05
"""A limit holds back what it does not use for this long: the longest burst after a rest."""
TIMER_S: Final = 0.002
"""No alarm is set for less."""


BACKLOGGED: Final = 1000
"""A subscription lags with more entries to deliver (``managedLedgerCursorBackloggedThreshold``)."""
RENEW_NS: Final = SECOND_NS
"""How often a limit that is relative to what is published follows it."""


@dataclass(slots=True)
class Terms:
    """What counts towards the limits of one broker; shared by all of its gates."""

    whole_batches: bool = False
    """Whether a batch counts as one message."""
    caught_up: bool = True
    """Whether they hold for subscriptions that do not lag, too."""


class DispatchLimit:
    """Messages and bytes that may be delivered in a period; either may be absent."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._now = clock_ns
        self._messages: Bucket | None = None
        self._bytes: Bucket | None = None
        self._waiting: dict[Gate, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rate = Rate()
        self._published: Published | None = None
        self._renewed = 0

    @property
    def active(self) -> bool:
        """Whether it limits anything."""
        return self._messages is not None or self._bytes is not None

    def set_rate(self, rate: Rate, published: Published | None = None) -> None:
        """Allow so much from now on; those who wait are looked at at once.

        ``published``: what a relative rate comes on top of.
        """
        self._rate = rate
        self._published = published if rate.relative else None
        self._renew(self._now())
        if self._waiting:
            self._arm(0.0)

    def _renew(self, now: int) -> None:
        self._renewed = now
        rate, published = self._rate, self._published
        messages, size = rate.messages, rate.size
        if published is not None:
            # What is not limited at all stays so.
            messages += int(published.rate * rate.period_s) if messages else 0
            size += int(published.byte_rate * rate.period_s) if size else 0
        self._messages = _bucket(self._messages, messages, rate.period_s, now)
        self._bytes = _bucket(self._bytes, size, rate.period_s, now)

    def left(self) -> tuple[int, int]:
        """Messages and bytes that may be delivered now."""
        now = self._now()
        if self._published is not None and now - self._renewed >= RENEW_NS:
            self._renew(now)
        return tuple(  # type: ignore[return-value]
            NO_LIMIT if each is None else max(0, each.settle(now, consistent=True))
            for each in (self._messages, self._bytes)
        )

    def took(self, messages: int, size: int) -> None:
        """So much was delivered."""
        if self._messages is not None:
            self._messages.balance -= messages
        if self._bytes is not None:
            self._bytes.balance -= size

    def has_others(self, gate: Gate) -> bool:
        """Whether somebody else waits here before this one."""
        return bool(self._waiting) and next(iter(self._waiting)) is not gate

    def wait(self, gate: Gate) -> None:
        """Let a subscription wait for its turn."""
        self._waiting[gate] = None
        if self._timer is None:
            self._arm()

    def leave(self, gate: Gate) -> None:
        """It waits no longer."""
        self._waiting.pop(gate, None)
        if not self._waiting:
            self._arm()

    def _arm(self, delay_s: float | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            if delay_s is None:
                now = self._now()
                waits = [each.wait_ns(now) for each in (self._messages, self._bytes) if each]
                delay_s = max(waits, default=0) / SECOND_NS
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(TIMER_S, delay_s), self._ring)

    def _ring(self) -> None:
        self._timer = None
        for _ in range(len(self._waiting)):
            if min(self.left()) <= 0:
                break
            gate = next(iter(self._waiting))
            del self._waiting[gate]
            gate.turn()
        self._arm()


class Gate:
    """What one subscription may deliver: under its own limit, its topic's and its broker's."""

    __slots__ = ("_behind", "_exempt", "_go_on", "_its_turn", "_terms", "_waits_at", "limits")

    def __init__(
        self,
        limits: tuple[DispatchLimit, ...],
        go_on: Callable[[], None],
        terms: Terms | None = None,
        behind: Callable[[], int] = lambda: 0,
    ) -> None:
        """``go_on`` is called when it may deliver again; ``behind`` gives how far it lags."""
        self.limits = limits
        self._terms = terms or Terms()
        self._behind = behind
        self._exempt = False
        self._go_on = go_on
        self._waits_at: DispatchLimit | None = None
        self._its_turn = False

    def budget(self) -> tuple[int, int]:
        """Messages and bytes that may be delivered now; with none, ``go_on`` follows."""
        messages = size = NO_LIMIT
        if self._waits_at is not None:
            return 0, 0
        self._exempt = not self._terms.caught_up and self._behind() <= BACKLOGGED
        if self._exempt:
            return messages, size
        for limit in self.limits:
            free, room = limit.left()
            if free <= 0 or room <= 0 or (not self._its_turn and limit.has_others(self)):
                self._waits_at = limit
                limit.wait(self)
                return 0, 0
            messages, size = min(messages, free), min(size, room)
        return messages, size

    def took(self, messages: int, entries: int, size: int) -> None:
        """So much was delivered, on what `budget` said last."""
        if self._exempt:
            return
        count = entries if self._terms.whole_batches else messages
        for limit in self.limits:
            limit.took(count, size)

    def turn(self) -> None:
        """It has its turn where it waited (`DispatchLimit` calls this)."""
        self._waits_at = None
        self._its_turn = True
        try:
            self._go_on()
        finally:
            self._its_turn = False

    def change(self, limits: tuple[DispatchLimit, ...]) -> None:
        """Other limits apply, or the same on other terms."""
        self.limits = limits
        if self._waits_at is not None:
            self._waits_at.leave(self)
            self.turn()

    def close(self) -> None:
        """Nothing more is delivered."""
        if self._waits_at is not None:
            self._waits_at.leave(self)
            self._waits_at = None


class DispatchLimits:
    """The dispatch limits of one broker."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now = clock_ns
        self._terms = Terms()
        self._broker = DispatchLimit(clock_ns)
        self._topics: dict[TopicName, tuple[DispatchLimit, Rate, Published]] = {}
        self._gates: dict[TopicName, dict[Gate, DispatchLimit]] = {}

    def set_terms(self, *, whole_batches: bool, caught_up: bool) -> None:
        """Count by these `Terms` from now on."""
        if (self._terms.whole_batches, self._terms.caught_up) == (whole_batches, caught_up):
            return
        self._terms.whole_batches, self._terms.caught_up = whole_batches, caught_up
        for gates in list(self._gates.values()):
            for gate in list(gates):
                gate.change(gate.limits)

    def set_broker_rate(self, rate: Rate) -> None:
        """Limit all deliveries of this broker."""
        before = self._broker.active
        self._broker.set_rate(rate)
        if self._broker.active != before:
            for name in list(self._gates):
                self._change(name)

    def set_topic_rates(
        self, name: TopicName, topic: Rate, subscription: Rate, published: Published
    ) -> None:
        """Limit a topic's deliveries, and those of each of its subscriptions.

        ``published`` is what the topic takes, for rates that are relative to it.
        """
        known = self._topics.get(name)
        limit = known[0] if known else DispatchLimit(self._now)
        limit.set_rate(topic, published)
        if topic or subscription:
            self._topics[name] = (limit, subscription, published)
        else:
            self._topics.pop(name, None)
        for own in self._gates.get(name, {}).values():
            own.set_rate(subscription, published)
        self._change(name)

    def gate(self, name: TopicName, go_on: Callable[[], None], behind: Callable[[], int]) -> Gate:
        """The gate of a subscription that begins to deliver."""
        own = DispatchLimit(self._now)
        known = self._topics.get(name)
        if known is not None:
            own.set_rate(known[1], known[2])
        gate = Gate((), go_on, self._terms, behind)
        self._gates.setdefault(name, {})[gate] = own
        gate.limits = self._limits(name, own)
        return gate

    def close(self, name: TopicName, gate: Gate) -> None:
        """A subscription delivers no more."""
        gate.close()
        gates = self._gates.get(name, {})
        gates.pop(gate, None)
        if not gates:
            self._gates.pop(name, None)

    def end(self, name: TopicName) -> None:
        """A topic is here no longer."""
        self._topics.pop(name, None)

    def _limits(self, name: TopicName, own: DispatchLimit) -> tuple[DispatchLimit, ...]:
        known = self._topics.get(name)
        found = (own, known[0] if known else None, self._broker)
        return tuple(each for each in found if each is not None and each.active)

    def _change(self, name: TopicName) -> None:
        for gate, own in list(self._gates.get(name, {}).items()):
            limits = self._limits(name, own)
            if limits != gate.limits:
                gate.change(limits)


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
