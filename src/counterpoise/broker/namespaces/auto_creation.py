"""Settings for creating and deleting tenants, namespaces and topics."""

from dataclasses import dataclass
from typing import Final

from counterpoise.names.options import option

PARTITIONS_MAX: Final = 10_000
"""The most partitions of one topic, since each is a node of the metadata store and a topic of its
own. Pulsar's ``maxNumPartitionsPerPartitionedTopic`` has no limit by default."""


@dataclass(frozen=True, slots=True)
class CreationLimits:
    """Settings for how many tenants, namespaces, topics and partitions may exist; 0: no limit."""

    tenants: int = option(0, "maxTenants", "tenants", low=0, dynamic=True)
    """How many tenants the cluster may have; 0: no limit."""
    namespaces: int = option(0, "maxNamespacesPerTenant", "namespaces", low=0, dynamic=True)
    """How many namespaces a tenant may have; 0: no limit."""
    topics: int = option(0, "maxTopicsPerNamespace", "topics", low=0, dynamic=True)
    """How many persistent topics a namespace may have, each partition counted; 0: no limit."""
    partitions: int = option(
        0,
        "maxNumPartitionsPerPartitionedTopic",
        "partitions",
        low=0,
        high=PARTITIONS_MAX,
        dynamic=True,
    )
    """How many partitions a topic may have; 0: no limit."""


@dataclass(frozen=True, slots=True)
class ForcedDeletion:
    """Whether a tenant or a namespace may be deleted with all that it contains."""

    tenants: bool = option(False, "forceDeleteTenantAllowed", dynamic=True)
    """Whether ``force=true`` deletes a tenant with its namespaces; forceDeleteNamespaceAllowed has
    to be set, too."""
    namespaces: bool = option(False, "forceDeleteNamespaceAllowed", dynamic=True)
    """Whether ``force=true`` deletes a namespace with its topics."""


@dataclass(frozen=True, slots=True)
class AutoTopicCreation:
    """Whether a missing topic is created on use, and of which type."""

    allowed: bool = option(True, "allowAutoTopicCreation", dynamic=True)
    """Whether producing or subscribing creates a topic that does not exist."""
    kind: str = option(
        "non-partitioned",
        "allowAutoTopicCreationType",
        choices=("non-partitioned", "partitioned"),
        dynamic=True,
    )
    """What kind of topic is created automatically."""
    partitions: int = option(
        1, "defaultNumPartitions", "partitions", low=1, high=PARTITIONS_MAX, dynamic=True
    )
    """How many partitions a partitioned topic gets that is created automatically."""
