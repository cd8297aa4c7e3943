"""Authorization of one connection's requests."""

from collections.abc import Mapping

from counterpoise.broker.base.cluster_key import SystemTopicGuard
from counterpoise.broker.base.errors import BrokerError, store_errors_as_not_ready
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.security.authorization import (
    Authorization,
    Caller,
    SubscriptionRefused,
    TenantMissing,
)
from counterpoise.wire.errors import ServerError


class ClientPermissions:
    """Checks the permissions of one client; a denial raises `BrokerError` (AuthorizationError)."""

    __slots__ = ("_authorization", "_system_topics", "caller")

    def __init__(
        self, authorization: Authorization, system_topics: SystemTopicGuard | None = None
    ) -> None:
        self._authorization = authorization
        self._system_topics = system_topics
        self.caller = Caller(None)
        """The client's role; none until it has been authenticated."""

    @property
    def unlimited(self) -> bool:
        """Whether every client may do everything, since authorization is off."""
        return not self._authorization.enabled

    async def topic(
        self, topic: TopicName, operation: str, refusal: str, subscription: str | None = None
    ) -> None:
        """Raise, with the message ``refusal``, unless the client may do ``operation`` on a topic.

        ``subscription``: the one to consume from.
        """
        if not self._authorization.enabled:
            return
        with store_errors_as_not_ready():
            try:
                allowed = await self._authorization.topic(
                    self.caller, topic, operation, subscription
                )
            except SubscriptionRefused as error:
                raise BrokerError(ServerError.AuthorizationError, str(error)) from None
            except TenantMissing:
                why = f"Tenant or namespace or topic does not exist: {topic.namespace_name}"
                raise BrokerError(ServerError.TopicNotFound, why) from None
        if not allowed:
            raise BrokerError(ServerError.AuthorizationError, refusal)

    async def write(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        """Raise unless a producer of the client with these properties may publish to a topic."""
        await self.topic(topic, "PRODUCE", "Client is not authorized to Produce")
        if self._system_topics is not None:
            await self._system_topics.check(topic, self.caller, properties)

    async def is_superuser(self) -> bool:
        """Whether the client may do everything; without authorization every client may."""
        if not self._authorization.enabled:
            return True
        with store_errors_as_not_ready():
            return await self._authorization.super_user(self.caller)

    async def namespace(self, namespace: NamespaceName, operation: str, refusal: str) -> None:
        """Raise with the message ``refusal`` unless the client may do ``operation`` in a namespace.

        Also raises if the namespace's tenant does not exist.
        """
        if not self._authorization.enabled:
            return
        with store_errors_as_not_ready():
            try:
                allowed = await self._authorization.namespace(self.caller, namespace, operation)
            except TenantMissing:
                allowed = False
        if not allowed:
            raise BrokerError(ServerError.AuthorizationError, refusal)
