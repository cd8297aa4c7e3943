"""How long to wait before a failed command is repeated."""

from typing import Final

FIRST_S: Final = 0.05
LAST_S: Final = 2.0


def pause_s(failures: int) -> float:
    """Seconds to wait after so many consecutive failures: doubled each time, up to `LAST_S`."""
    return min(FIRST_S * 2.0 ** min(failures - 1, 16), LAST_S)
