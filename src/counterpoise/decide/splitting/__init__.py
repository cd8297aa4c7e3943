"""Splitting bundles: where to cut one (the algorithms), and when (the tasks)."""

from counterpoise.decide.splitting.algorithms import ALGORITHMS, algorithm
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
    "SplitAlgorithm",
    "SplitOptions",
    "SplitPoints",
    "SplitRequest",
    "TopicLoad",
    "TopicPoint",
    "algorithm",
    "points_of",
]
