"""Permits a request of the admin API, or refuses it in Pulsar's words."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from counterpoise.admin.access import AccessRule, Audience
from counterpoise.admin.errors import RestError, not_found
from counterpoise.admin.request import topic_in
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.security.authorization import (
    Authorization,
    Caller,
    SubscriptionRefused,
    TenantMissing,
)

_WORDS: Final[dict[str, str]] = {
    "TTL": "messageTTL",
    "SUBSCRIPTION_EXPIRATION_TIME": "subscriptionExpirationTime",
    "DEDUPLICATION": "deduplication deduplicationEnabled",
    "DEDUPLICATION_SNAPSHOT": "deduplicationSnapshotInterval",
    "AUTO_TOPIC_CREATION": "autoTopicCreation",
    "AUTO_SUBSCRIPTION_CREATION": "autoSubscriptionCreation",
    "RATE": "publishRate dispatchRate subscriptionDispatchRate subscribeRate",
    "REPLICATION_RATE": "replicatorDispatchRate",
    "RETENTION": "retention",
    "PERSISTENCE": "persistence topicHashPositions",
    "SUBSCRIPTION_AUTH_MODE": "subscriptionAuthMode subscriptionTypesEnabled",
    "ENCRYPTION": "encryptionRequired",
    "DELAYED_DELIVERY": "delayedDelivery",
    "INACTIVE_TOPIC": "inactiveTopicPolicies",
    "MAX_PRODUCERS": "maxProducersPerTopic maxProducers policies",
    "MAX_CONSUMERS": "maxConsumersPerTopic maxConsumers maxConsumersPerSubscription",
    "MAX_UNACKED": "maxUnackedMessagesPerConsumer maxUnackedMessagesPerSubscription "
    "maxUnackedMessagesOnConsumer maxUnackedMessagesOnSubscription",
    "MAX_SUBSCRIPTIONS": "maxSubscriptionsPerTopic",
    "MAX_TOPICS": "maxTopicsPerNamespace",
    "COMPACTION": "compactionThreshold",
    "OFFLOAD": "offloadThreshold offloadDeletionLagMs offloadPolicies "
    "removeOffloadPolicies offloadThresholdInSeconds",
    "SCHEMA_COMPATIBILITY_STRATEGY": "schemaCompatibilityStrategy schemaValidationEnforced "
    "schemaAutoUpdateCompatibilityStrategy isAllowAutoUpdateSchema",
    "REPLICATION": "replication",
    "ALLOW_CLUSTERS": "allowedClusters",
    "ENTRY_FILTERS": "entryFilters",
    "DISPATCHER_PAUSE_ON_ACK_STATE_PERSISTENT": "dispatcherPauseOnAckStatePersistent",
    "BACKLOG": "backlogQuotaMap backlogQuota",
    "ANTI_AFFINITY": "antiAffinity",
    "RESOURCEGROUP": "resourcegroup",
    "PARTITION": "partitions",
}
POLICY_NAMES: Final[dict[str, str]] = {
    "": "ALL",
    **{word: name for name, words in _WORDS.items() for word in words.split()},
}
"""Pulsar's ``PolicyName``, such as ``RETENTION``, by the word in a route's path (see `word_of`)."""


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """The parts of a request by which it is decided whether its caller may make it."""

    method: str
    parameters: dict[str, str]
    """The values of the parameters in its path, by name."""
    word: str
    """The last fixed word of its route's path (`word_of`)."""
    broker: str
    """The id of the broker that gets the request."""

    @property
    def verb(self) -> str:
        """``READ`` or ``WRITE``: what it does to a policy (Pulsar's ``PolicyOperation``)."""
        return "READ" if self.method == "GET" else "WRITE"

    @property
    def policy(self) -> str:
        """Pulsar's ``PolicyName`` of the policy that the request is about."""
        return POLICY_NAMES.get(self.word, self.word)

    @property
    def namespace(self) -> NamespaceName:
        """The namespace in the request's path."""
        return NamespaceName(self.parameters["tenant"], self.parameters["namespace"])

    @property
    def topic(self) -> TopicName:
        """The topic in the request's path."""
        return topic_in(self.parameters)


