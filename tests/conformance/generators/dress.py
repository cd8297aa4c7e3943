"""The same data as other writers would put it: fields missing or unknown, whole numbers, "NaN"."""

import math
from random import Random
from typing import Any

# Fields that both sides give the same default when they are missing.
_OPTIONAL = frozenset(
    "webServiceUrl lastUpdate numTopics numBundles memory directMemory bandwidthIn msgRateIn "
    "msgThroughputOut recentlyUnloadedBundles recentlyUnloadedBrokers topics cacheSize "
    "consumerCount msgThroughputEMA reportedAt bundleCount timeAverageData".split()
)


def dressed(rng: Random, value: Any) -> Any:
    """For about a quarter of the values a variant of the same meaning; the value itself else."""
    return _dress(rng, value) if rng.random() < 0.25 else value


def _dress(rng: Random, value: Any) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        rng.shuffle(items)
        made = {
            key: _dress(rng, item)
            for key, item in items
            if key not in _OPTIONAL or rng.random() < 0.9
        }
        if "usage" not in value and "cpu" in value and rng.random() < 0.1:
            made["addedInALaterVersion"] = {"a": [1, None]}
        return made
    if isinstance(value, list):
        return [_dress(rng, item) for item in value]
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return _SPELLED[str(value)] if rng.random() < 0.5 else value
        if value.is_integer() and abs(value) < 2**53 and math.copysign(1, value) > 0:
            return int(value)
    return value


_SPELLED = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
