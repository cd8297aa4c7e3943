"""Lists of callbacks, from which each can be removed."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from counterpoise.metadata.port import Unsubscribe

E = TypeVar("E")


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
