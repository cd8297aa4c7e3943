"""Policies of single topics.

Pulsar keeps them in a compacted topic of each namespace (``__change_events``); here they are in the
metadata store, where brokers hear of changes anyway.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from counterpoise.broker.base import paths
from counterpoise.broker.namespaces.policies.records import JsonObject, Records
from counterpoise.metadata import NotFound
from counterpoise.names.topic import TopicName


class TopicPolicies(Records):
    """``TopicPolicies`` by topic; those of a partitioned topic hold for its partitions."""

    async def topic_policies(self, topic: TopicName) -> JsonObject | None:
        """A topic's policies; None if it has none of its own."""
        return await self._get(paths.topic_policies(topic))

    async def update_topic_policies(
        self, topic: TopicName, change: Callable[[JsonObject], Mapping[str, Any]]
    ) -> JsonObject:
        """Change them; returns them as they are now."""
        return await self._update(paths.topic_policies(topic), change, create=True)

    async def delete_topic_policies(self, topic: TopicName) -> None:
        """Forget them; harmless if there are none."""
        with contextlib.suppress(NotFound):
            await self._delete(paths.topic_policies(topic))
