"""Authorization by the rules of Pulsar's ``PulsarAuthorizationProvider``.

A superuser may do everything, a tenant's administrator everything within the tenant. Other roles
may do what they were granted on a namespace or a topic; `TOPIC_NEEDS` and `NAMESPACE_NEEDS` map
each operation to the grant that it needs. A client of a proxy may do what both roles may do.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.security.options import AuthorizationOptions

PRODUCE: Final = "produce"
CONSUME: Final = "consume"

TOPIC_NEEDS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("LOOKUP", "GET_STATS", "GET_METADATA"), frozenset({PRODUCE, CONSUME})),
    "PRODUCE": frozenset({PRODUCE}),
    **dict.fromkeys(
        (
            "GET_SUBSCRIPTIONS",
            "CONSUME",
            "SUBSCRIBE",
            "UNSUBSCRIBE",
            "SKIP",
            "EXPIRE_MESSAGES",
            "PEEK_MESSAGES",
            "RESET_CURSOR",
            "GET_BACKLOG_SIZE",
            "SET_REPLICATED_SUBSCRIPTION_STATUS",
            "GET_REPLICATED_SUBSCRIPTION_STATUS",
        ),
        frozenset({CONSUME}),
    ),
    **dict.fromkeys(
        (
            "TERMINATE",
            "COMPACT",
            "OFFLOAD",
            "UNLOAD",
            "TRIM_TOPIC",
            "DELETE_METADATA",
            "UPDATE_METADATA",
            "ADD_BUNDLE_RANGE",
            "GET_BUNDLE_RANGE",
            "DELETE_BUNDLE_RANGE",
        ),
        frozenset(),
    ),
}
"""The grants that each ``TopicOperation`` needs, any of which will do; if none is named, no grant
suffices."""

NAMESPACE_NEEDS: Final[Mapping[str, frozenset[str]]] = {
    "PACKAGES": frozenset({"packages"}),
    **dict.fromkeys(("GET_TOPIC", "GET_TOPICS", "GET_BUNDLE"), frozenset({PRODUCE, CONSUME})),
    **dict.fromkeys(("UNSUBSCRIBE", "TRIM_TOPIC", "CLEAR_BACKLOG"), frozenset({CONSUME})),
    **dict.fromkeys(
        (
            "CREATE_TOPIC",
            "DELETE_TOPIC",
            "ADD_BUNDLE",
            "DELETE_BUNDLE",
            "GRANT_PERMISSION",
            "GET_PERMISSION",
            "REVOKE_PERMISSION",
        ),
        frozenset(),
    ),
}
"""The grants that each ``NamespaceOperation`` needs, any of which will do; grants on topics do not
count."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request: the authenticated role, and for a proxy its client's role."""

    role: str | None
    original: str | None = None
    """The client for which a proxy acts."""


class SubscriptionRefused(Exception):
    """A role may not use a subscription of this name, whatever grants it has; the text says why."""


class TenantMissing(Exception):
    """The tenant that a request is about does not exist. It is not raised for superusers."""


class AuthorizationPolicies(Protocol):
    """Reads what authorization needs of a tenant or a namespace; None if it does not exist."""

    async def tenant(self, name: str) -> Mapping[str, Any] | None:
        """A tenant's settings, of which ``adminRoles`` is used."""

    async def namespace(self, namespace: NamespaceName) -> Mapping[str, Any] | None:
        """A namespace's policies: ``auth_policies`` and ``subscription_auth_mode`` are used."""


