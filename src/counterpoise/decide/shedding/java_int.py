"""Java's 32-bit integers, for strategies whose result depends on truncation and overflow."""

import math
from typing import Final

INT_MAX: Final = 2**31 - 1
INT_MIN: Final = -(2**31)


def cast(value: float) -> int:
    """``(int) value``: truncated towards zero, limited to the range of an int; NaN becomes 0."""
    if math.isnan(value):
        return 0
    return int(min(max(value, INT_MIN), INT_MAX))


def add(left: int, right: int) -> int:
    """``left + right`` with overflow at 32 bits."""
    return (left + right - INT_MIN) % 2**32 + INT_MIN
