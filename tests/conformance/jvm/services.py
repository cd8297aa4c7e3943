"""Stand-ins for the broker that some of Pulsar's classes expect around them."""

from collections.abc import Callable, Mapping
from typing import Any

from jpype import JClass, JProxy

from tests.conformance.jvm.java import LOADBALANCE, NAMING, Java, Json

NAMESPACE_SERVICE = "org.apache.pulsar.broker.namespace.NamespaceService"
PULSAR_SERVICE = "org.apache.pulsar.broker.PulsarService"
RESOURCES = "org.apache.pulsar.broker.resources"
COMMON_POLICIES = "org.apache.pulsar.common.policies"
TOPIC_STATS = "org.apache.pulsar.common.policies.data.stats.TopicStatsImpl"


class BundleFactory:
    """Pulsar's NamespaceBundleFactory over a store that holds nothing; bundles are handed to it."""

    def __init__(self, java: Java) -> None:
        self._java = java
        store = JProxy(
            "org.apache.pulsar.metadata.api.extended.MetadataStoreExtended",
            dict={"registerListener": lambda _: None},
        )
        self._conf = java.configuration()
        pulsar = java.double(
            JClass(PULSAR_SERVICE),
            {"getLocalMetadataStore": lambda: store, "getConfiguration": lambda: self._conf},
        )
        hashing = JClass("com.google.common.hash.Hashing")
        factory = JClass(f"{NAMING}.NamespaceBundleFactory")
        self.factory = factory.createFactory(pulsar, hashing.crc32())
        self._cache = java.peek(self.factory, "bundlesCache")

    def bundles(self, namespace: str, boundaries: list[str]) -> Any:
        """NamespaceBundles with these boundaries, also what the factory finds from now on."""
        java = self._java
        name = JClass(f"{NAMING}.NamespaceName").get(namespace)
        data = JClass("org.apache.pulsar.common.policies.data.BundlesData").builder()
        listed = java.array_list()
        for boundary in boundaries:
            listed.add(java.string(boundary))
        data = data.boundaries(listed).numBundles(len(boundaries) - 1).build()
        made = self.factory.getBundles(name, data)
        self._cache.put(name, java.future.completedFuture(made))
        return made

    def bundle(self, text: str) -> Any:
        """The NamespaceBundle of this full name."""
        namespace, _, bounds = text.rpartition("/")
        return self.factory.getBundle(namespace, bounds)


def topic_stats(java: Java, topics: Json) -> Any:
    """TopicStats by topic, without those whose stats are null."""
    table = java.linked_map()
    for name, load in topics.items():
        if load is not None:
            stats = JClass(TOPIC_STATS)()
            for field, value in load.items():
                setattr(stats, field, value)
            table.put(name, stats)
    return table


def namespace_service(
    java: Java,
    factory: Any,
    conf: Any,
    topics_of: Callable[[Any], Json],
    count_of: Callable[[Any], int],
) -> tuple[Any, Any]:
    """A PulsarService and its NamespaceService over given topics and bundle counts."""

    def owned_topics(bundle: Any) -> Any:
        names = java.array_list()
        for name in topics_of(bundle):
            names.add(java.string(name))
        return java.future.completedFuture(names)

    service = java.double(
        JClass(NAMESPACE_SERVICE),
        {
            "getOwnedTopicListForNamespaceBundle": owned_topics,
            "getBundleCount": lambda namespace: java.integer(count_of(namespace)),
            "getNamespaceBundleFactory": lambda: factory,
        },
    )
    brokers = java.double(
        JClass("org.apache.pulsar.broker.service.BrokerService"),
        {"getTopicStats": lambda bundle: topic_stats(java, topics_of(bundle))},
    )
    pulsar = java.double(
        JClass(PULSAR_SERVICE),
        {
            "getConfiguration": lambda: conf,
            "getConfig": lambda: conf,
            "getNamespaceService": lambda: service,
            "getBrokerService": lambda: brokers,
        },
    )
    java.put(service, "config", conf)
    java.put(service, "pulsar", pulsar)
    return pulsar, service


def extensible_pulsar(java: Java, channel: Any, methods: Mapping[str, Callable[..., Any]]) -> Any:
    """A PulsarService under the extensible manager, over a bundle state channel."""
    extensions = f"{LOADBALANCE}.extensions"
    manager = java.double(
        JClass(f"{extensions}.ExtensibleLoadManagerImpl"),
        {"getServiceUnitStateChannel": lambda: channel},
    )
    wrapper = JClass(f"{extensions}.ExtensibleLoadManagerWrapper")(manager)
    reference = JClass("java.util.concurrent.atomic.AtomicReference")(wrapper)
    return java.double(JClass(PULSAR_SERVICE), {"getLoadManager": lambda: reference, **methods})


def policies_pulsar(
    java: Java,
    conf: Any,
    policies: Json,
    groups: Mapping[str, str],
    methods: Mapping[str, Callable[..., Any]],
) -> Any:
    """A PulsarService whose metadata hold these isolation policies and anti-affinity groups."""
    isolation = java.tree_map(
        java.read_map(policies, f"{COMMON_POLICIES}.data.NamespaceIsolationDataImpl")
    )
    found = java.optional.of(
        JClass(f"{COMMON_POLICIES}.impl.NamespaceIsolationPolicies")(isolation)
    )
    isolation_store = java.double(
        JClass(f"{RESOURCES}.NamespaceResources$IsolationPolicyResources"),
        {"getIsolationDataPolicies": lambda _: found},
    )
    namespaces = java.double(
        JClass(f"{RESOURCES}.NamespaceResources"), {"getIsolationPolicies": lambda: isolation_store}
    )

    def local_policies(namespace: Any) -> Any:
        group = groups.get(str(namespace))
        if group is None:
            return java.optional.empty()
        made = JClass(f"{COMMON_POLICIES}.data.LocalPolicies")(None, None, java.string(group))
        return java.optional.of(made)

    local = java.double(
        JClass(f"{RESOURCES}.LocalPoliciesResources"),
        {
            "getLocalPolicies": local_policies,
            "getLocalPoliciesAsync": lambda ns: java.future.completedFuture(local_policies(ns)),
        },
    )
    resources = java.double(
        JClass(f"{RESOURCES}.PulsarResources"),
        {"getNamespaceResources": lambda: namespaces, "getLocalPolicies": lambda: local},
    )
    return java.double(
        JClass(PULSAR_SERVICE),
        {"getConfiguration": lambda: conf, "getPulsarResources": lambda: resources, **methods},
    )
