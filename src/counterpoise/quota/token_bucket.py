"""`Bucket` with a clock of its own: PIP-322's ``AsyncTokenBucket`` under its own verbs."""

from __future__ import annotations

from collections.abc import Callable

from counterpoise.quota.bucket import RESOLUTION_NS, SECOND_NS, Bucket, Clock


class TokenBucket(Bucket):
    """A rate limit whose ``clock`` (nanoseconds, monotonic) is read when it matters.

    Bound, carrying and arguments are those of `Bucket`. Eventually consistent: what was earned is
    added once in ``resolution_ns``. ``always_consistent`` adds it at every question instead, for
    tests that want to count every token (``switchToConsistentTokensView`` of the PIP).

    >>> import time
    >>> bucket = TokenBucket(100, clock=time.monotonic_ns)  # a hundred a second
    >>> bucket.consume_and_check(1)
    True
    """

    __slots__ = ("_clock",)

    FULL_KEEPS_PART = True  # as Java's

    def __init__(
        self,
        rate: int,
        *,
        clock: Clock,
        period_ns: int = SECOND_NS,
        capacity: int | None = None,
        initial: int | None = None,
        target: int | None = None,
        resolution_ns: int = RESOLUTION_NS,
        always_consistent: bool = False,
    ) -> None:
        super().__init__(
            rate,
            clock(),
            period_ns=period_ns,
            capacity=capacity,
            initial=initial,
            target=target,
            # With a resolution of 0 the only thing to wait for is the next whole token.
            resolution_ns=0 if always_consistent else resolution_ns,
        )
        self._clock = clock

    def consume(self, tokens: int = 1) -> None:
        """Take tokens without asking (``consumeTokens``); the cheapest call, it reads no clock."""
        if tokens < 0:
            raise ValueError(f"cannot take {tokens} tokens")
        self.balance -= tokens

    def consume_and_check(self, tokens: int = 1) -> bool:
        """Take tokens and say whether any are left (``consumeTokensAndCheckIfContainsTokens``).

        False asks the caller to wait for `throttling_ns` before it goes on.
        """
        if tokens < 0:
            raise ValueError(f"cannot take {tokens} tokens")
        now = self._clock()
        if now > self.due:
            self._earn(now)
        balance = self.balance = self.balance - tokens
        return balance > 0

    def contains(self, *, consistent: bool = False) -> bool:
        """Whether any tokens are left (``containsTokens``)."""
        now = self._clock()
        if now > self.due or consistent:
            self.settle(now, consistent=consistent)
        return self.balance > 0

    def tokens(self, *, consistent: bool = False) -> int:
        """The balance (``getTokens``); exact to the nanosecond if ``consistent``."""
        return self.settle(self._clock(), consistent=consistent)

    def throttling_ns(self, required: int | None = None, *, consistent: bool = True) -> int:
        """How long to wait until tokens are there again (``calculateThrottlingDuration``).

        Exact by default, as the PIP says it; 4.0.7 uses the eventually consistent balance here.
        """
        return self.wait_ns(self._clock(), required, consistent=consistent)

    def fill_time_ns(self) -> int:
        """How long until the bucket is full."""
        return self.fill_ns(self._clock())

    def set_rate(
        self,
        rate: int,
        *,
        period_ns: int | None = None,
        capacity: int | None = None,
        target: int | None = None,
    ) -> None:
        """Earn at another rate from now on; see `Bucket.change`."""
        self.change(self._clock(), rate=rate, period_ns=period_ns, capacity=capacity, target=target)


class DynamicTokenBucket(TokenBucket):
    """A bucket whose rate is asked for each time it is needed (``builderForDynamicRate``).

    ``rate`` and ``period_ns`` are functions; capacity, first fill and target are factors of the
    rate. A rate below 1 counts as 1: no rate at all is for the caller to forbid.
    """

    __slots__ = ("_capacity_factor", "_period_of", "_rate_of", "_target_factor")

    def __init__(
        self,
        rate: Callable[[], int],
        *,
        clock: Clock,
        period_ns: Callable[[], int] = lambda: SECOND_NS,
        capacity_factor: float = 1.0,
        initial_fill_factor: float = 1.0,
        target_factor: float = 0.01,
        resolution_ns: int = RESOLUTION_NS,
    ) -> None:
        self._rate_of = rate
        self._period_of = period_ns
        self._capacity_factor = capacity_factor
        self._target_factor = target_factor
        now_rate = max(1, rate())
        capacity = max(1, int(now_rate * capacity_factor))
        super().__init__(
            now_rate,
            clock=clock,
            period_ns=period_ns(),
            capacity=capacity,
            initial=min(capacity, int(now_rate * initial_fill_factor)),
            target=int(now_rate * target_factor),
            resolution_ns=resolution_ns,
        )

    def _ask(self) -> None:
        """Take over the rate of this moment.

        It holds for all time that has not been counted yet, as in Java, the carried rest included.
        """
        rate, period_ns = max(1, self._rate_of()), self._period_of()
        if rate != self._rate or period_ns != self._period_ns:
            self._carried = self._carried * rate // self._rate
            self._rate, self._period_ns = rate, period_ns
            self._capacity = max(1, int(rate * self._capacity_factor))
            self._target = int(rate * self._target_factor)
            self.due = self._last + max(0, self._step_ns())

    def wait_ns(self, now: int, required: int | None = None, *, consistent: bool = True) -> int:
        """`Bucket.wait_ns` at the rate of this moment."""
        self._ask()
        return super().wait_ns(now, required, consistent=consistent)

    def settle(self, now: int, *, consistent: bool = False) -> int:
        """`Bucket.settle` at the rate of this moment."""
        self._ask()
        return super().settle(now, consistent=consistent)

    def take(self, tokens: int, now: int) -> bool:
        """`Bucket.take` at the rate of this moment."""
        self._ask()
        return super().take(tokens, now)

    def consume_and_check(self, tokens: int = 1) -> bool:
        """`TokenBucket.consume_and_check` at the rate of this moment."""
        self._ask()
        return super().consume_and_check(tokens)

    def contains(self, *, consistent: bool = False) -> bool:
        """`TokenBucket.contains` at the rate of this moment."""
        self._ask()
        return super().contains(consistent=consistent)
