"""Lists of callbacks, from which each can be removed."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from counterpoise.metadata.port import Listener, MetadataStore, SessionListener, Unsubscribe

E = TypeVar("E")


def follow(store: MetadataStore, changed: Listener, session: SessionListener) -> Unsubscribe:
    """Subscribe to a store's changes and to its session's events; returns what ends both."""
    ends = store.subscribe(changed), store.subscribe_session(session)

    def unsubscribe() -> None:
        for end in ends:
            end()

    return unsubscribe


class Listeners(Generic[E]):
    """Callbacks for one kind of event, called in the order in which they were added."""

    def __init__(self) -> None:
        self._callbacks: Final[dict[object, Callable[[E], None]]] = {}

    def add(self, callback: Callable[[E], None]) -> Unsubscribe:
        """Add a callback. Returns a function that removes it and may be called twice."""
        key = object()
        self._callbacks[key] = callback

        def unsubscribe() -> None:
            self._callbacks.pop(key, None)

        return unsubscribe

    def notify(self, event: E) -> None:
        """Call all callbacks with an event."""
        for callback in list(self._callbacks.values()):
            callback(event)

    def clear(self) -> None:
        """Remove all callbacks."""
        self._callbacks.clear()

    def __bool__(self) -> bool:
        return bool(self._callbacks)
