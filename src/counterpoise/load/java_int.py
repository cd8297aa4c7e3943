"""Java's integer conversions, for results that depend on truncation and overflow."""

import math
from typing import Final

INT_MAX: Final = 2**31 - 1
INT_MIN: Final = -(2**31)
LONG_MAX: Final = 2**63 - 1


def cast(value: float, largest: int = INT_MAX) -> int:
    """``(int) value``: truncated towards zero, limited to the type's range; NaN becomes 0.

    With ``LONG_MAX`` as ``largest`` it is ``(long) value``.
    """
    if math.isnan(value):
        return 0
    return int(min(max(value, -largest - 1), largest))


def add(left: int, right: int) -> int:
    """``left + right`` with overflow at 32 bits."""
    return (left + right - INT_MIN) % 2**32 + INT_MIN
