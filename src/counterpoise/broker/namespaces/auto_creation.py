"""Settings of topics that are created because a client asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from counterpoise.names.options import option

PARTITIONS_MAX: Final = 10_000
"""Partitions of one topic: each is a node of the metadata store and a topic of its own. Pulsar's
``maxNumPartitionsPerPartitionedTopic`` has no limit by default."""


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
        high=PARTITIONS_MAX,
        dynamic=True,
        why="partitions of a partitioned topic that is created automatically",
    )
