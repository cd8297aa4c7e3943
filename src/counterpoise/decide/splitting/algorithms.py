"""The split algorithms, and the names that configuration and the admin API give them."""

from collections.abc import Mapping

from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.request import (
    SplitAlgorithm,
    SplitPoints,
    SplitRequest,
    too_few_topics,
)
from counterpoise.decide.splitting.traffic import flow_or_qps_equally_divide
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


def topic_count_equally_divide(request: SplitRequest, options: SplitOptions) -> SplitPoints:
    """One boundary halfway between the two topics in the middle; none for one topic or none.

    Parity: ``TopicCountEquallyDivideBundleSplitAlgorithm``. Of an odd number of topics the right
    part gets one more. Quirk kept: two middle topics at the same or neighbouring points are not
    separated, since the boundary is then the left one's own point and belongs to the right part.
    """
    del options
    points = sorted(topic.point for topic in request.topics)
    count = len(points)
    if count <= 1:
        return too_few_topics(count)
    left = points[max(count // 2 - 1, 0)]
    right = points[count // 2]
    boundary = left + (right - left) // 2
    before = sum(point < boundary for point in points)
    return SplitPoints(
        (boundary,),
        "middle_of_topics",
        f"{format_boundary(boundary)} leaves {before} topics left and {count - before} right",
    )


ALGORITHMS: Mapping[str, SplitAlgorithm] = {
    "range_equally_divide": range_equally_divide,
    "topic_count_equally_divide": topic_count_equally_divide,
    "specified_positions_divide": specified_positions_divide,
    "flow_or_qps_equally_divide": flow_or_qps_equally_divide,
}


def algorithm(name: str | None, options: SplitOptions) -> SplitAlgorithm:
    """The algorithm of this name; the configured default for none or an unknown one.

    As in Pulsar, except that the flow algorithm works whatever the default is, where Pulsar 4.0.7
    responds with a ClassCastException unless flow is the configured default.
    """
    return (
        ALGORITHMS.get(name or "")
        or ALGORITHMS.get(options.default_algorithm)
        or range_equally_divide
    )
