"""Settings of what may be created: how many, and which topics because a client asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from counterpoise.names.options import option

PARTITIONS_MAX: Final = 10_000
"""Partitions of one topic: each is a node of the metadata store and a topic of its own. Pulsar's
``maxNumPartitionsPerPartitionedTopic`` has no limit by default."""


@dataclass(frozen=True, slots=True)
class CreationLimits:
    """How many tenants, namespaces, topics and partitions there may be; 0 is no limit."""

    tenants: int = option(
        0, conf="maxTenants", unit="tenants", low=0, dynamic=True, why="tenants of the cluster"
    )
    namespaces: int = option(
        0,
        conf="maxNamespacesPerTenant",
        unit="namespaces",
        low=0,
        dynamic=True,
        why="namespaces of a tenant",
    )
    topics: int = option(
        0,
        conf="maxTopicsPerNamespace",
        unit="topics",
        low=0,
        dynamic=True,
        why="persistent topics of a namespace, each partition counted",
    )
    partitions: int = option(
        0,
        conf="maxNumPartitionsPerPartitionedTopic",
        unit="partitions",
        low=0,
        high=PARTITIONS_MAX,
        dynamic=True,
        why="partitions of one topic",
    )


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
