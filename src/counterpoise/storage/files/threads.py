"""Blocking work in daemon threads, so that a disk that hangs cannot block the process's exit."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from counterpoise.storage.files.thread_queue import ThreadQueue

R = TypeVar("R")

_Work = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Threads:
    """A few daemon threads; the standard library's pool would be joined when the process exits."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._queue: ThreadQueue[_Work | None] = ThreadQueue()
        self._started: list[threading.Thread] = []
        self._busy = 0
        self._lock = threading.Lock()

    async def run(self, work: Callable[[], R]) -> R:
        """Run work in a thread. If the caller is cancelled, the work goes on."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        with self._lock:
            self._busy += 1
            if self._busy > len(self._started) < self._count:
                number = len(self._started)
                thread = threading.Thread(
                    target=self._work, name=f"{self._name}-{number}", daemon=True
                )
                self._started.append(thread)
                thread.start()
        self._queue.put((work, loop, future))
        return await future

    def _work(self) -> None:
        get = self._queue.getter()
        while (item := get()) is not None:
            work, loop, future = item
            try:
                outcome: Callable[[], None] = _settle(future, work(), None)
            except BaseException as error:
                outcome = _settle(future, None, error)
            with self._lock:
                self._busy -= 1
            try:
                loop.call_soon_threadsafe(outcome)
            except RuntimeError:  # the loop is gone, and its waiters with it
                continue

    def close(self) -> None:
        """Let the threads end when their work is done; does not wait for them."""
        for _ in self._started:
            self._queue.put(None)


def _settle(
    future: asyncio.Future[Any], value: Any, error: BaseException | None
) -> Callable[[], None]:
    def settle() -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    return settle
