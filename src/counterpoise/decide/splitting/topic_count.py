"""``topic_count_equally_divide``: splits so that both parts have as many topics."""

from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.request import SplitPoints, SplitRequest, too_few_topics
from counterpoise.names.bundle import format_boundary


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
