"""Figures of publish limits: who waits at which, and how long was waited altogether."""

from __future__ import annotations

from collections.abc import Iterator

from counterpoise.admin.metrics.figure import Figure, cluster_of, figures_of
from counterpoise.broker.face import BrokerFace


def figures(broker: BrokerFace) -> Iterator[Figure]:
    """A limit that nobody ever reached is not told of one by one."""
    cluster, limits = cluster_of(broker), broker.topics.limits.seen()
    throttled = {each.address for limit in limits for each in limit.producers}
    yield Figure("pulsar_broker_throttled_connections", cluster, float(len(throttled)))
    for limit in limits:
        if limit.times:
            yield from figures_of(
                "counterpoise_publish_limit_",
                (*cluster, ("level", limit.level), ("subject", limit.subject)),
                (
                    ("waits_total", limit.times),
                    ("waited_seconds_total", limit.seconds),
                    ("waiting_producers", len(limit.producers)),
                    ("held_entries", sum(each.held_entries for each in limit.producers)),
                    ("held_bytes", sum(each.held_bytes for each in limit.producers)),
                ),
            )
