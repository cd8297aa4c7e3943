"""What a split algorithm is given, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.names.bundle import BundleRange
from counterpoise.names.hashing import topic_hash


class TopicLoad(NamedTuple):
    """What a topic carries now: messages/s and bytes/s, in and out."""

    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0


class TopicPoint(NamedTuple):
    """A topic of the bundle by its place on the ring, and its load where known."""

    point: int
    load: TopicLoad | None = None


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """A bundle to cut, the topics it holds (in any order), and where a person wants the cuts.

    The algorithms trust the caller that the topics lie in the bundle, as Pulsar's do.
    """

    bundle: BundleRange
    topics: Sequence[TopicPoint] = ()
    positions: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class SplitPoints:
    """Where to cut; no boundary means no split. ``reason`` says why, as one sentence."""

    boundaries: tuple[int, ...]
    rule: str
    reason: str


class SplitAlgorithm(Protocol):
    """One way to cut a bundle."""

    def __call__(self, request: SplitRequest, options: SplitOptions) -> SplitPoints:
        """Choose the boundaries."""


def points_of(topics: Mapping[str, TopicLoad | None]) -> list[TopicPoint]:
    """Place complete topic names on the ring, in the order given."""
    return [TopicPoint(topic_hash(name), load) for name, load in topics.items()]


def too_few_topics(count: int) -> SplitPoints:
    """The answer for a bundle with one topic or none: a cut could not separate anything."""
    held = "one topic" if count == 1 else "no topics"
    return SplitPoints(
        (), "too_few_topics", f"the bundle holds {held}; a cut could not divide anything"
    )
