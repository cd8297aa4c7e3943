"""The whole session, in the order in which it is played."""

from tests.admin.table import rows_of_cluster as cluster
from tests.admin.table import rows_of_namespaces as namespaces
from tests.admin.table import rows_of_topic_policies as topic_policies
from tests.admin.table import rows_of_topics as topics

SESSION = [
    *cluster.BROKERS,
    *cluster.TENANTS,
    *cluster.CLUSTERS,
    *namespaces.MADE,
    *cluster.RESOURCE_GROUPS,
    *cluster.ISOLATION,
    *namespaces.PERMISSIONS,
    *namespaces.POLICIES,
    *topics.MADE,
    *topics.SUBSCRIPTIONS,
    *cluster.BROKER_STATS,
    *topics.MESSAGES,
    *topics.SCHEMAS,
    *topic_policies.TOPIC_POLICIES,
    *namespaces.BUNDLES,
    *topics.ENDED,
    *namespaces.BACKLOG,
    *namespaces.DELETED,
    *cluster.SHUTDOWN,
]
