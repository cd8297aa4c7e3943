"""Flows under rate limits at several levels: which flow waits for which limit, and their turns.

A flow passes if none of its limits is exceeded, and is then charged to all of them. The entry that
empties a bucket still passes, and its excess is earned back before others do (PIP-322). Otherwise
the flow waits at *one* limit, the narrowest that is exceeded. At its turn there it passes, or waits
at the next limit that is exceeded. So a limit with waiting flows always has a time of their next
turn (`RateLimit.resume_at`).

Pulsar pauses the connection instead, and with it every producer that shares it.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from counterpoise.quota.bucket import Bucket
from counterpoise.quota.limit import NO_LIMIT, RateLimit

LENT_PART: Final = 4
"""A quarter (1 ÷ this) of the remaining tokens is set aside for one producer at a time, so that
producers whose entries arrive in the same read get some, too."""


@dataclass(slots=True, eq=False)
class LimitedFlow(ABC):
    """A message stream under rate limits: a producer's entries or a subscription's deliveries."""

    throttle: "Throttle"
    limits: tuple[RateLimit, ...]
    """All limits that apply to the flow, the narrowest first."""
    waits_at: RateLimit | None = field(default=None, init=False)
    """The limit for which the flow waits."""
    turn_at: RateLimit | None = field(default=None, init=False)
    """The limit at which the flow has its turn just now; None: it has none."""
    finished: dict[RateLimit, int] = field(default_factory=dict, init=False)
    throttled_count: int = field(default=0, init=False)
    """How often the flow began to wait."""
    throttled_ns: int = field(default=0, init=False)
    """How long the flow has waited for limits, in nanoseconds in all."""
    throttled_since: int | None = field(default=None, init=False)
    """When the flow began to wait, in nanoseconds of the clock; None while it does not."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The name of the producer or subscription, as messages show it."""

    @abstractmethod
    def go_on(self, now: int) -> None:
        """Let waiting entries pass until a limit is exceeded, then wait for that limit."""

    @abstractmethod
    def clear(self) -> None:
        """Drop the waiting entries, because the producer or subscription ends."""

    def exceeded(self, now: int) -> RateLimit | None:
        """The first of the flow's limits that is exceeded at ``now`` (ns); None if the flow may
        pass.

        A limit on which other flows wait counts as exceeded, unless it is this flow's turn there.
        """
        for limit in self.limits:
            if limit is self.turn_at:
                if not limit.has_tokens(now):
                    return limit
            elif not limit.open and not limit.admits(now):
                return limit
        return None

    def charge(self, messages: int, size: int, now: int) -> None:
        """Subtract what has passed from the tokens of the flow's limits; its turn ends."""
        for limit in self.limits:
            limit.charge(messages, size, now)
        if self.turn_at is not None:
            self.turn_at.advance(self, messages, size)
            self.turn_at = None


class Throttle:
    """Makes the flows (producers, subscriptions) of one broker wait for their rate limits.

    ``alarms`` are the limits whose next turn, ``resume_at``, changed: the caller sets its timers by
    them, and calls `release` for a limit when its time has come. It calls `return_reserved`
    when no more entries arrive for the moment.
    """

    __slots__ = ("_lent", "alarms")

    def __init__(self) -> None:
        self.alarms: set[RateLimit] = set()
        self._lent: dict[PublishFlow, None] = {}
        """Producers that have tokens set aside."""

    def offer(self, flow: "PublishFlow", messages: int, size: int, item: Any, now: int) -> bool:
        """Whether an entry may pass now; if not, it is queued, and `release` gets its ``item``."""
        if flow in self._lent:
            flow.take_back()
            del self._lent[flow]
        if not flow.entries:
            limit = flow.exceeded(now)
            if limit is not None and self._lent:
                # Its buckets may only be empty because tokens are reserved for other producers.
                self.return_reserved()
                limit = flow.exceeded(now)
            if limit is None:
                flow.charge(messages, size, now)
                if flow.set_aside():
                    self._lent[flow] = None
                return True
            self.wait(flow, limit, now)
        flow.entries.append((messages, size, item))
        flow.throttled_bytes += size
        return False

    def return_reserved(self) -> None:
        """Return all reserved tokens: at the end of a socket read, and before limits change."""
        if self._lent:
            for flow in self._lent:
                flow.take_back()
            self._lent.clear()

    def wait(self, flow: LimitedFlow, limit: RateLimit, now: int) -> None:
        """Put a flow into the queue of a limit that it exceeds."""
        if flow.throttled_since is None:
            flow.throttled_count += 1
            flow.throttled_since = now
        limit.enqueue(flow, now)
        self.alarms.add(limit)

    def release(self, limit: RateLimit, now: int) -> None:
        """Let the flows that wait for a limit go on in turn, as long as it has tokens."""
        self.return_reserved()
        try:
            while limit.waiting and limit.has_tokens(now):
                flow = cast("LimitedFlow", limit.dequeue())
                flow.turn_at = limit
                try:
                    flow.go_on(now)
                finally:
                    flow.turn_at = None
                    _end_wait(flow, now)
        finally:
            limit.rest(now)
            self.alarms.add(limit)

    def set_rate(
        self, limit: RateLimit, messages: int, size: int, now: int, period_s: int = 1
    ) -> None:
        """Change a limit's rate; flows that wait for it go on accordingly."""
        self.return_reserved()
        limit.set_rate(messages, size, now, period_s)
        self.alarms.add(limit)

    def set_limits(self, flow: LimitedFlow, limits: Iterable[RateLimit], now: int) -> None:
        """Replace a flow's limits; if it waits for a limit that is gone, it tries the new ones."""
        self.return_reserved()
        flow.limits = tuple(limits)
        for former in [each for each in flow.finished if each not in flow.limits]:
            del flow.finished[former]
        if flow.waits_at is not None and flow.waits_at not in flow.limits:
            self.retry(flow, now)

    def retry(self, flow: LimitedFlow, now: int) -> None:
        """Let a waiting flow try all of its limits again, as if new; ``now`` is in nanoseconds."""
        self._leave(flow, now)
        try:
            flow.go_on(now)
        finally:
            _end_wait(flow, now)

    def end(self, flow: LimitedFlow, now: int) -> None:
        """End a flow: it waits for no limit any more, and its throttled entries are dropped."""
        self.return_reserved()
        self._leave(flow, now)
        flow.clear()
        _end_wait(flow, now)

    def _leave(self, flow: LimitedFlow, now: int) -> None:
        limit = flow.waits_at
        if limit is not None:
            limit.leave(flow, now)
            self.alarms.add(limit)


