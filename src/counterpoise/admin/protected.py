"""Refuses to change policies while they are read-only, and the brokers' own topics at all times."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Final

from counterpoise.admin.errors import RestError
from counterpoise.admin.request import topic_in
from counterpoise.broker.face import Broker
from counterpoise.names.namespace import SYSTEM_NAMESPACE
from counterpoise.names.system_topics import SERVICE_UNIT_STATE
from counterpoise.names.topic import TopicName
from counterpoise.security.authorization import Caller

_NS: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_CLUSTER: Final = "/admin/v2/clusters/{cluster}"
_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"

POLICIES: Final[tuple[tuple[str, str, bool], ...]] = (
    ("GET", f"{_NS}/bundles", True),
    ("GET", "*", False),
    ("*", f"{_NS}/*Rate", False),
    ("POST", f"{_NS}/*clearBacklog*", False),
    ("POST", f"{_NS}/*unsubscribe/*", False),
    ("PUT", f"{_NS}/unload", False),
    ("*", f"{_NS}*", True),
    ("*", "/admin/v2/namespaces/*PermissionsOnTopics", True),
    ("*", "/admin/v2/tenants/{tenant}", True),
    ("*", f"{_CLUSTER}/failureDomains*", False),
    ("*", f"{_CLUSTER}*", True),
    ("*", "/admin/v2/resource-quotas*", True),
    ("*", f"{_TOPIC}/permissions*", True),
    ("*", f"{_TOPIC}/backlogQuota", True),
    ("*", f"{_TOPIC}/replication", True),
    ("*", f"{_TOPIC}/delayedDelivery", True),
    ("*", "*", False),
)
"""Method, path as OpenAPI writes it, and whether it is refused while policies are read-only.

The first row that matches counts. Refused is what calls ``validatePoliciesReadOnlyAccess`` in
Pulsar 4.0.7: that includes the list of a namespace's bundles and the unload of a bundle, but not
the rates of a namespace."""
_HARMLESS: Final = ("/unload", "/split")
"""How paths end that are allowed for system topics, too: brokers unload and split their bundles,
and no record is lost by it."""


def changes_policies(method: str, path: str) -> bool:
    """Whether a route is refused while policies are read-only; ``path`` is as in OpenAPI."""
    return next(
        refused
        for verbs, pattern, refused in POLICIES
        if verbs in ("*", method) and fnmatchcase(path, pattern)
    )


async def require_writable_policies(broker: Broker, ordered_by: str | None = None) -> None:
    """Return if policies may be changed; 403 while they are read-only.

    ``ordered_by``: the broker that sends the request. Unloads that the leader orders change no
    policy, so they are allowed.
    """
    if not await broker.policies.policies_read_only():
        return
    leader = None if ordered_by is None else await broker.ask_leader()
    if leader is None or leader.broker_id != ordered_by:
        raise RestError(HTTPStatus.FORBIDDEN, "Broker is forbidden to do read-write operations")


def concerns_system_topics(method: str, path: str, names: Mapping[str, str]) -> bool:
    """Whether a request may change the brokers' own topics, judged by the names in its path."""
    if (
        method == "GET"
        or path.endswith(_HARMLESS)
        or names.get("tenant") != SYSTEM_NAMESPACE.tenant
    ):
        return False
    return names.get("namespace", SYSTEM_NAMESPACE.local) == SYSTEM_NAMESPACE.local


async def require_system_topics(broker: Broker, caller: Caller, names: Mapping[str, str]) -> None:
    """Return if the caller may change the brokers' own topics; raises `BrokerError` if not.

    The rule is the one for producers on these topics.
    """
    topic = topic_in(names) if "topic" in names else TopicName.parse(SERVICE_UNIT_STATE)
    await broker.system_topics.check(topic, caller, {})
