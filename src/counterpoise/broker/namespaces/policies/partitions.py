"""Partitioned topics: ``/admin/partitioned-topics/<ns>/<domain>/<topic>``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import unquote_plus

from counterpoise.broker.base import paths
from counterpoise.broker.namespaces.policies.records import JsonObject, Records
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName


class PartitionedTopics(Records):
    """The partitioned topics' numbers of partitions (``PartitionedTopicMetadata``)."""

    async def partitioned_topics(self, namespace: NamespaceName, domain: str) -> list[TopicName]:
        """A namespace's partitioned topics of one domain, sorted."""
        names = await self._store.children(paths.partitioned_topics(namespace, domain))
        return sorted(
            TopicName(domain, namespace.tenant, namespace.local, unquote_plus(name))
            for name in names
        )

    async def partitioned_topic(self, topic: TopicName) -> JsonObject | None:
        """A topic's ``{"partitions": n, "properties": {…}}``."""
        return await self._get(paths.partitioned_topic(topic))

    async def create_partitioned_topic(
        self, topic: TopicName, partitions: int, properties: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic partitioned; raises `BadVersion` if it already is."""
        value = {"partitions": partitions, "properties": dict(properties or {}), "deleted": False}
        await self._put(paths.partitioned_topic(topic), value, create=True)

    async def update_partitioned_topic(self, topic: TopicName, partitions: int) -> None:
        """Add partitions to a topic; raises `NotFound` if it is not partitioned."""
        await self._update(
            paths.partitioned_topic(topic), lambda value: {**value, "partitions": partitions}
        )

    async def update_partitioned_topic_properties(
        self, topic: TopicName, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """Change a partitioned topic's properties; raises `NotFound` if it is not partitioned."""
        await self._update(
            paths.partitioned_topic(topic),
            lambda value: {**value, "properties": dict(change(value.get("properties") or {}))},
        )

    async def delete_partitioned_topic(self, topic: TopicName) -> None:
        """Delete the partitioned topic's metadata; its partitions are topics of their own."""
        await self._delete(paths.partitioned_topic(topic))
