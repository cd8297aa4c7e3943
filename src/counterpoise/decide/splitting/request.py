"""The input and the result of a split algorithm."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.load.topic_loads import TopicLoad
from counterpoise.names.bundle import BundleRange
from counterpoise.names.hashing import topic_hash


class TopicPoint(NamedTuple):
    """A topic's hash, by which it belongs to a bundle, and its load if known."""

    point: int
    load: TopicLoad | None = None


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """The bundle to split, its topics in any order, and the positions that a person specified.

    As in Pulsar, algorithms do not check that the topics are in the bundle.
    """

    bundle: BundleRange
    topics: Sequence[TopicPoint] = ()
    positions: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class SplitPoints:
    """The boundaries to split at; none means no split. ``reason`` explains it in a sentence."""

    boundaries: tuple[int, ...]
    rule: str
    reason: str


SplitAlgorithm = Callable[[SplitRequest, SplitOptions], SplitPoints]
"""Returns the hashes at which to cut a bundle."""


def points_of(topics: Mapping[str, TopicLoad | None]) -> list[TopicPoint]:
    """The hash of each topic, with its load, in the order given."""
    return [TopicPoint(topic_hash(name), load) for name, load in topics.items()]


def too_few_topics(count: int) -> SplitPoints:
    """The result for a bundle with at most one topic: a split could not separate anything."""
    held = "one topic" if count == 1 else "no topics"
    return SplitPoints(
        (), "too_few_topics", f"the bundle holds {held}; a split could not divide anything"
    )
