"""Orders bundles by load as Pulsar does: figures are rounded to steps before they are compared.

Each key sorts as the ``compareTo`` of the class it is named after; a larger key is a busier bundle.
"""

import math
from typing import Final

from counterpoise.load.average import BundleData, TimeAverageMessageData
from counterpoise.load.java_int import LONG_MAX, cast
from counterpoise.load.report import NamespaceBundleStats

THROUGHPUT_STEP: Final = 1e5
"""Bytes/s that make one step: bundles are ranked by figures rounded down to whole steps."""
RATE_STEP: Final = 100.0
"""Messages/s that make one step."""
CLIENTS_STEP: Final = 500
"""How many topics, consumers or producers make one step."""
CACHE_STEP: Final = 100_000
"""Bytes in the cache that make one step."""

Key = tuple[int, ...]


def stats_key(stats: NamespaceBundleStats) -> Key:
    """Sort key that orders bundles as ``NamespaceBundleStats.compareTo``: by each figure, rounded
    to steps.

    Figures are rounded half up: Java compares differences instead, which is no consistent order.
    """
    clients = stats.topics + stats.consumer_count + stats.producer_count
    return (
        _round(stats.msg_throughput_in / THROUGHPUT_STEP),
        _round(stats.msg_throughput_out / THROUGHPUT_STEP),
        _round((stats.msg_rate_in + stats.msg_rate_out) / RATE_STEP),
        clients // CLIENTS_STEP,
        stats.cache_size // CACHE_STEP,
    )


def average_key(average: TimeAverageMessageData) -> Key:
    """Sort key in the order of ``TimeAverageMessageData.compareTo``: figures in whole steps."""
    return (
        cast(average.msg_throughput_in / THROUGHPUT_STEP, LONG_MAX),
        cast(average.msg_throughput_out / THROUGHPUT_STEP, LONG_MAX),
        cast((average.msg_rate_in + average.msg_rate_out) / RATE_STEP, LONG_MAX),
    )


def bundle_key(bundle: BundleData) -> Key:
    """Sort key that orders bundles as ``BundleData.compareTo``: first the short-term average."""
    return average_key(bundle.short_term_data) + average_key(bundle.long_term_data)


def _round(value: float) -> int:
    """Round half up, as Java's ``Math.round`` does."""
    if not math.isfinite(value):
        return cast(value, LONG_MAX)
    floor = math.floor(value)
    return min(max(floor + (value - floor >= 0.5), -LONG_MAX - 1), LONG_MAX)