async def permit(
    rules: Authorization, caller: Caller, rule: AccessRule, access: AccessRequest
) -> None:
    """Return if the caller is permitted to make this request; raises `RestError` if not.

    Not called if authorization is disabled.
    """
    if rule.audience in (Audience.ANYBODY, Audience.METRICS, Audience.KNOWN):
        return
    if rules.is_proxy(caller.role) and not caller.original:
        raise RestError(
            HTTPStatus.UNAUTHORIZED,
            "Invalid combination of Original principal cannot be empty if the request is via "
            "proxy.",
        )
    if rule.after is not None:
        await permit(rules, caller, rule.after, access)
    try:
        allowed = await _is_allowed(rules, caller, rule, access)
    except TenantMissing:
        if rule.audience is not Audience.TENANT_ITSELF:
            raise not_found("Tenant does not exist") from None
        allowed = False
    except SubscriptionRefused as error:
        raise RestError(HTTPStatus.UNAUTHORIZED, str(error)) from None
    if not allowed:
        status, words = _REFUSALS[rule.audience]
        reason = words.format(
            rule=rule, access=access, role=caller.role, original=caller.original or "null"
        )
        raise RestError(status, reason)


async def _is_allowed(
    rules: Authorization, caller: Caller, rule: AccessRule, access: AccessRequest
) -> bool:
    match rule.audience:
        case (
            Audience.SUPER_USER
            | Audience.BROKER
            | Audience.CLUSTER
            | Audience.CLUSTER_POLICY
            | Audience.TENANTS
        ):
            return await rules.super_user(caller)
        case Audience.NAMESPACE:
            return await rules.namespace(caller, access.namespace, rule.operation)
        case Audience.TOPIC:
            subscription = access.parameters.get("subscription")
            return await rules.topic(caller, access.topic, rule.operation, subscription)
        case _:
            return await rules.tenant_admin(caller, access.parameters["tenant"])


_WHO: Final = "for originalPrincipal [{original}] and clientAppId [{role}] about operation "
_SUPERUSER_AND: Final = f"Unauthorized to validateBothSuperuserAnd%s {_WHO}"
_TENANT_AND_SUPERUSER: Final = (
    HTTPStatus.UNAUTHORIZED,
    # The space at its end is Pulsar's.
    f"Unauthorized to validateBothTenantOperationAndSuperUser {_WHO}[{{rule.operation}}] ",
)
_OPERATION: Final = "for operation [{rule.operation}] on "
_POLICY: Final = "for operation [{access.verb}] on "
_REFUSALS: Final[dict[Audience, tuple[HTTPStatus, str]]] = {
    Audience.SUPER_USER: (HTTPStatus.UNAUTHORIZED, "This operation requires super-user access"),
    Audience.BROKER: (
        HTTPStatus.UNAUTHORIZED,
        _SUPERUSER_AND % "BrokerOperation" + "[{rule.operation}] on broker [{access.broker}]",
    ),
    Audience.CLUSTER: (
        HTTPStatus.UNAUTHORIZED,
        _SUPERUSER_AND % "ClusterOperation"
        + "[{rule.operation}] on cluster [{access.parameters[cluster]}]",
    ),
    Audience.CLUSTER_POLICY: (
        HTTPStatus.UNAUTHORIZED,
        _SUPERUSER_AND % "ClusterPolicyOperation"
        + "[{access.verb}] on cluster [{access.parameters[cluster]}]",
    ),
    Audience.TENANTS: _TENANT_AND_SUPERUSER,
    Audience.TENANT_ITSELF: _TENANT_AND_SUPERUSER,
    Audience.TENANT_ADMIN: (
        HTTPStatus.UNAUTHORIZED,
        "Don't have permission to administrate resources on this tenant",
    ),
    Audience.TENANT: (
        HTTPStatus.UNAUTHORIZED,
        f"Unauthorized to validateTenantOperation {_WHO}"
        "[{rule.operation}] on tenant [{access.parameters[tenant]}]",
    ),
    Audience.NAMESPACE: (
        HTTPStatus.FORBIDDEN,
        f"Unauthorized to validateNamespaceOperation {_OPERATION}namespace [{{access.namespace}}]",
    ),
    Audience.NAMESPACE_POLICY: (
        HTTPStatus.FORBIDDEN,
        f"Unauthorized to validateNamespacePolicyOperation {_POLICY}"
        "namespace [{access.namespace}] on policy [{access.policy}]",
    ),
    Audience.TOPIC: (
        HTTPStatus.UNAUTHORIZED,
        f"Unauthorized to validateTopicOperation {_OPERATION}topic [{{access.topic}}]",
    ),
    Audience.TOPIC_POLICY: (
        HTTPStatus.FORBIDDEN,
        f"Unauthorized to validateTopicPolicyOperation {_POLICY}"
        "topic [{access.topic}] on policy [{access.policy}]",
    ),
}
"""The status and the reason with which Pulsar refuses a caller who is not in the audience."""
