"""Reads and writes clusters, tenants, namespaces and topics, as Pulsar stores them in the metadata
store.

Values are Pulsar's own JSON; fields that this product does not know are kept. Reading a missing
node gives None. Writing raises the metadata store's `NotFound` for a missing node, and `BadVersion`
if the node exists already or another client has changed it since it was read.
"""

import contextlib
from collections.abc import Mapping
from urllib.parse import unquote_plus

from counterpoise.broker.base import paths
from counterpoise.broker.namespaces.policies.applied import applied_policies
from counterpoise.broker.namespaces.policies.records import JsonNode, JsonObject, read_object
from counterpoise.broker.namespaces.policies.topics import StoredTopics
from counterpoise.metadata import MetadataStore, NotEmpty, NotFound
from counterpoise.metadata.cache import MetadataCache
from counterpoise.metadata.port import parent_of
from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import NON_PERSISTENT, PERSISTENT, TopicName
from counterpoise.storage.topic_record import JsonTopics, TopicCodec

_JSON = JsonTopics()


class Policies(StoredTopics):
    """Reads and writes all policies and topic records; each JSON node is a `JsonNode`."""

    def __init__(self, store: MetadataStore, topics: TopicCodec = _JSON) -> None:
        """``topics`` reads and writes topics' nodes in the format that the ledger store needs."""
        super().__init__(store, topics)
        self._cache = MetadataCache(store, "/admin/", read_object)
        self._quotas = MetadataCache(store, f"{paths.RESOURCE_QUOTA}/", read_object)

    def _node(self, path: str) -> JsonNode:
        return JsonNode(self._store, self._cache, path)

    async def clusters(self) -> list[str]:
        """The names of the known clusters, this one included, sorted."""
        return await self._store.children(paths.CLUSTERS)

    def cluster(self, name: str) -> JsonNode:
        """The node of a cluster's ``ClusterData``."""
        return self._node(f"{paths.CLUSTERS}/{name}")

    async def delete_cluster(self, name: str) -> None:
        """Delete a cluster, its isolation policies and its failure domains."""
        for domain in await self.failure_domain_names(name):
            await self.failure_domain(name, domain).delete(missing_ok=True)
        for node in (self._failure_domains(name), self.isolation_policies(name)):
            await node.delete(missing_ok=True)
        await self.cluster(name).delete()

    def isolation_policies(self, cluster: str) -> JsonNode:
        """The node of a cluster's isolation policies: ``NamespaceIsolationDataImpl`` by name."""
        return self._node(f"{paths.CLUSTERS}/{cluster}/namespaceIsolationPolicies")

    def _failure_domains(self, cluster: str) -> JsonNode:
        return self._node(f"{paths.CLUSTERS}/{cluster}/failureDomain")

    async def failure_domain_names(self, cluster: str) -> list[str]:
        """The names of a cluster's failure domains, sorted."""
        return await self._store.children(self._failure_domains(cluster).path)

    def failure_domain(self, cluster: str, domain: str) -> JsonNode:
        """The node of a failure domain: its brokers (``FailureDomainImpl``)."""
        return self._node(f"{self._failure_domains(cluster).path}/{domain}")

    async def failure_domains(self, cluster: str) -> dict[str, str]:
        """Each broker's failure domain; brokers without one are absent."""
        found: dict[str, str] = {}
        for name in await self.failure_domain_names(cluster):
            domain = await self.failure_domain(cluster, name).get() or {}
            found |= {str(broker): name for broker in domain.get("brokers") or ()}
        return found

    async def dynamic_settings(self) -> dict[str, str]:
        """The cluster's dynamic configuration: values as text by Pulsar's names."""
        found = await self._node(paths.DYNAMIC_SETTINGS).get() or {}
        return {name: str(value) for name, value in found.items()}

    async def set_dynamic_setting(self, name: str, value: str | None) -> None:
        """Set one dynamic setting; None restores the value with which each broker was started."""
        given = {} if value is None else {name: value}
        await self._node(paths.DYNAMIC_SETTINGS).change(
            lambda found: {**{each: found[each] for each in found if each != name}, **given},
            create=True,
        )

    async def policies_read_only(self) -> bool:
        """Whether an administrator forbids changes of policies; raises `MetadataError`."""
        return await self._store.get(paths.POLICIES_READ_ONLY) is not None

    async def tenants(self) -> list[str]:
        """The names of the tenants, sorted."""
        return await self._store.children(paths.POLICIES)

    def tenant_node(self, name: str) -> JsonNode:
        """The node of a tenant's ``TenantInfo``; its namespaces are below it."""
        return self._node(f"{paths.POLICIES}/{name}")

    async def tenant(self, name: str) -> JsonObject | None:
        """A tenant's ``TenantInfo``; None if there is no such tenant."""
        return await self.tenant_node(name).get()

    async def delete_tenant(self, name: str) -> None:
        """Delete a tenant, and the nodes that were its namespaces' parents; raises `NotFound`, and
        `NotEmpty` while it has namespaces.
        """
        await self.tenant_node(name).delete()
        above = (paths.TOPICS, paths.PARTITIONED_TOPICS, paths.LOCAL_POLICIES, paths.BUNDLE_DATA)
        for each in above:
            # A tenant of this name may be there again; the leader deletes bundles' data.
            with contextlib.suppress(NotEmpty):
                await self._node(f"{each}/{name}").delete(missing_ok=True)

    async def namespaces(self, tenant: str) -> list[NamespaceName]:
        """The namespaces of a tenant, sorted."""
        names = await self._store.children(self.tenant_node(tenant).path)
        return [NamespaceName(tenant, local) for local in names]

    async def all_namespaces(self) -> list[NamespaceName]:
        """The namespaces of all tenants, sorted."""
        return [each for tenant in await self.tenants() for each in await self.namespaces(tenant)]

    def shared_policies(self, name: NamespaceName) -> JsonNode:
        """The node of a namespace's ``Policies``, which hold in every cluster."""
        return self._node(paths.policies(name))

    def local_policies(self, name: NamespaceName) -> JsonNode:
        """The node of a namespace's ``LocalPolicies`` of this cluster, such as its bundles."""
        return self._node(paths.local_policies(name))

    async def namespace(self, name: NamespaceName) -> JsonObject | None:
        """A namespace's ``Policies``, with ``bundles`` from its local policies; None if missing."""
        policies = await self.shared_policies(name).get()
        local = None if policies is None else await self.local_policies(name).get()
        if policies is None or local is None or not local.get("bundles"):
            return policies
        return {**policies, "bundles": local["bundles"]}

    async def share_bundles(self, bundles: NamespaceBundles) -> None:
        """Write a namespace's bundles into the policies that all clusters share."""
        await self.shared_policies(bundles.namespace).change(
            lambda policies: {**policies, "bundles": bundles_json(bundles)}
        )

    async def anti_affinity_group(self, name: NamespaceName) -> str | None:
        """A namespace's anti-affinity group, whose namespaces should not share brokers."""
        local = await self.local_policies(name).get() or {}
        return str(local.get("namespaceAntiAffinityGroup") or "").strip() or None

    async def delete_namespace(self, name: NamespaceName) -> None:
        """Delete a namespace with its nodes; raises `NotEmpty` while it has topics."""
        if not await self._store.exists(paths.policies(name)):
            raise NotFound(paths.policies(name))
        for path in (
            paths.partitioned_topics(name, PERSISTENT),
            paths.partitioned_topics(name, NON_PERSISTENT),
            f"{paths.PARTITIONED_TOPICS}/{name}",
            paths.topics(name),
            f"{paths.TOPICS}/{name}",
            paths.local_policies(name),
        ):
            await self._node(path).delete(missing_ok=True)
        await self.shared_policies(name).delete()

    async def partitioned_topics(self, namespace: NamespaceName, domain: str) -> list[TopicName]:
        """A namespace's partitioned topics of one domain, sorted."""
        names = await self._store.children(paths.partitioned_topics(namespace, domain))
        tenant, local = namespace.tenant, namespace.local
        return sorted(TopicName(domain, tenant, local, unquote_plus(name)) for name in names)

    def partitioned_topic(self, topic: TopicName) -> JsonNode:
        """The node of a topic's ``PartitionedTopicMetadata``: ``{"partitions": n, …}``."""
        below = paths.partitioned_topics(topic.namespace_name, topic.domain)
        return self._node(f"{below}/{topic.encoded_local_name}")

    async def create_partitioned_topic(
        self, topic: TopicName, partitions: int, properties: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic partitioned; raises `BadVersion` if it already is."""
        value = {"partitions": partitions, "properties": dict(properties or {}), "deleted": False}
        await self.partitioned_topic(topic).create(value)

    def topic_policies(self, topic: TopicName) -> JsonNode:
        """The node of a topic's own ``TopicPolicies``; those of a partitioned topic apply to its
        partitions.

        Pulsar stores them in a compacted topic of each namespace (``__change_events``); here they
        are in the metadata store, which notifies brokers of changes.
        """
        return self._node(paths.topic_policies(topic))

    def schemas(self, topic: TopicName, root: str) -> JsonNode:
        """The node of a topic's schemas."""
        return self._node(paths.schemas(topic, root))

    async def applied(self, topic: TopicName, cluster: str) -> JsonObject:
        """The policies in force for a topic: its own, or else its namespace's."""
        own, node = None, self.topic_policies(topic)
        # Most namespaces have no topic with policies: the parent, read once, shows that for all.
        if await self._node(parent_of(node.path)).get() is not None:
            own = await node.get()
        return applied_policies(own, await self.namespace(topic.namespace_name), cluster)

    async def resource_groups(self) -> list[str]:
        """The names of the resource groups, sorted."""
        return await self._store.children(paths.RESOURCE_GROUPS)

    def resource_group_node(self, name: str) -> JsonNode:
        """The node of a resource group's definition (``ResourceGroup``)."""
        return self._node(paths.resource_group(name))

    async def resource_group(self, name: str) -> JsonObject | None:
        """A resource group's definition; None if it does not exist."""
        return await self.resource_group_node(name).get()

    async def delete_resource_group(self, name: str) -> None:
        """Delete a resource group; raises `NotFound` if it does not exist."""
        await self.resource_group_node(name).delete()
        # Each broker deletes its report of its use when it no longer serves the group.
        await self._node(paths.group_usages(name)).delete(missing_ok=True)

    def resource_quota(self, bundle: str = "default") -> JsonNode:
        """The node of the load that a bundle is expected to have until it is reported
        (``ResourceQuota``).

        ``default`` is for all bundles that have none.
        """
        return JsonNode(self._store, self._quotas, paths.resource_quota(bundle))


def bundles_json(bundles: NamespaceBundles) -> JsonObject:
    """A namespace's bundles as ``BundlesData``, in which policies and local policies have them."""
    return {"boundaries": bundles.boundary_texts, "numBundles": len(bundles.boundaries) - 1}


def local_policies_json(bundles: NamespaceBundles) -> JsonObject:
    """The ``LocalPolicies`` of a namespace with nothing but these bundles."""
    return {"bundles": bundles_json(bundles), "migrated": False}


__all__ = ["Policies", "bundles_json", "local_policies_json"]
