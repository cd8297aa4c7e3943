"""Who may call what: one row for each route of the admin API.

The rows are those of Pulsar 4.0.7, which asks the same question in each of its resources. A path is
matched with ``*`` for anything; the first row that matches counts, and a route that none matches is
not served. What a row asks for is looked up in `counterpoise.security.authorization`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Final

from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.security.authorization import Authorization, Caller, SubscriptionRefused


class Kind(Enum):
    """Whom a route is for."""

    ANYBODY = auto()
    """Even those who do not say who they are."""
    METRICS = auto()
    """Anybody, unless ``authenticateMetricsEndpoint``."""
    KNOWN = auto()
    """Whoever proves who they are."""
    SUPER_USER = auto()
    TENANT_ADMIN = auto()
    """The administrators of the tenant in the path."""
    TENANT = auto()
    """Likewise, told in the words of ``TenantOperation``."""
    NAMESPACE_POLICY = auto()
    """Likewise, told in the words of ``PolicyOperation``."""
    TOPIC_POLICY = auto()
    NAMESPACE = auto()
    """Roles that were granted a ``NamespaceOperation``."""
    TOPIC = auto()
    """Roles that were granted a ``TopicOperation``."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a route asks of its caller."""

    kind: Kind
    operation: str = ""


class Denied(Exception):
    """A caller that may not; the status and the words are Pulsar's."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


_ANYBODY: Final = Need(Kind.ANYBODY)
_KNOWN: Final = Need(Kind.KNOWN)
_SUPER: Final = Need(Kind.SUPER_USER)
_ADMIN: Final = Need(Kind.TENANT_ADMIN)
_NS_POLICY: Final = Need(Kind.NAMESPACE_POLICY)
_TOPIC_POLICY: Final = Need(Kind.TOPIC_POLICY)


def _tenant(operation: str) -> Need:
    return Need(Kind.TENANT, operation)


def _namespace(operation: str) -> Need:
    return Need(Kind.NAMESPACE, operation)


def _topic(operation: str) -> Need:
    return Need(Kind.TOPIC, operation)


_NS: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_LIST: Final = "/admin/v2/{domain}/{tenant}/{namespace}"
_TOPIC: Final = f"{_LIST}/{{topic}}"
_SUB: Final = f"{_TOPIC}/subscription/{{subscription}}"
_SCHEMAS: Final = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"

TABLE: Final[tuple[tuple[str, str, Need], ...]] = (
    ("GET", "/status.html", _ANYBODY),
    ("GET", "/metrics*", Need(Kind.METRICS)),
    ("GET", "/admin/v2/openapi.json", _KNOWN),
    ("GET", "/admin/v2/brokers/ready", _KNOWN),
    ("GET", "/admin/v2/brokers/version", _KNOWN),
    ("*", "/admin/v2/brokers*", _SUPER),
    ("GET", "/admin/v2/broker-stats/*", _SUPER),
    ("GET", "/admin/v2/clusters", _KNOWN),
    ("*", "/admin/v2/clusters/*", _SUPER),
    ("GET", "/admin/v2/tenants", _SUPER),
    ("GET", "/admin/v2/tenants/{tenant}", _tenant("GET_TENANT")),
    ("PUT", "/admin/v2/tenants/{tenant}", _SUPER),
    ("POST", "/admin/v2/tenants/{tenant}", _tenant("UPDATE_TENANT")),
    ("DELETE", "/admin/v2/tenants/{tenant}", _tenant("DELETE_TENANT")),
    ("*", "/admin/v2/resourcegroups*", _SUPER),
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
    ("GET", "/lookup/v2/*", _topic("LOOKUP")),
    ("GET", _LIST, _namespace("GET_TOPICS")),
    ("GET", f"{_LIST}/partitioned", _namespace("GET_TOPICS")),
    ("*", f"{_TOPIC}/permissions*", _ADMIN),
    ("GET", f"{_TOPIC}/partitions", _topic("LOOKUP")),
    ("PUT", f"{_TOPIC}/partitions", _namespace("CREATE_TOPIC")),
    ("POST", f"{_TOPIC}/partitions", _TOPIC_POLICY),
    ("DELETE", f"{_TOPIC}/partitions", _namespace("DELETE_TOPIC")),
    ("POST", f"{_TOPIC}/createMissedPartitions", _namespace("CREATE_TOPIC")),
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
    ("*", f"{_SUB}/properties", _topic("CONSUME")),
    ("POST", f"{_SUB}/analyzeBacklog", _topic("CONSUME")),
    ("GET", f"{_TOPIC}/lastMessageId", _topic("PEEK_MESSAGES")),
    ("GET", f"{_TOPIC}/examinemessage", _topic("PEEK_MESSAGES")),
    ("GET", f"{_TOPIC}/ledger/*", _topic("PEEK_MESSAGES")),
    ("GET", f"{_TOPIC}/messageid/*", _topic("PEEK_MESSAGES")),
    ("GET", f"{_SUB}/position/*", _topic("PEEK_MESSAGES")),
    ("POST", f"{_TOPIC}/*expireMessages/*", _topic("EXPIRE_MESSAGES")),
    ("DELETE", f"{_TOPIC}/truncate", _ADMIN),
    ("GET", f"{_TOPIC}/subscriptions", _topic("GET_SUBSCRIPTIONS")),
    ("PUT", _SUB, _topic("SUBSCRIBE")),
    ("DELETE", _SUB, _topic("UNSUBSCRIBE")),
    ("POST", f"{_SUB}/skip*", _topic("SKIP")),
    ("POST", f"{_SUB}/resetcursor*", _topic("RESET_CURSOR")),
    ("*", f"{_TOPIC}/maxMessageSize", _ADMIN),
    ("*", f"{_TOPIC}/*", _TOPIC_POLICY),
)

POLICY_NAMES: Final[dict[str, str]] = {
    "": "ALL",
    "messageTTL": "TTL",
    "subscriptionExpirationTime": "SUBSCRIPTION_EXPIRATION_TIME",
    "deduplication": "DEDUPLICATION",
    "deduplicationEnabled": "DEDUPLICATION",
    "deduplicationSnapshotInterval": "DEDUPLICATION_SNAPSHOT",
    "autoTopicCreation": "AUTO_TOPIC_CREATION",
    "autoSubscriptionCreation": "AUTO_SUBSCRIPTION_CREATION",
    **dict.fromkeys(
        ("publishRate", "dispatchRate", "subscriptionDispatchRate", "subscribeRate"), "RATE"
    ),
    "replicatorDispatchRate": "REPLICATION_RATE",
    "retention": "RETENTION",
    "persistence": "PERSISTENCE",
    "topicHashPositions": "PERSISTENCE",
    "subscriptionAuthMode": "SUBSCRIPTION_AUTH_MODE",
    "subscriptionTypesEnabled": "SUBSCRIPTION_AUTH_MODE",
    "encryptionRequired": "ENCRYPTION",
    "delayedDelivery": "DELAYED_DELIVERY",
    "inactiveTopicPolicies": "INACTIVE_TOPIC",
    **dict.fromkeys(("maxProducersPerTopic", "maxProducers", "policies"), "MAX_PRODUCERS"),
    **dict.fromkeys(
        ("maxConsumersPerTopic", "maxConsumers", "maxConsumersPerSubscription"), "MAX_CONSUMERS"
    ),
    **dict.fromkeys(
        (
            *("maxUnackedMessagesPerConsumer", "maxUnackedMessagesPerSubscription"),
            *("maxUnackedMessagesOnConsumer", "maxUnackedMessagesOnSubscription"),
        ),
        "MAX_UNACKED",
    ),
    "maxSubscriptionsPerTopic": "MAX_SUBSCRIPTIONS",
    "maxTopicsPerNamespace": "MAX_TOPICS",
    "compactionThreshold": "COMPACTION",
    "offloadThreshold": "OFFLOAD",
    "offloadThresholdInSeconds": "OFFLOAD",
    **dict.fromkeys(
        (
            *("schemaCompatibilityStrategy", "schemaAutoUpdateCompatibilityStrategy"),
            *("isAllowAutoUpdateSchema", "schemaValidationEnforced"),
        ),
        "SCHEMA_COMPATIBILITY_STRATEGY",
    ),
    "replication": "REPLICATION",
    "allowedClusters": "ALLOW_CLUSTERS",
    "entryFilters": "ENTRY_FILTERS",
    "dispatcherPauseOnAckStatePersistent": "DISPATCHER_PAUSE_ON_ACK_STATE_PERSISTENT",
    "backlogQuotaMap": "BACKLOG",
    "backlogQuota": "BACKLOG",
    "antiAffinity": "ANTI_AFFINITY",
    "resourcegroup": "RESOURCEGROUP",
    "partitions": "PARTITION",
}
"""``PolicyName``, by the word of the path."""


def need_of(method: str, path: str) -> Need:
    """What a route asks for; ``path`` as OpenAPI writes it. Raises KeyError if no row says so."""
    for verbs, pattern, need in TABLE:
        if verbs in ("*", method) and fnmatchcase(path, pattern):
            return need
    raise KeyError(f"admin/access.py has no row for {method} {path}")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as far as it decides who may make it."""

    method: str
    parameters: dict[str, str]
    """The names in its path."""
    word: str
    """The last word of its route that is no name: ``messageTTL``; empty if there is none."""

    @property
    def namespace(self) -> NamespaceName:
        """The namespace that it names."""
        return NamespaceName(self.parameters["tenant"], self.parameters["namespace"])

    @property
    def topic(self) -> TopicName:
        """The topic that it names."""
        names = self.parameters
        domain = names.get("domain", "persistent")
        return TopicName(domain, names["tenant"], names["namespace"], names["topic"])


