"""The wall clock, its possible error, and a limit on how long a cluster may take to respond."""

import time
from typing import Final

EVER: Final = 2**62
"""Milliseconds since 1970, later than any poll."""
HTTP_TIMEOUT_S: Final = 10.0
CLOCKS_DIFFER_MS: Final = 60_000
"""By how much clocks of machines may differ without a consequence."""


def wall_clock_ms() -> int:
    """The time now, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
