"""Which persistent topics exist: ``/managed-ledgers/<ns>/persistent/<topic>``."""

from __future__ import annotations

import contextlib
from urllib.parse import unquote_plus

from counterpoise.broker import paths
from counterpoise.broker.namespaces.policies.records import Records
from counterpoise.metadata import NotFound
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import PERSISTENT, TopicName


class Topics(Records):
    """The catalogue of persistent topics, partitions included."""

    async def topics(self, namespace: NamespaceName, domain: str = PERSISTENT) -> list[TopicName]:
        """A namespace's topics, sorted; non-persistent ones are known to their owners only."""
        if domain != PERSISTENT:
            return []
        names = await self._store.children(paths.topics(namespace))
        return sorted(
            TopicName(domain, namespace.tenant, namespace.local, unquote_plus(name))
            for name in names
        )

    async def topic_exists(self, topic: TopicName) -> bool:
        """Whether a persistent topic has been created."""
        return await self._store.exists(paths.topic(topic))

    async def create_topic(self, topic: TopicName) -> None:
        """Say that a topic exists; harmless if it does."""
        await self._store.put(paths.topic(topic), b"")

    async def delete_topic(self, topic: TopicName) -> None:
        """Say that it does not; harmless if it does not."""
        with contextlib.suppress(NotFound):
            await self._store.delete(paths.topic(topic))
