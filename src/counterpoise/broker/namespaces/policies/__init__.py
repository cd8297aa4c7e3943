"""Clusters, tenants, namespaces and topics, as Pulsar keeps them in the metadata store.

Values are Pulsar's own JSON, passed through whole: a field that this product does not know
survives. Reading what is not there gives None; a write that does not fit raises the metadata
store's `NotFound` or `BadVersion` (it exists already, or another client has changed it meanwhile).
"""

from __future__ import annotations

from counterpoise.broker.namespaces.policies.applied import applied_policies
from counterpoise.broker.namespaces.policies.clusters import Clusters
from counterpoise.broker.namespaces.policies.dynamic import DynamicSettings
from counterpoise.broker.namespaces.policies.isolation import Isolation
from counterpoise.broker.namespaces.policies.namespaces import Namespaces
from counterpoise.broker.namespaces.policies.partitions import PartitionedTopics
from counterpoise.broker.namespaces.policies.records import JsonObject
from counterpoise.broker.namespaces.policies.resource_groups import ResourceGroupRecords
from counterpoise.broker.namespaces.policies.resource_quotas import ResourceQuotaRecords
from counterpoise.broker.namespaces.policies.tenants import Tenants
from counterpoise.broker.namespaces.policies.topic_policies import TopicPolicies
from counterpoise.broker.namespaces.policies.topics import Topics
from counterpoise.names.topic import TopicName


class Policies(
    Clusters,
    DynamicSettings,
    Isolation,
    Tenants,
    Namespaces,
    PartitionedTopics,
    ResourceGroupRecords,
    ResourceQuotaRecords,
    TopicPolicies,
    Topics,
):
    """All policies behind one name."""

    async def applied(self, topic: TopicName, cluster: str) -> JsonObject:
        """The policies that hold for a topic: its own, or else its namespace's."""
        own = await self.topic_policies(topic)
        return applied_policies(own, await self.namespace(topic.namespace_name), cluster)


__all__ = ["Policies"]
