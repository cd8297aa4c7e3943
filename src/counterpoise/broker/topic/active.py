"""Who is active among the consumers of a Failover subscription: a pure choice."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from counterpoise.names.hashing import murmur3_32

_POINTS = 100


def active_index(
    consumers: Sequence[tuple[int, str]],
    topic: str,
    partition: int,
    *,
    consistent_hashing: bool = False,
) -> int:
    """Index of the active one among ``consumers``: (priority level, name) in order of joining.

    As ``AbstractDispatcherSingleActiveConsumer``: only the best priority (lowest number) counts,
    sorted by name. A partition takes its turn by number; an unpartitioned topic (or any topic
    with ``activeConsumerFailoverConsistentHashing``) falls on a ring of 100 points a consumer.
    """
    best = min(priority for priority, _ in consumers)
    group = sorted(
        (i for i, (priority, _) in enumerate(consumers) if priority == best),
        key=lambda i: consumers[i][1],
    )
    if partition >= 0 and not consistent_hashing:
        return group[partition % len(group)]
    if len(group) == 1:
        return group[0]
    ring: dict[int, int] = {}
    for i in group:
        for point in range(_POINTS):
            ring[murmur3_32(f"{consumers[i][1]}{point}".encode())] = i
    points = sorted(ring)
    return ring[points[bisect_left(points, murmur3_32(topic.encode())) % len(points)]]
