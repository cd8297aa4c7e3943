"""What every cluster has before it answers its first client."""

from __future__ import annotations

import contextlib
from typing import Final

from counterpoise.broker.config import BrokerConfig
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.broker.namespaces.policies.namespaces import bundles_json
from counterpoise.broker.server_sockets import Addresses
from counterpoise.metadata import BadVersion
from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.load_managers import EXTENSIBLE
from counterpoise.names.namespace import SYSTEM_NAMESPACE, NamespaceName
from counterpoise.names.system_topics import SERVICE_UNIT_STATE
from counterpoise.names.topic import TopicName

DEFAULT_NAMESPACE: Final = NamespaceName("public", "default")


async def bootstrap(policies: Policies, config: BrokerConfig, addresses: Addresses) -> None:
    """Create the cluster, and the tenants and namespaces that Pulsar's initialisation creates.

    Any broker may do it at any time: what is there already stays as it is.
    """
    urls = {
        "serviceUrl": addresses.web_url,
        "serviceUrlTls": addresses.web_url_tls,
        "brokerServiceUrl": addresses.service_url,
        "brokerServiceUrlTls": addresses.service_url_tls,
    }
    cluster = {name: url for name, url in urls.items() if url is not None}
    with contextlib.suppress(BadVersion):
        await policies.put_cluster(config.cluster_name, cluster, create=True)
    for namespace in (DEFAULT_NAMESPACE, SYSTEM_NAMESPACE):
        tenant = {"adminRoles": [], "allowedClusters": [config.cluster_name]}
        with contextlib.suppress(BadVersion):
            await policies.put_tenant(namespace.tenant, tenant, create=True)
        bundles = NamespaceBundles.of_count(namespace, config.default_number_of_namespace_bundles)
        new = {"replication_clusters": [config.cluster_name], "bundles": bundles_json(bundles)}
        with contextlib.suppress(BadVersion):
            await policies.create_namespace(namespace, new)
    if config.filters.load_manager_class == EXTENSIBLE:
        # Here, and not when a client asks first: clients may not be allowed to create topics.
        state = TopicName.parse(SERVICE_UNIT_STATE)
        if not await policies.topic_exists(state):
            await policies.create_topic(state)
