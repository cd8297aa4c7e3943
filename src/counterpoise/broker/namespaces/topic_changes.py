"""Notifications that a namespace's persistent topics have changed."""

from __future__ import annotations

from counterpoise.broker.base import paths
from counterpoise.metadata import MetadataStore, Notification
from counterpoise.names.callbacks import Notify, StopListening
from counterpoise.names.namespace import NamespaceName


class TopicChanges:
    """Notifies listeners that a namespace's topics have changed; they list them to learn how."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def subscribe(self, namespace: NamespaceName, listener: Notify) -> StopListening:
        """Call a listener after each creation or deletion of a persistent topic."""
        below = (
            f"{paths.topics(namespace)}/",
            f"{paths.partitioned_topics(namespace, 'persistent')}/",
        )

        def on_notification(notification: Notification) -> None:
            if notification.path.startswith(below):
                listener()

        return self._store.subscribe(on_notification)
