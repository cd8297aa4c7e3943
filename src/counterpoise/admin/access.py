"""Which callers may call what: one row for each route of the admin API.

The rows are those of Pulsar 4.0.7, which asks the same question in each of its resources. A path is
matched with ``*`` for anything; the first row that matches counts, and a route that none matches is
not served. What a row asks for is looked up in `counterpoise.security.authorization`, by
`counterpoise.admin.permission`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from fnmatch import fnmatchcase
from functools import partial
from typing import Final


class Audience(Enum):
    """The callers that a route is for."""

    ANYBODY = auto()
    """Every caller, authenticated or not."""
    METRICS = auto()
    """Anybody, unless ``authenticateMetricsEndpoint``."""
    KNOWN = auto()
    """Every authenticated caller."""
    SUPER_USER = auto()
    BROKER = auto()
    """Super users, refused in the words of ``BrokerOperation``."""
    CLUSTER = auto()
    """Likewise, of ``ClusterOperation``."""
    CLUSTER_POLICY = auto()
    TENANTS = auto()
    """Likewise, of ``TenantOperation``."""
    TENANT_ITSELF = auto()
    """The administrators of the tenant in the path, in the same words."""
    TENANT_ADMIN = auto()
    """The administrators of the tenant in the path."""
    TENANT = auto()
    """Likewise, refused in the words of ``TenantOperation``."""
    NAMESPACE_POLICY = auto()
    """Likewise, refused in the words of ``PolicyOperation``."""
    TOPIC_POLICY = auto()
    NAMESPACE = auto()
    """Roles that were granted a ``NamespaceOperation``."""
    TOPIC = auto()
    """Roles that were granted a ``TopicOperation``."""


@dataclass(frozen=True, slots=True)
class AccessRule:
    """What a route asks of its caller."""

    audience: Audience
    operation: str = ""
    after: AccessRule | None = None
    """What is asked for before this: it decides in which words a caller is refused."""


_ANYBODY: Final = AccessRule(Audience.ANYBODY)
_KNOWN: Final = AccessRule(Audience.KNOWN)
_SUPER: Final = AccessRule(Audience.SUPER_USER)
_ADMIN: Final = AccessRule(Audience.TENANT_ADMIN)
_NS_POLICY: Final = AccessRule(Audience.NAMESPACE_POLICY)
_TOPIC_POLICY: Final = AccessRule(Audience.TOPIC_POLICY)


_broker: Final = partial(AccessRule, Audience.BROKER)
_cluster: Final = partial(AccessRule, Audience.CLUSTER)
_tenant_itself: Final = partial(AccessRule, Audience.TENANT_ITSELF)
_tenant: Final = partial(AccessRule, Audience.TENANT)
_namespace: Final = partial(AccessRule, Audience.NAMESPACE)
_topic: Final = partial(AccessRule, Audience.TOPIC)

_LOOK: Final = _topic("LOOKUP")
_BROKERS: Final = "/admin/v2/brokers"
_SETTINGS: Final = f"{_BROKERS}/configuration"
_CLUSTER: Final = "/admin/v2/clusters/{cluster}"
_NS: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_LIST: Final = "/admin/v2/{domain}/{tenant}/{namespace}"
_TOPIC: Final = f"{_LIST}/{{topic}}"
_SUB: Final = f"{_TOPIC}/subscription/{{subscription}}"
_SCHEMAS: Final = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"

TABLE: Final[tuple[tuple[str, str, AccessRule], ...]] = (
    ("GET", "/status.html", _ANYBODY),
    ("GET", "/metrics*", AccessRule(Audience.METRICS)),
    ("GET", "/admin/v2/openapi.json", _KNOWN),
    ("GET", f"{_BROKERS}/ready", _KNOWN),
    ("GET", f"{_BROKERS}/version", _KNOWN),
    ("GET", f"{_SETTINGS}/runtime", _broker("LIST_RUNTIME_CONFIGURATIONS")),
    ("GET", f"{_SETTINGS}*", _broker("LIST_DYNAMIC_CONFIGURATIONS")),
    ("POST", f"{_SETTINGS}/*", _broker("UPDATE_DYNAMIC_CONFIGURATION")),
    ("DELETE", f"{_SETTINGS}/*", _broker("DELETE_DYNAMIC_CONFIGURATION")),
    ("GET", f"{_BROKERS}/leaderBroker", _broker("GET_LEADER_BROKER")),
    ("GET", f"{_BROKERS}/health", _broker("HEALTH_CHECK")),
    ("POST", f"{_BROKERS}/shutdown", _broker("SHUTDOWN")),
    ("GET", f"{_BROKERS}/backlog-quota-check", _broker("CHECK_BACKLOG_QUOTA")),
    ("GET", f"{_BROKERS}/internal-configuration", _broker("GET_INTERNAL_CONFIGURATION_DATA")),
    ("GET", f"{_BROKERS}/*/ownedNamespaces", _broker("LIST_OWNED_NAMESPACES")),
    ("GET", f"{_BROKERS}*", _broker("LIST_BROKERS")),
    ("GET", "/admin/v2/broker-stats/*", _SUPER),
    ("GET", "/admin/v2/clusters", _KNOWN),
    ("GET", _CLUSTER, _cluster("GET_CLUSTER")),
    ("PUT", _CLUSTER, _cluster("CREATE_CLUSTER")),
    ("POST", _CLUSTER, _cluster("UPDATE_CLUSTER")),
    ("DELETE", _CLUSTER, _cluster("DELETE_CLUSTER")),
    ("GET", f"{_CLUSTER}/peers", _cluster("GET_PEER_CLUSTER")),
    ("POST", f"{_CLUSTER}/peers", _cluster("UPDATE_PEER_CLUSTER")),
    ("*", f"{_CLUSTER}/namespaceIsolationPolicies*", AccessRule(Audience.CLUSTER_POLICY)),
    ("GET", f"{_CLUSTER}/failureDomains*", _cluster("GET_FAILURE_DOMAIN")),
    ("POST", f"{_CLUSTER}/failureDomains/*", _cluster("UPDATE_FAILURE_DOMAIN")),
    ("DELETE", f"{_CLUSTER}/failureDomains/*", _cluster("DELETE_FAILURE_DOMAIN")),
    ("GET", "/admin/v2/tenants", AccessRule(Audience.TENANTS, "LIST_TENANTS")),
    ("GET", "/admin/v2/tenants/{tenant}", _tenant_itself("GET_TENANT")),
    ("PUT", "/admin/v2/tenants/{tenant}", _tenant_itself("CREATE_TENANT")),
    ("POST", "/admin/v2/tenants/{tenant}", _tenant_itself("UPDATE_TENANT")),
    ("DELETE", "/admin/v2/tenants/{tenant}", _tenant_itself("DELETE_TENANT")),
    ("*", "/admin/v2/resourcegroups*", _SUPER),
    ("*", "/admin/v2/resource-quotas*", _SUPER),
    ("GET", "/admin/*namespaces/{cluster}/antiAffinity/{group}", _SUPER),
    ("GET", "/admin/v2/namespaces/{tenant}", _tenant("LIST_NAMESPACES")),
    ("GET", _NS, _NS_POLICY),
    ("PUT", _NS, _tenant("CREATE_NAMESPACE")),
    ("DELETE", _NS, _tenant("DELETE_NAMESPACE")),
    ("GET", f"{_NS}/topics", _namespace("GET_TOPICS")),
    ("GET", f"{_NS}/bundles", _namespace("GET_BUNDLE")),
    ("PUT", f"{_NS}/unload", _SUPER),
    ("PUT", f"{_NS}/{{bundle}}/unload", _SUPER),
    ("PUT", f"{_NS}/{{bundle}}/split", _SUPER),
    ("GET", f"{_NS}/{{bundle}}/topicHashPositions", _NS_POLICY),
    ("DELETE", f"{_NS}/{{bundle}}", _namespace("DELETE_BUNDLE")),
    ("POST", f"{_NS}/*clearBacklog*", _namespace("CLEAR_BACKLOG")),
    ("POST", f"{_NS}/*unsubscribe/*", _namespace("UNSUBSCRIBE")),
    ("GET", f"{_NS}/permissions", _namespace("GET_PERMISSION")),
    ("POST", f"{_NS}/permissions/{{role}}", _namespace("GRANT_PERMISSION")),
    ("DELETE", f"{_NS}/permissions/{{role}}", _namespace("REVOKE_PERMISSION")),
    ("GET", f"{_NS}/permissions/subscription", _namespace("GET_PERMISSION")),
    ("POST", f"{_NS}/permissions/subscription/{{subscription}}", _namespace("GRANT_PERMISSION")),
    (
        "DELETE",
        f"{_NS}/permissions/{{subscription}}/{{role}}",
        _namespace("REVOKE_PERMISSION"),
    ),
    ("*", f"{_NS}/propert*", _ADMIN),
    ("POST", f"{_NS}/delayedDelivery", _SUPER),
    ("DELETE", f"{_NS}/delayedDelivery", _SUPER),
    ("*", f"{_NS}/*", _NS_POLICY),
    ("GET", f"{_SCHEMAS}/*", _topic("GET_METADATA")),
    ("POST", f"{_SCHEMAS}/schema", _topic("PRODUCE")),
    ("POST", f"{_SCHEMAS}/version", _topic("GET_METADATA")),
    ("*", f"{_SCHEMAS}/*", _ADMIN),
    ("GET", "/lookup/v2/*/bundle", _namespace("GET_BUNDLE")),
    ("GET", "/lookup/v2/*", _LOOK),
    ("GET", _LIST, _namespace("GET_TOPICS")),
    ("GET", f"{_LIST}/partitioned", _namespace("GET_TOPICS")),
    ("GET", "/admin/v2/non-persistent/{tenant}/{namespace}/{bundle}", _namespace("GET_BUNDLE")),
    ("*", f"{_TOPIC}/permissions*", _ADMIN),
    ("GET", f"{_TOPIC}/partitions", _LOOK),
    ("PUT", f"{_TOPIC}/partitions", _TOPIC_POLICY),
    ("POST", f"{_TOPIC}/partitions", _TOPIC_POLICY),
    ("DELETE", f"{_TOPIC}/partitions", _namespace("DELETE_TOPIC")),
    (
        "POST",
        f"{_TOPIC}/createMissedPartitions",
        AccessRule(Audience.NAMESPACE, "CREATE_TOPIC", after=_LOOK),
    ),
    ("PUT", _TOPIC, _namespace("CREATE_TOPIC")),
    ("DELETE", _TOPIC, _namespace("DELETE_TOPIC")),
    ("PUT", f"{_TOPIC}/unload", _topic("UNLOAD")),
    ("GET", f"{_TOPIC}/*tats", _topic("GET_STATS")),
    ("GET", f"{_TOPIC}/properties", _topic("GET_METADATA")),
    ("PUT", f"{_TOPIC}/properties", _topic("UPDATE_METADATA")),
    ("DELETE", f"{_TOPIC}/properties", _topic("DELETE_METADATA")),
    ("GET", f"{_TOPIC}/internal-info", _topic("GET_STATS")),
    ("PUT", f"{_TOPIC}/backlogSize", _topic("GET_BACKLOG_SIZE")),
    ("POST", f"{_TOPIC}/trim", _topic("TRIM_TOPIC")),
    ("POST", f"{_TOPIC}/terminate*", _topic("TERMINATE")),
    ("*", f"{_TOPIC}/compaction", _topic("COMPACT")),
    ("GET", f"{_SUB}/properties", _topic("CONSUME")),
    ("PUT", f"{_SUB}/properties", _topic("SUBSCRIBE")),
    ("POST", f"{_SUB}/analyzeBacklog", _topic("CONSUME")),
    ("GET", f"{_TOPIC}/lastMessageId", _topic("PEEK_MESSAGES")),
    ("GET", f"{_TOPIC}/examinemessage", _topic("PEEK_MESSAGES")),
    ("GET", f"{_TOPIC}/ledger/*", _topic("PEEK_MESSAGES")),
    ("GET", f"{_TOPIC}/messageid/*", _topic("PEEK_MESSAGES")),
    ("GET", f"{_SUB}/position/*", _topic("PEEK_MESSAGES")),
    ("POST", f"{_TOPIC}/*expireMessages/*", _topic("EXPIRE_MESSAGES")),
    ("DELETE", f"{_TOPIC}/truncate", AccessRule(Audience.TENANT_ADMIN, after=_LOOK)),
    ("GET", f"{_TOPIC}/subscriptions", _topic("GET_SUBSCRIPTIONS")),
    ("PUT", _SUB, _topic("SUBSCRIBE")),
    ("DELETE", _SUB, _topic("UNSUBSCRIBE")),
    ("POST", f"{_SUB}/skip*", _topic("SKIP")),
    ("POST", f"{_SUB}/resetcursor*", _topic("RESET_CURSOR")),
    ("*", f"{_TOPIC}/maxMessageSize", _ADMIN),
    ("*", f"{_TOPIC}/*", _TOPIC_POLICY),
)


def rule_of(method: str, path: str) -> AccessRule:
    """What a route asks for; ``path`` as OpenAPI writes it. Raises KeyError if no row says so."""
    for verbs, pattern, rule in TABLE:
        if verbs in ("*", method) and fnmatchcase(path, pattern):
            return rule
    raise KeyError(f"admin/access.py has no row for {method} {path}")


def word_of(path: str) -> str:
    """The last word of a route that is no name: ``messageTTL``; empty if there is none."""
    words = [each for each in path.split("/")[5:] if not each.startswith("{")]
    return words[-1] if words else ""
