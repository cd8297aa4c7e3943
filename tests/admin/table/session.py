"""The sessions, each on a cluster of its own, in the order in which they are played."""

from collections.abc import Mapping

from tests.admin.table import rows_of_cluster as cluster
from tests.admin.table import rows_of_namespaces as namespaces
from tests.admin.table import rows_of_topic_policies as topic_policies
from tests.admin.table import rows_of_topics as topics
from tests.admin.table import rows_of_transactions as transactions
from tests.admin.table.row import Row

EVERYDAY = [
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

SESSIONS: tuple[tuple[list[Row], Mapping[str, str]], ...] = (
    (EVERYDAY, {}),
    (transactions.TRANSACTIONS, transactions.SETTINGS),
)
"""Each with the settings that its cluster has."""
SESSION = [row for each, _ in SESSIONS for row in each]
