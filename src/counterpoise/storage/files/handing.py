"""A queue of work for threads, which wakes one of them at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Handing(Generic[T]):
    """What is put here goes to one thread: the last that came to rest, or the next that is free.

    A `SimpleQueue` at which several threads wait wakes all of them for each item, and all but one
    fight over the interpreter for nothing. So each thread rests at one of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: What no thread was free for, and where the threads that have nothing wait for more.
        self._items: deque[T] = deque()
        self._resting: list[SimpleQueue[T]] = []

    def put(self, item: T) -> None:
        """Hand it to a thread, in order; never waits."""
        with self._lock:
            if self._resting:
                self._resting.pop().put(item)
            else:
                self._items.append(item)

    def taker(self) -> Callable[[], T]:
        """For one thread, what waits for its next item and gives it."""
        mine: SimpleQueue[T] = SimpleQueue()

        def take() -> T:
            with self._lock:
                if self._items:
                    return self._items.popleft()
                self._resting.append(mine)
            return mine.get()

        return take
