"""The wall clock, and how long a cluster may take to answer."""

import time
from typing import Final

HTTP_TIMEOUT_S: Final = 10.0


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
