"""The wall clock in milliseconds, as Pulsar uses it, and one that tests can advance."""

import time


def wall_clock_ms() -> int:
    """The present time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class WallClock:
    """The wall clock of one broker's topics, in seconds since 1970; tests can advance it."""

    __slots__ = ("_ahead_s",)

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def __call__(self) -> float:
        """Return the time, in seconds since 1970."""
        return time.time() + self._ahead_s

    def advance(self, seconds: float) -> None:
        """Move the clock forward by ``seconds``."""
        self._ahead_s += seconds
