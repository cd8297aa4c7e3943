"""Settings of topics that are created because a client asks for them."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class AutoTopicCreation:
    """Whether a topic that is not there is created, and as what."""

    allowed: bool = option(
        True,
        conf="allowAutoTopicCreation",
        dynamic=True,
        why="whether producing or subscribing creates a topic that is not there",
    )
    kind: str = option(
        "non-partitioned",
        conf="allowAutoTopicCreationType",
        choices=("non-partitioned", "partitioned"),
        dynamic=True,
        why="what kind of topic is created automatically",
    )
    partitions: int = option(
        1,
        conf="defaultNumPartitions",
        unit="partitions",
        low=1,
        dynamic=True,
        why="partitions of a partitioned topic that is created automatically",
    )