class Authorization:
    """Decides whether a caller may perform an operation; while it is disabled, every caller may."""

    def __init__(
        self, options: Callable[[], AuthorizationOptions], source: AuthorizationPolicies
    ) -> None:
        """``options``: returns the settings in force at each call."""
        self._options = options
        self._source = source

    @property
    def enabled(self) -> bool:
        """Whether authorization is enabled (``authorizationEnabled``)."""
        return self._options().enabled

    def why_invalid(self, caller: Caller, *, for_itself: bool = False) -> str | None:
        """The reason why a caller's pair of roles is not allowed; None if it is allowed.

        A proxy must name its client's role. ``for_itself``: whether a role that is no proxy may
        name itself as the original.
        """
        proxies = self._options().proxies
        if caller.role in proxies:
            if not caller.original:
                return "originalPrincipal must be provided when connecting with a proxy role."
            if caller.original in proxies:
                return "originalPrincipal cannot be a proxy role."
        elif caller.original and not (for_itself and caller.original == caller.role):
            return "cannot specify originalPrincipal when connecting without valid proxy role."
        return None

    def is_proxy(self, role: str | None) -> bool:
        """Whether a role is a proxy's."""
        return role in self._options().proxies

    async def super_user(self, caller: Caller) -> bool:
        """Whether a caller is a super user, who may do everything."""
        return await self._each(caller, self._is_super_user)

    def names_super_user(self, caller: Caller) -> bool:
        """Whether all of a caller's roles are in superUserRoles, even if authorization is off."""
        roles = {caller.role, caller.original or caller.role}
        return roles <= set(self._options().super_users)

    async def tenant_admin(self, caller: Caller, tenant: str) -> bool:
        """Whether a caller may do everything within a tenant. Raises `TenantMissing`."""

        async def allowed(role: str | None) -> bool:
            return await self._is_admin(role, tenant)

        return await self._each(caller, allowed)

    async def namespace(self, caller: Caller, namespace: NamespaceName, operation: str) -> bool:
        """Whether a caller may perform one of Pulsar's ``NamespaceOperation`` on a namespace.

        Raises `TenantMissing`.
        """

        async def allowed(role: str | None) -> bool:
            if await self._is_admin(role, namespace.tenant):
                return True
            policies = await self._source.namespace(namespace)
            granted = _auth(policies).get("namespace_auth") or {}
            return self._granted(role, granted, NAMESPACE_NEEDS[operation])

        return await self._each(caller, allowed)

    async def topic(
        self, caller: Caller, topic: TopicName, operation: str, subscription: str | None = None
    ) -> bool:
        """Whether a caller may perform one of Pulsar's ``TopicOperation`` on a topic.

        Raises `TenantMissing`, and `SubscriptionRefused` where a subscription's name has to begin
        with the role.
        """

        async def allowed(role: str | None) -> bool:
            if await self._is_admin(role, topic.tenant):
                return True
            policies = await self._source.namespace(topic.namespace_name)
            needs = TOPIC_NEEDS[operation]
            if subscription and needs == {CONSUME}:
                if not _may_subscribe(role, policies, subscription):
                    return False
                _check_prefix(role, policies, subscription, topic)
            return self._granted_on_topic(role, _auth(policies), topic, needs)

        return await self._each(caller, allowed)

    async def _each(self, caller: Caller, allowed: Callable[[str | None], Awaitable[bool]]) -> bool:
        if not self.enabled:
            return True
        if self.why_invalid(caller, for_itself=True) is not None:
            return False
        answer = await allowed(caller.role)
        if self.is_proxy(caller.role):
            # Checked even if the proxy's own role is refused: this may raise a more specific
            # refusal.
            answer = await allowed(caller.original) and answer
        return answer

    async def _is_super_user(self, role: str | None) -> bool:
        return role is not None and role in self._options().super_users

    async def _is_admin(self, role: str | None, tenant: str) -> bool:
        if await self._is_super_user(role):
            return True
        found = await self._source.tenant(tenant)
        if found is None:
            raise TenantMissing(tenant)
        return role is not None and role in (found.get("adminRoles") or ())

    def _granted_on_topic(
        self, role: str | None, auth: Mapping[str, Any], topic: TopicName, needs: frozenset[str]
    ) -> bool:
        of_topics = auth.get("destination_auth") or {}
        grants = (auth.get("namespace_auth"), of_topics.get(str(topic)))
        if any(self._granted(role, each or {}, needs) for each in grants):
            return True
        # A grant on a partitioned topic counts for its partitions; as in Pulsar, not that of a
        # wildcard.
        whole = of_topics.get(str(topic.partitioned_name)) if topic.partition_index >= 0 else None
        return not needs.isdisjoint((whole or {}).get(role) or ())

    def _granted(
        self, role: str | None, grants: Mapping[str, Collection[str]], needs: frozenset[str]
    ) -> bool:
        if role is None:
            return False
        if not needs.isdisjoint(grants.get(role) or ()):
            return True
        return self._options().wildcards and any(
            _matches(role, pattern) and not needs.isdisjoint(actions)
            for pattern, actions in grants.items()
        )


def _matches(role: str, pattern: str) -> bool:
    """Whether a pattern, with one ``*`` at its end or at its beginning, matches a role."""
    if pattern.endswith("*") and role.startswith(pattern[:-1]):
        return True
    return pattern.startswith("*") and role.endswith(pattern[1:])


def _auth(policies: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (policies or {}).get("auth_policies") or {}


def _may_subscribe(role: str | None, policies: Mapping[str, Any] | None, subscription: str) -> bool:
    of_subscriptions = _auth(policies).get("subscription_auth_roles") or {}
    roles = of_subscriptions.get(subscription)
    return not roles or role in roles


def _check_prefix(
    role: str | None, policies: Mapping[str, Any] | None, subscription: str, topic: TopicName
) -> None:
    mode = (policies or {}).get("subscription_auth_mode")
    if mode == "Prefix" and not (role and subscription.startswith(role)):
        raise SubscriptionRefused(
            "Failed to create consumer - The subscription name needs to be prefixed by the "
            f"authentication role, like {role}-xxxx for topic: {topic}"
        )
