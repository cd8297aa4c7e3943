"""Java's 32-bit integers, where a strategy's outcome depends on how they cut, saturate and wrap."""

import math
from typing import Final

INT_MAX: Final = 2**31 - 1
INT_MIN: Final = -(2**31)


def cast(value: float) -> int:
    """``(int) value``: cut towards zero, held at the ends of the range, NaN to 0."""
    if math.isnan(value):
        return 0
    return int(min(max(value, INT_MIN), INT_MAX))


def add(left: int, right: int) -> int:
    """``left + right``, wrapped at 32 bits."""
    return (left + right - INT_MIN) % 2**32 + INT_MIN
