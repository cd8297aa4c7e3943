"""``specified_positions_divide``: splits at given positions."""

from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.request import SplitPoints, SplitRequest, too_few_topics


def specified_positions_divide(request: SplitRequest, options: SplitOptions) -> SplitPoints:
    """The given positions that lie strictly inside the range, in ascending order.

    Parity: ``SpecifiedPositionsBundleSplitAlgorithm``; no positions at all is its
    IllegalArgumentException, here the rule ``no_positions``. Quirk kept: a position given twice
    stays twice, and the split itself is then refused.
    """
    del options
    if not request.positions:
        return SplitPoints((), "no_positions", "no positions were given; name at least one")
    if len(request.topics) <= 1:
        return too_few_topics(len(request.topics))
    lower, upper = request.bundle.lower, request.bundle.upper
    inside = tuple(sorted(point for point in request.positions if lower < point < upper))
    if not inside:
        return SplitPoints(
            (),
            "positions_outside",
            f"none of the positions given lies strictly inside {request.bundle}",
        )
    left_out = len(request.positions) - len(inside)
    also = f"; {left_out} outside the range were left out" if left_out else ""
    return SplitPoints(inside, "specified", f"{len(inside)} of the positions given{also}")
