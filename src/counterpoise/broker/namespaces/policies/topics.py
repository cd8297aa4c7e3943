"""Which persistent topics exist: ``/managed-ledgers/<ns>/persistent/<topic>``."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import unquote_plus

from counterpoise.broker.base import paths
from counterpoise.broker.base.by_turns import in_pieces
from counterpoise.broker.base.single_flight import SingleFlight
from counterpoise.metadata import BadVersion, MetadataStore, NotFound, Notification
from counterpoise.metadata.cache import MetadataCache
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.names.callbacks import Notify, StopListening
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.position import Position
from counterpoise.names.topic import PERSISTENT, TopicName
from counterpoise.storage.topic_record import TopicCodec, TopicRecord


class StoredTopics:
    """The records of persistent topics in the metadata store, partitions included."""

    def __init__(self, store: MetadataStore, codec: TopicCodec) -> None:
        """``codec`` reads and writes topics' nodes in the format that the ledger store needs."""
        self._store = store
        self._codec = codec
        self._existing = MetadataCache(store, f"{paths.TOPICS}/", codec.read)
        self._list = SingleFlight(self._listed)

    async def topics(self, namespace: NamespaceName, domain: str = PERSISTENT) -> list[TopicName]:
        """Return a namespace's persistent topics, sorted; nothing for the other ``domain``, whose
        topics the metadata store does not contain.
        """
        return [] if domain != PERSISTENT else [*await self._list(namespace)]

    async def _listed(self, namespace: NamespaceName) -> list[TopicName]:
        tenant, local = namespace.tenant, namespace.local
        found: list[TopicName] = []
        async for names in in_pieces(await self._store.children(paths.topics(namespace))):
            found += [TopicName(PERSISTENT, tenant, local, unquote_plus(name)) for name in names]
        return sorted(found, key=str)

    def on_topics_changed(self, namespace: NamespaceName, listener: Notify) -> StopListening:
        """Call ``listener`` after each change of a namespace's persistent or partitioned topics."""
        below = (
            f"{paths.topics(namespace)}/",
            f"{paths.partitioned_topics(namespace, PERSISTENT)}/",
        )

        def on_notification(notification: Notification) -> None:
            if notification.path.startswith(below):
                listener()

        return self._store.subscribe(on_notification)

    async def topic_exists(self, topic: TopicName) -> bool:
        """Whether a persistent topic has been created."""
        return await self.topic_record(topic) is not None

    async def topic_record(self, topic: TopicName) -> TopicRecord | None:
        """The stored record of a persistent topic; None if it has not been created."""
        path = paths.topic(topic)
        found = await self._existing.get(path)
        if found is None:
            # Not cached: a client that asks for topics that do not exist must not fill the cache.
            self._existing.forget(path)
        return found

    async def create_topic(
        self, topic: TopicName, properties: Mapping[str, str] | None = None
    ) -> None:
        """Record that a topic exists; if one does already, nothing changes."""
        path = paths.topic(topic)
        with contextlib.suppress(BadVersion):
            record = TopicRecord(dict(properties or {}))
            value = self._codec.write(record)
            await self._store.put(path, value, expected_version=MUST_NOT_EXIST)
        self._existing.forget(path)

    async def terminate_topic(self, topic: TopicName, last: Position) -> None:
        """Record that nothing may be published after ``last``; `NotFound` without the topic."""
        await self._change_topic(topic, lambda record: replace(record, terminated=last))

    async def update_topic_properties(
        self, topic: TopicName, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """Change the properties that users gave a topic; raises `NotFound` if it does not exist."""
        await self._change_topic(
            topic, lambda record: replace(record, properties=dict(change(record.properties)))
        )

    async def _change_topic(
        self, topic: TopicName, change: Callable[[TopicRecord], TopicRecord]
    ) -> None:
        path = paths.topic(topic)
        while True:
            stored = await self._store.get(path)
            if stored is None:
                raise NotFound(path)
            record = change(self._codec.read(stored.value))
            after = self._codec.write(record, stored.value)
            with contextlib.suppress(BadVersion):
                await self._store.put(path, after, expected_version=stored.version)
                break
        self._existing.forget(path)

    async def delete_topic(self, topic: TopicName) -> None:
        """Delete the record of a topic; does nothing if there is none."""
        with contextlib.suppress(NotFound):
            await self._store.delete(paths.topic(topic))
        self._existing.forget(paths.topic(topic))