def _end_wait(flow: LimitedFlow, now: int) -> None:
    if flow.waits_at is None and flow.throttled_since is not None:
        flow.throttled_ns += now - flow.throttled_since
        flow.throttled_since = None


class PublishFlow(LimitedFlow):
    """The entries of one producer. Those that exceed a limit are throttled, in order.

    ``free_messages`` and ``free_bytes`` are tokens reserved from its limits, so that each further
    entry costs two subtractions, however many limits there are. What is not used is returned some
    milliseconds later (`Throttle.return_reserved`).
    """

    __slots__ = (
        "_lent_bytes",
        "_lent_messages",
        "entries",
        "free_bytes",
        "free_messages",
        "throttled_bytes",
    )

    def __init__(self, throttle: Throttle, limits: tuple[RateLimit, ...]) -> None:
        super().__init__(throttle, limits)
        self.entries: deque[tuple[int, int, Any]] = deque()
        """Throttled entries: messages, bytes, and the ``item`` that `release` gets."""
        self.throttled_bytes = 0
        self.free_messages = self.free_bytes = 0
        self._lent_messages = self._lent_bytes = 0
        """The tokens that were set aside; `free_messages` and `free_bytes` are left of them."""

    @abstractmethod
    def release(self, item: Any, size: int) -> None:
        """Publish an entry of ``size`` bytes that was throttled."""

    def passes(self, messages: int, size: int) -> bool:
        """Take an entry's cost from the reserved tokens; if False, call `Throttle.offer`."""
        if self.free_messages > 0 and self.free_bytes > 0:
            self.free_messages -= messages
            self.free_bytes -= size
            return True
        return False

    def go_on(self, now: int) -> None:
        """Publish throttled entries, until one of its limits is exceeded."""
        while self.entries:
            limit = self.exceeded(now)
            if limit is not None:
                self.throttle.wait(self, limit, now)
                return
            messages, size, item = self.entries.popleft()
            self.throttled_bytes -= size
            self.charge(messages, size, now)
            try:
                self.release(item, size)
            except BaseException:
                if self.entries and self.limits:
                    self.throttle.wait(self, self.limits[0], now)
                raise

    def clear(self) -> None:
        """Drop all entries of the producer that are throttled."""
        self.entries.clear()
        self.throttled_bytes = 0

    def set_aside(self) -> bool:
        """Reserve a part of the limits' tokens for this producer; returns whether any were left."""
        messages = size = NO_LIMIT
        for limit in self.limits:
            if limit.messages is not None:
                messages = min(messages, limit.messages.balance // LENT_PART)
            if limit.bytes is not None:
                size = min(size, limit.bytes.balance // LENT_PART)
        if messages <= 0 or size <= 0:
            return False
        self.free_messages = self._lent_messages = messages
        self.free_bytes = self._lent_bytes = size
        for limit in self.limits:
            if limit.messages is not None:
                limit.messages.balance -= messages
            if limit.bytes is not None:
                limit.bytes.balance -= size
        return True

    def take_back(self) -> None:
        """Give reserved tokens that were not used back to the limits; charge what exceeded them."""
        messages, size = self.free_messages, self.free_bytes
        self.free_messages = self.free_bytes = 0
        for limit in self.limits:
            limit.passed_messages += self._lent_messages - messages
            limit.passed_bytes += self._lent_bytes - size
            # Both buckets get their tokens back, even if one of them stays empty.
            empty = [_returned(limit.messages, messages), _returned(limit.bytes, size)]
            if any(empty):
                limit.open = False


def _returned(bucket: Bucket | None, tokens: int) -> bool:
    """Return tokens to a bucket; returns whether it has none even then; False without a bucket."""
    if bucket is None:
        return False
    bucket.balance = min(bucket.balance + tokens, bucket.capacity)
    return bucket.balance <= 0
