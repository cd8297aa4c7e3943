"""Splitting bundles: where to cut one (the algorithms), and when (the tasks)."""

from counterpoise.decide.splitting.algorithms import ALGORITHMS, algorithm
from counterpoise.decide.splitting.extensible import (
    SplitMemory,
    SplitScope,
    find_own_bundles_to_split,
)
from counterpoise.decide.splitting.loads import BundleLoads
from counterpoise.decide.splitting.modular import find_bundles_to_split
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.request import (
    SplitAlgorithm,
    SplitPoints,
    SplitRequest,
    TopicLoad,
    TopicPoint,
    points_of,
)

__all__ = [
    "ALGORITHMS",
    "BundleLoads",
    "SplitAlgorithm",
    "SplitMemory",
    "SplitOptions",
    "SplitPoints",
    "SplitRequest",
    "SplitScope",
    "TopicLoad",
    "TopicPoint",
    "algorithm",
    "find_bundles_to_split",
    "find_own_bundles_to_split",
    "points_of",
]
