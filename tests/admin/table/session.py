"""The whole session, in the order in which it is played, and what is not played at all."""

from collections.abc import Mapping

from tests.admin.table import rows_of_cluster as cluster
from tests.admin.table import rows_of_namespaces as namespaces
from tests.admin.table import rows_of_topic_policies as topic_policies
from tests.admin.table import rows_of_topics as topics

SESSION = [
    *cluster.BROKERS,
    *cluster.CLUSTERS,
    *cluster.TENANTS,
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

_TIERED = "there is no tiered storage"
_BOOKIES = "there are no bookies"
NOT_HERE: Mapping[str, str] = {
    "namespaces set-bookie-affinity-group": _BOOKIES,
    "namespaces get-bookie-affinity-group": _BOOKIES,
    "namespaces delete-bookie-affinity-group": _BOOKIES,
    "namespaces set-offload-policies": _TIERED,
    "namespaces get-offload-policies": _TIERED,
    "namespaces remove-offload-policies": _TIERED,
    "namespaces set-offload-deletion-lag": _TIERED,
    "namespaces get-offload-deletion-lag": _TIERED,
    "namespaces clear-offload-deletion-lag": _TIERED,
    "namespaces update-migration-state": "no cluster is migrated to another",
    "topics set-offload-policies": _TIERED,
    "topics get-offload-policies": _TIERED,
    "topics remove-offload-policies": _TIERED,
    "topicPolicies set-offload-policies": _TIERED,
    "topicPolicies get-offload-policies": _TIERED,
    "topicPolicies remove-offload-policies": _TIERED,
}
"""Commands that do not apply, and why."""
