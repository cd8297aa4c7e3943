"""Pulsar's paths in the metadata store.

Paths of ownership and leadership are with their protocols: `counterpoise.ownership`.
"""

from typing import Final

from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName

BROKERS: Final = "/loadbalance/brokers"
BUNDLE_DATA: Final = "/loadbalance/bundle-data"
RESOURCE_QUOTA: Final = "/loadbalance/resource-quota"
BROKER_TIME_AVERAGE: Final = "/loadbalance/broker-time-average"
CLUSTERS: Final = "/admin/clusters"
DYNAMIC_SETTINGS: Final = "/admin/configuration"
POLICIES: Final = "/admin/policies"
POLICIES_READ_ONLY: Final = "/admin/flags/policies-readonly"
"""Exists while an administrator forbids changes of policies."""
TOPIC_POLICIES: Final = "/admin/topic-policies"
RESOURCE_GROUPS: Final = "/admin/resourcegroups"
RESOURCE_USAGE: Final = "/counterpoise/resource-usage"
OWN_BROKERS: Final = "/counterpoise/brokers"
LEDGER_IDS: Final = "/counterpoise/ledger-ids"
LOCAL_POLICIES: Final = "/admin/local-policies"
PARTITIONED_TOPICS: Final = "/admin/partitioned-topics"
TOPICS: Final = "/managed-ledgers"
SCHEMAS: Final = "/schemas"
OWN_SCHEMAS: Final = "/counterpoise/schemas"
"""The path of schemas in a metadata store where `SCHEMAS` belongs to Pulsar's own brokers."""


def broker(broker_id: str) -> str:
    """The path of a broker's registration, which has its load report."""
    return f"{BROKERS}/{broker_id}"


def own_broker(broker_id: str) -> str:
    """The path of the node that marks a registered broker as one of Counterpoise."""
    return f"{OWN_BROKERS}/{broker_id}"


def bundle_data(bundle: str) -> str:
    """The path of a bundle's averaged load."""
    return f"{BUNDLE_DATA}/{bundle}"


def resource_quota(bundle: str) -> str:
    """The path of a bundle's resource quota; ``default``: that of bundles without their own."""
    return f"{RESOURCE_QUOTA}/{bundle}"


def time_average(broker_id: str) -> str:
    """The path of a broker's averaged load."""
    return f"{BROKER_TIME_AVERAGE}/{broker_id}"


def policies(namespace: NamespaceName) -> str:
    """The path of a namespace's policies that hold in every cluster."""
    return f"{POLICIES}/{namespace}"


def local_policies(namespace: NamespaceName) -> str:
    """The path of a namespace's policies in this cluster, such as its bundles."""
    return f"{LOCAL_POLICIES}/{namespace}"


def topic_policies(name: TopicName) -> str:
    """The path of a topic's own policies, which its partitions share."""
    whole = name.partitioned_name
    return f"{TOPIC_POLICIES}/{whole.namespace_name}/{whole.domain}/{whole.encoded_local_name}"


def resource_group(name: str) -> str:
    """The path of a resource group's definition."""
    return f"{RESOURCE_GROUPS}/{name}"


def group_usages(name: str) -> str:
    """The path below which brokers report their use of a resource group."""
    return f"{RESOURCE_USAGE}/{name}"


def group_usage(name: str, broker_id: str) -> str:
    """The path of one broker's use of a resource group."""
    return f"{group_usages(name)}/{broker_id}"


def partitioned_topics(namespace: NamespaceName, domain: str) -> str:
    """The path below which a namespace's partitioned topics of one domain are."""
    return f"{PARTITIONED_TOPICS}/{namespace}/{domain}"


def topics(namespace: NamespaceName) -> str:
    """The path below which a namespace's persistent topics are."""
    return f"{TOPICS}/{namespace}/persistent"


def topic(name: TopicName) -> str:
    """The path of a persistent topic."""
    return f"{topics(name.namespace_name)}/{name.encoded_local_name}"


def schemas(name: TopicName, root: str = SCHEMAS) -> str:
    """The path of a topic's schemas, which its partitions share."""
    whole = name.partitioned_name
    return f"{root}/{whole.namespace_name}/{whole.encoded_local_name}"
