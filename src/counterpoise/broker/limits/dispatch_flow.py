"""The deliveries of one subscription, under its own limit and those it shares.

A delivery is counted afterwards, so a batch may exceed a limit and delays later deliveries. Pulsar
checks again every second; here the wait is exactly as long as needed.

Source: ``DispatchRateLimiter`` of Pulsar 4.0.7.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final, Protocol

from counterpoise.broker.limits.rates import Rate
from counterpoise.broker.limits.runner import LimitRunner
from counterpoise.quota import NO_LIMIT, SECOND_NS, LimitedFlow, LimitLevel, RateLimit

BACKLOGGED: Final = 1000
"""A subscription lags if it has more undelivered entries than this
(``managedLedgerCursorBackloggedThreshold``)."""
RENEW_NS: Final = SECOND_NS
"""How often a limit relative to the publish rate is adjusted to it, in nanoseconds."""


class PublishRate(Protocol):
    """The measured publish rate of a topic."""

    @property
    def rate(self) -> float:
        """Messages/s published to the topic."""

    @property
    def byte_rate(self) -> float:
        """Bytes/s published to the topic."""


class DispatchLimit(RateLimit):
    """A rate limit on deliveries, whose rate may be relative: added to the topic's publish rate."""

    __slots__ = ("_published", "_rate", "_renewed")

    def __init__(self, level: LimitLevel, subject: str) -> None:
        super().__init__(level, subject)
        self._rate = Rate()
        self._published: PublishRate | None = None
        self._renewed = 0

    def follow(self, rate: Rate, published: PublishRate | None, now: int) -> Rate:
        """Set the rate; returns the one in force, which adds ``published`` if it is relative."""
        self._rate = rate
        self._published = published if rate.relative else None
        self._renewed = now
        return self._absolute()

    def _absolute(self) -> Rate:
        rate, published = self._rate, self._published
        if published is None:
            return rate
        # A rate without a limit on messages, or on bytes, does not get one.
        more = int(published.rate * rate.period_s) if rate.messages else 0
        larger = int(published.byte_rate * rate.period_s) if rate.size else 0
        return Rate(rate.messages + more, rate.size + larger, rate.period_s)

    def left(self, now: int) -> tuple[int, int]:
        """The messages and bytes that may be delivered now; 0 or less means none."""
        if self._published is not None and now - self._renewed >= RENEW_NS:
            self._renewed = now
            rate = self._absolute()
            self.set_rate(rate.messages, rate.size, now, rate.period_s)
        return super().left(now)


@dataclass(slots=True)
class DispatchCounting:
    """What counts towards a broker's dispatch limits: batches or messages; only backlogs or all."""

    whole_batches: bool = False
    """Whether a batch counts as one message."""
    caught_up: bool = True
    """Whether the limits also hold for subscriptions that do not lag (`BACKLOGGED`)."""


class Dispatches(Protocol):
    """What dispatch limits call on a subscription's dispatcher."""

    @property
    def behind(self) -> int:
        """The number of entries not delivered yet."""

    def dispatch(self) -> None:
        """Deliver as much as the limits and permits allow now."""


class DispatchFlow(LimitedFlow):
    """One subscription's deliveries under dispatch limits, for the life of its dispatcher."""

    __slots__ = (
        "_counting",
        "_dispatcher",
        "_exempt",
        "_runner",
        "events",
        "subscription",
        "topic",
    )

    def __init__(
        self,
        runner: LimitRunner,
        dispatcher: Dispatches,
        counting: DispatchCounting,
        topic: str,
        subscription: str,
    ) -> None:
        super().__init__(runner.throttle, ())
        self.topic = topic
        self.subscription = subscription
        self.events: Counter[tuple[str, str]] = Counter()
        """How often it was throttled, by the limit's level and by what was used up ("messages",
        "bytes")."""
        self._runner = runner
        self._dispatcher = dispatcher
        self._counting = counting
        self._exempt = False

    @property
    def label(self) -> str:
        """The subscription's name for logs."""
        return f"subscription {self.subscription} of {self.topic}"

    @property
    def behind(self) -> int:
        """The number of entries not delivered yet."""
        return self._dispatcher.behind

    def budget(self) -> tuple[int, int]:
        """Messages and bytes that may be delivered now; (0, 0) while the subscription waits."""
        if self.waits_at is not None:
            return 0, 0
        self._exempt = not self._counting.caught_up and self.behind <= BACKLOGGED
        if self._exempt or not self.limits:
            return NO_LIMIT, NO_LIMIT
        now = self._runner.now()
        lefts = [limit.left(now) for limit in self.limits]
        exceeded = self.exceeded(now)
        if exceeded is not None:
            self._count_event(exceeded, *exceeded.left(now))
            self._runner.wait(self, exceeded)
            return 0, 0
        return min(messages for messages, _ in lefts), min(size for _, size in lefts)

    def _count_event(self, limit: RateLimit, messages: int, size: int) -> None:
        lacks_bytes = size <= 0 or (messages > 0 and limit.messages is None)
        if messages <= 0 or not lacks_bytes:
            self.events[limit.level, "messages"] += 1
        if lacks_bytes:
            self.events[limit.level, "bytes"] += 1

    def took(self, messages: int, entries: int, size: int) -> None:
        """Charge the limits for what was delivered since the last `budget`."""
        if not self._exempt and self.limits:
            count = entries if self._counting.whole_batches else messages
            self.charge(count, size, self._runner.now())

    def go_on(self, now: int) -> None:
        """Deliver as much as the limits allow at ``now`` (nanoseconds), the subscription's turn."""
        self._dispatcher.dispatch()

    def clear(self) -> None:
        """Do nothing: a subscription that waits has no throttled entries."""
