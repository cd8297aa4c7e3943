"""Creates what every cluster needs before its first client."""

import contextlib
from typing import Final

from counterpoise.broker.base.addresses import Addresses
from counterpoise.broker.namespaces.policies import Policies, bundles_json
from counterpoise.metadata import BadVersion
from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.namespace import SYSTEM_NAMESPACE, NamespaceName
from counterpoise.names.system_topics import SERVICE_UNIT_STATE, TRANSACTION_COORDINATORS
from counterpoise.names.topic import TopicName

DEFAULT_NAMESPACE: Final = NamespaceName("public", "default")
_CLUSTER_TLS: Final = {
    "brokerClientTlsTrustStoreType": "JKS",
    "brokerClientTlsKeyStoreType": "JKS",
    "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
}
"""The fields of ``ClusterData`` that Pulsar's initialisation writes besides the addresses."""


async def bootstrap(
    policies: Policies,
    cluster_name: str,
    bundles: int,
    addresses: Addresses,
    *,
    extensible: bool,
    coordinators: int = 0,
) -> None:
    """Create the cluster, and the tenants and namespaces that Pulsar's initialisation creates.

    ``bundles``: how many in each namespace; ``extensible``: whether brokers run the extensible load
    manager; ``coordinators``: the number of transaction coordinators. Any broker may run it at any
    time: what exists stays as it is.
    """
    urls = {
        "serviceUrl": addresses.web_url,
        "serviceUrlTls": addresses.web_url_tls,
        "brokerServiceUrl": addresses.service_url,
        "brokerServiceUrlTls": addresses.service_url_tls,
    }
    cluster = {name: url for name, url in urls.items() if url is not None} | _CLUSTER_TLS
    with contextlib.suppress(BadVersion):
        await policies.cluster(cluster_name).create(cluster)
    for namespace in (DEFAULT_NAMESPACE, SYSTEM_NAMESPACE):
        tenant = {"adminRoles": [], "allowedClusters": [cluster_name]}
        with contextlib.suppress(BadVersion):
            await policies.tenant_node(namespace.tenant).create(tenant)
        with contextlib.suppress(BadVersion):
            await create_namespace(policies, namespace, cluster_name, bundles)
    if extensible:
        # Created here, not on first use: clients may not be allowed to create topics.
        state = TopicName.parse(SERVICE_UNIT_STATE)
        if not await policies.topic_exists(state):
            await policies.create_topic(state)
    if coordinators:
        with contextlib.suppress(BadVersion):
            assignment = TopicName.parse(TRANSACTION_COORDINATORS)
            await policies.create_partitioned_topic(assignment, coordinators)


async def create_namespace(
    policies: Policies, name: NamespaceName, cluster_name: str, bundles: int
) -> None:
    """Create a namespace without policies; raises `BadVersion` if it exists."""
    cut = NamespaceBundles.of_count(name, bundles)
    new = {"replication_clusters": [cluster_name], "bundles": bundles_json(cut)}
    await policies.shared_policies(name).create(new)
