"""The key by which a cluster's brokers recognise each other's producers on system topics.

Brokers write bundles' records and load data as clients of one another. A cluster without
authentication cannot recognise them by role. So each presents a key, which is stored in the
metadata store, where clients cannot read it. The key is a property of the producer that statistics
omit.
"""

import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from counterpoise.broker.base.errors import BrokerError, store_errors_as_not_ready
from counterpoise.metadata import BadVersion, MetadataStore
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.names.namespace import SYSTEM_NAMESPACE
from counterpoise.names.topic import TopicName
from counterpoise.security.authorization import Authorization, Caller
from counterpoise.wire.errors import ServerError

NODE: Final = "/counterpoise/cluster-key"
PROPERTY: Final = "counterpoise-cluster-key"
_BYTES: Final = 32


class ClusterKey:
    """The secret in the metadata store by which brokers recognise each other's producers."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._key: str | None = None

    async def get(self) -> str:
        """The key, created if there is none; raises `StoreUnavailable`."""
        if self._key is None:
            self._key = await self._read() or await self._make()
        return self._key

    async def is_shown(self, properties: Mapping[str, str]) -> bool:
        """Whether a producer's properties contain the key; raises `StoreUnavailable`."""
        shown = properties.get(PROPERTY)
        if shown is None:
            return False
        return hmac.compare_digest(shown.encode(), (await self.get()).encode())

    async def _read(self) -> str | None:
        stored = await self._store.get(NODE)
        return None if stored is None else stored.value.decode()

    async def _make(self) -> str:
        key = secrets.token_hex(_BYTES)
        try:
            await self._store.put(NODE, key.encode(), expected_version=MUST_NOT_EXIST)
        except BadVersion:
            return await self._read() or key
        return key


class SystemTopicGuard:
    """Decides which producers may write to `SYSTEM_NAMESPACE`: brokers and super users.

    If ``systemTopicsWritableByClients`` is set, every client may.
    """

    def __init__(
        self, key: ClusterKey, authorization: Authorization, *, open_to_clients: bool
    ) -> None:
        self._key = key
        self._authorization = authorization
        self._open_to_clients = open_to_clients

    async def check(self, topic: TopicName, caller: Caller, properties: Mapping[str, str]) -> None:
        """Raise `BrokerError` if a producer with these properties may not publish to a topic."""
        if self._open_to_clients or topic.namespace_name != SYSTEM_NAMESPACE:
            return
        if self._authorization.names_super_user(caller):
            return
        with store_errors_as_not_ready():
            if await self._key.is_shown(properties):
                return
        raise BrokerError(
            ServerError.AuthorizationError,
            f"{topic} is written by brokers and super users (superUserRoles) alone; "
            "systemTopicsWritableByClients=true lets every client write there",
        )


def without_key(properties: Mapping[str, str]) -> dict[str, str]:
    """A producer's properties without the cluster's key, for statistics."""
    return {name: value for name, value in properties.items() if name != PROPERTY}
