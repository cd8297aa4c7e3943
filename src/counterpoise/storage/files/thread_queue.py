"""A work queue for threads that wakes one thread for each item."""

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class ThreadQueue(Generic[T]):
    """A queue whose items each wake one waiting thread only, the one that became idle last.

    If several threads wait at a `SimpleQueue`, each item wakes all of them, and all but one compete
    for the interpreter in vain. So each thread waits at a queue of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: deque[T] = deque()
        """Items that no thread was free for, and the queues at which idle threads wait."""
        self._resting: list[SimpleQueue[T]] = []

    def put(self, item: T) -> bool:
        """Pass an item to a thread, in order; returns whether one waited for it. Never blocks."""
        with self._lock:
            if self._resting:
                self._resting.pop().put(item)
                return True
            self._items.append(item)
            return False

    def getter(self) -> Callable[[], T]:
        """A function for one thread that waits for its next item and returns it."""
        mine: SimpleQueue[T] = SimpleQueue()

        def get() -> T:
            with self._lock:
                if self._items:
                    return self._items.popleft()
                self._resting.append(mine)
            return mine.get()

        return get