async def permit(rules: Authorization, caller: Caller, need: Need, asked: Asked) -> None:
    """Return if somebody may make a request; raises `Denied`."""
    if not rules.enabled or need.kind in (Kind.ANYBODY, Kind.METRICS, Kind.KNOWN):
        return
    if rules.is_proxy(caller.role) and not caller.original:
        raise Denied(
            HTTPStatus.UNAUTHORIZED,
            "Invalid combination of Original principal cannot be empty if the request is via "
            "proxy.",
        )
    match need.kind:
        case Kind.SUPER_USER:
            allowed = await rules.super_user(caller)
        case Kind.NAMESPACE:
            allowed = await rules.namespace(caller, asked.namespace, need.operation)
        case Kind.TOPIC:
            subscription = asked.parameters.get("subscription")
            try:
                allowed = await rules.topic(caller, asked.topic, need.operation, subscription)
            except SubscriptionRefused as error:
                raise Denied(HTTPStatus.UNAUTHORIZED, str(error)) from None
        case _:
            allowed = await rules.tenant_admin(caller, asked.parameters["tenant"])
    if not allowed:
        raise _denied(caller, need, asked)


def _denied(caller: Caller, need: Need, asked: Asked) -> Denied:
    policy = (
        f"for operation [{'READ' if asked.method == 'GET' else 'WRITE'}] on "
        "{} on policy [" + POLICY_NAMES.get(asked.word, asked.word) + "]"
    )
    match need.kind:
        case Kind.SUPER_USER:
            told = "This operation requires super-user access"
        case Kind.TENANT:
            told = (
                f"Unauthorized to validateTenantOperation for originalPrincipal "
                f"[{caller.original or 'null'}] and clientAppId [{caller.role}] about operation "
                f"[{need.operation}] on tenant [{asked.parameters['tenant']}]"
            )
        case Kind.NAMESPACE:
            told = (
                f"Unauthorized to validateNamespaceOperation for operation [{need.operation}] on "
                f"namespace [{asked.namespace}]"
            )
            return Denied(HTTPStatus.FORBIDDEN, told)
        case Kind.NAMESPACE_POLICY:
            told = "Unauthorized to validateNamespacePolicyOperation " + policy.format(
                f"namespace [{asked.namespace}]"
            )
            return Denied(HTTPStatus.FORBIDDEN, told)
        case Kind.TOPIC_POLICY:
            told = "Unauthorized to validateTopicPolicyOperation " + policy.format(
                f"topic [{asked.topic}]"
            )
            return Denied(HTTPStatus.FORBIDDEN, told)
        case Kind.TOPIC:
            told = (
                f"Unauthorized to validateTopicOperation for operation [{need.operation}] on topic "
                f"[{asked.topic}]"
            )
        case _:
            told = "Don't have permission to administrate resources on this tenant"
    return Denied(HTTPStatus.UNAUTHORIZED, told)
