"""The wall clock in Pulsar's unit."""

import time


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
