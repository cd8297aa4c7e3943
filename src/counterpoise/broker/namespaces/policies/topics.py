"""Which persistent topics exist: ``/managed-ledgers/<ns>/persistent/<topic>``."""

from __future__ import annotations

import contextlib
from urllib.parse import unquote_plus

from counterpoise.broker import paths
from counterpoise.broker.namespaces.policies.records import JsonObject, Records
from counterpoise.metadata import MetadataStore, NotFound
from counterpoise.metadata.cache import MetadataCache
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import PERSISTENT, TopicName


class Topics(Records):
    """The catalogue of persistent topics, partitions included."""

    def __init__(self, store: MetadataStore, cache: MetadataCache[JsonObject]) -> None:
        super().__init__(store, cache)
        self._existing = MetadataCache(store, f"{paths.TOPICS}/", lambda _: True)

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
        path = paths.topic(topic)
        exists = await self._existing.get(path) is not None
        if not exists:
            # Whoever asks for names that are not there must not fill the memory with them.
            self._existing.forget(path)
        return exists

    async def create_topic(self, topic: TopicName) -> None:
        """Say that a topic exists; harmless if it does."""
        await self._store.put(paths.topic(topic), b"")
        self._existing.forget(paths.topic(topic))

    async def delete_topic(self, topic: TopicName) -> None:
        """Say that it does not; harmless if it does not."""
        with contextlib.suppress(NotFound):
            await self._store.delete(paths.topic(topic))
        self._existing.forget(paths.topic(topic))
