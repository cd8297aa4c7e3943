"""``range_equally_divide``: splits the range in the middle, wherever its topics are."""

from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.request import SplitPoints, SplitRequest
from counterpoise.names.bundle import format_boundary


def range_equally_divide(request: SplitRequest, options: SplitOptions) -> SplitPoints:
    """One boundary in the middle of the range: lower + (upper - lower) div 2.

    Parity: ``RangeEquallyDivideBundleSplitAlgorithm``. Topics are ignored.
    """
    del options
    lower, upper = request.bundle.lower, request.bundle.upper
    middle = lower + (upper - lower) // 2
    return SplitPoints(
        (middle,), "middle_of_range", f"{format_boundary(middle)} is the middle of the range"
    )
