"""The wall clock, how far clocks may differ, and the default time-out of requests to a cluster."""

import time
from typing import Final

EVER: Final = 2**62
"""A time later than any poll, in milliseconds since 1970."""
HTTP_TIMEOUT_S: Final = 10.0
CLOCKS_DIFFER_MS: Final = 60_000
"""The largest difference between the clocks of two machines that is tolerated."""


def wall_clock_ms() -> int:
    """The time now, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
