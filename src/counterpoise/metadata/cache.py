"""Caches parsed values of the metadata store until the store reports a change."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from counterpoise.metadata import MetadataStore, Notification, SessionEvent
from counterpoise.metadata.listeners import follow

T = TypeVar("T")


class MetadataCache(Generic[T]):
    """A cache of parsed nodes below one path, kept current by the store's notifications.

    A missing node is cached as well. A value that was read while a notification arrived is returned
    but not cached: it may already be outdated.
    """

    def __init__(self, store: MetadataStore, below: str, parse: Callable[[bytes], T]) -> None:
        self._store = store
        self._below = below
        self._parse = parse
        self._values: Final[dict[str, T | None]] = {}
        self._changes = 0
        self._unsubscribe = follow(store, self._on_change, self._on_session)

    async def get(self, path: str) -> T | None:
        """The parsed value of a node, from the cache or else the store; None if there is none."""
        if path in self._values:
            return self._values[path]
        before = self._changes
        stored = await self._store.get(path)
        value = None if stored is None else self._parse(stored.value)
        if before == self._changes:
            self._values[path] = value
        return value

    def peek(self, path: str) -> T | None:
        """The parsed value of a node if it is cached, else None; does not ask the store."""
        return self._values.get(path)

    def forget(self, path: str) -> None:
        """Drop this path from the cache, so that it is read again."""
        self._changes += 1
        self._values.pop(path, None)

    def close(self) -> None:
        """Stop listening to the store's notifications."""
        self._unsubscribe()
        self._values.clear()

    def _on_change(self, notification: Notification) -> None:
        if notification.path.startswith(self._below):
            self.forget(notification.path)

    def _on_session(self, event: SessionEvent) -> None:
        # Notifications may have been missed, whatever the event.
        self._changes += 1
        self._values.clear()
