"""The token bucket of PIP-322: whole tokens, whole nanoseconds, and time as an argument.

A bucket needs no scheduler: the tokens earned follow from the time that passed. Callers subtract
what has already passed, so the balance may fall below zero; whatever comes next waits until it has
been earned back.

Source: PIP-322, and ``org.apache.pulsar.broker.qos.AsyncTokenBucket`` of Pulsar 4.0.7.
"""

from typing import ClassVar, Final

SECOND_NS: Final = 1_000_000_000
RESOLUTION_NS: Final = 16_000_000
"""How often earned tokens are added, unless the exact balance is asked for (Pulsar's 16 ms)."""


class Bucket:
    """A token bucket: the balance of a rate limit. The time is an argument of every method.

    ``rate`` tokens are earned in ``period_ns`` nanoseconds; at most ``capacity`` tokens (by default
    as many as a period brings) are stored, and ``initial`` (by default all of those) are there at
    ``now``. ``target`` is how many tokens a pause should bring (by default 1 % of the capacity).

    Earned tokens are added when more than ``resolution_ns`` have passed since the last time, or one
    token's time if that is longer; in between tokens are only subtracted. A fraction of a token is
    carried over exactly, so that no rate drifts. (Pulsar carries it over in nanoseconds, rounded
    up, and so gains up to one nanosecond each time.)

    **The bound.** A caller that goes on only while the balance is above zero, and takes at most
    ``n`` tokens at a time, takes in any ``t`` nanoseconds at most
    ``capacity + rate * (t + d) / period_ns + n`` tokens, where ``d`` is the longer of the
    resolution and the time of one token. And at any time the balance differs by at most
    ``rate * d / period_ns + 1`` tokens from that of an ideal bucket, which earns continuously:
    after any number of steps, since nothing is rounded away.

    Not for several threads at once. Numbers have no upper limit: where Pulsar's 64-bit product of
    time and rate overflows (a gigabyte a second, idle for ten seconds) this one goes on counting.
    """

    __slots__ = (
        "_capacity",
        "_carried",
        "_last",
        "_period_ns",
        "_rate",
        "_resolution_ns",
        "_target",
        "balance",
        "due",
    )

    FULL_KEEPS_PART: ClassVar = False
    """Whether a full bucket keeps the fraction of a token that it earns beyond its capacity, as
    Java's does: in a second one more token may pass then."""

    def __init__(
        self,
        rate: int,
        now: int,
        *,
        period_ns: int = SECOND_NS,
        capacity: int | None = None,
        initial: int | None = None,
        target: int | None = None,
        resolution_ns: int = RESOLUTION_NS,
    ) -> None:
        """Raises ValueError unless rate, period and capacity are positive, ``resolution_ns`` is not
        negative, and ``initial`` is not above the capacity.
        """
        _check(rate, period_ns, rate if capacity is None else capacity)
        if resolution_ns < 0:
            raise ValueError(f"resolution_ns={resolution_ns}: must not be negative")
        self._rate = rate
        self._period_ns = period_ns
        self._capacity = rate if capacity is None else capacity
        self._target = self._capacity // 100 if target is None else target
        self._resolution_ns = resolution_ns
        self.balance = self._capacity if initial is None else initial
        """Tokens left; negative while more was taken than there was."""
        if self.balance > self._capacity:
            raise ValueError(f"initial={initial} tokens do not fit a capacity of {self._capacity}")
        self._carried = 0
        """The fraction of a token that was earned so far, times ``period_ns``."""
        self._last = now
        self.due = now + self._step_ns()
        """`update_balance` adds earned tokens only after this time."""

    @property
    def rate(self) -> int:
        """Tokens earned per period."""
        return self._rate

    @property
    def period_ns(self) -> int:
        """Nanoseconds in which ``rate`` tokens are earned."""
        return self._period_ns

    @property
    def capacity(self) -> int:
        """The largest number of tokens that the bucket can store."""
        return self._capacity

    def _step_ns(self) -> int:
        """The nanoseconds that must be exceeded before tokens are added (`>`, as in Pulsar)."""
        if self._period_ns // self._rate > self._resolution_ns:
            return -((self._carried - self._period_ns) // self._rate) - 1
        return self._resolution_ns

    def update_balance(self, now: int, *, consistent: bool = False) -> int:
        """Add the tokens earned by ``now`` (ns), and return the balance.

        As long as less than a resolution step has passed nothing is added, unless ``consistent``.
        """
        if now > self.due or (consistent and now > self._last):
            self._earn(now)
        return self.balance

    def _earn(self, now: int) -> None:
        elapsed_ns = now - self._last
        earned, self._carried = divmod(elapsed_ns * self._rate + self._carried, self._period_ns)
        self._last = now
        self.due = now + self._step_ns()
        if earned:
            self.balance += earned
            if self.balance >= self._capacity:
                self.balance = self._capacity
                if not self.FULL_KEEPS_PART:
                    self._carried = 0

    def take(self, tokens: int, now: int) -> bool:
        """Take tokens even if too few are left (the balance may fall below 0); returns whether it
        is still above 0.
        """
        if tokens < 0:
            raise ValueError(f"cannot take {tokens} tokens")
        if now > self.due:
            self._earn(now)
        balance = self.balance = self.balance - tokens
        return balance > 0

    def try_take(self, tokens: int, now: int) -> bool:
        """Take tokens if any are left at exactly ``now`` (ns); returns whether they were taken."""
        if tokens < 0:
            raise ValueError(f"cannot take {tokens} tokens")
        if self.balance <= 0 and self.update_balance(now, consistent=True) <= 0:
            return False
        if now > self.due:
            self._earn(now)
        self.balance -= tokens
        return True

    def wait_ns(self, now: int, required: int | None = None, *, consistent: bool = True) -> int:
        """Nanoseconds until the bucket has ``required`` tokens (default: the target, at least 1); 0
        if it has them now.

        Exact if ``consistent``. Otherwise whole tokens of the eventually consistent balance decide,
        as in Pulsar, and the result may be too long by a resolution step and a token's time.
        """
        if required is None:
            required = max(1, self._target)
        missing = required - self.update_balance(now, consistent=consistent)
        if missing <= 0:
            return 0
        if consistent:
            return -((self._carried - missing * self._period_ns) // self._rate)
        return missing * self._period_ns // self._rate

    def is_full(self, now: int) -> bool:
        """Whether the bucket holds as many tokens as it can at ``now`` (ns)."""
        return self.update_balance(now, consistent=True) >= self._capacity

    def keep_at_most(self, capacity: int) -> None:
        """Change the capacity; tokens above it are dropped."""
        _check(self._rate, self._period_ns, capacity)
        self._capacity = capacity
        self.balance = min(self.balance, capacity)

    def change(
        self,
        now: int,
        *,
        rate: int | None = None,
        period_ns: int | None = None,
        capacity: int | None = None,
        target: int | None = None,
    ) -> None:
        """Change the rate from ``now`` (ns) on; tokens until then are earned at the former rate.

        A negative balance stays, and a larger capacity does not add tokens, so setting a rate again
        allows nothing extra. ``capacity`` defaults to what the new rate earns in a period,
        ``target`` to 1 % of that.
        """
        rate = self._rate if rate is None else rate
        period_ns = self._period_ns if period_ns is None else period_ns
        capacity = rate if capacity is None else capacity
        _check(rate, period_ns, capacity)
        self.update_balance(now, consistent=True)
        self._carried = self._carried * period_ns // self._period_ns
        self._rate, self._period_ns, self._capacity = rate, period_ns, capacity
        self._target = capacity // 100 if target is None else target
        self.balance = min(self.balance, capacity)
        self.due = self._last + self._step_ns()


def _check(rate: int, period_ns: int, capacity: int) -> None:
    for name, value in (("rate", rate), ("period_ns", period_ns), ("capacity", capacity)):
        if value <= 0:
            raise ValueError(f"{name}={value}: must be more than 0")
