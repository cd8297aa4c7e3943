"""Threads for blocking disk work, whose callbacks run on the event loop."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from counterpoise.storage.files.thread_queue import ThreadQueue

_log = logging.getLogger(__name__)


Step = Callable[[], None]


class Committer:
    """Runs each job in one of up to ``threads`` threads, then its callback on the event loop.

    Jobs that end close together share one wake-up of the loop. The threads do not keep the process
    alive: a disk that never responds must not block its exit.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, threads: int = 2, name: str = "ledger-committer"
    ) -> None:
        self._loop = loop
        self._most, self._name = threads, name
        self._queue: ThreadQueue[tuple[Step, Step | None] | None] = ThreadQueue()
        self._done: deque[Step] = deque()
        self._notified = False
        self._threads: list[threading.Thread] = []

    def submit(self, run: Step, finish: Step | None = None) -> None:
        """Queue blocking work for a thread; ``finish`` is called on the loop after it.

        ``run`` should catch its errors and keep them for ``finish``: one that it raises is only
        logged.
        """
        if not self._queue.put((run, finish)) and len(self._threads) < self._most:
            name = f"{self._name}-{len(self._threads)}"
            self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
            self._threads[-1].start()

    def _work(self) -> None:
        get = self._queue.getter()
        while (job := get()) is not None:
            run, finish = job
            try:
                run()
            except Exception:
                # A job should keep its errors for `finish`; one that raises must not end this
                # thread.
                _log.exception("a write job raised an error that it does not report itself")
            if finish is None:
                continue
            self._done.append(finish)
            # The loop clears the flag before it empties the deque, so no job is left behind.
            if not self._notified:
                self._notified = True
                try:
                    self._loop.call_soon_threadsafe(self._finish)
                except RuntimeError:  # the loop was closed without closing its logs: a kill
                    return

    def _finish(self) -> None:
        self._notified = False
        done = self._done
        while done:
            try:
                done.popleft()()
            except Exception:
                _log.exception("what follows a write failed")

    def close(self, within_s: float) -> bool:
        """End the threads once all queued jobs have run; returns whether they ended in time."""
        deadline = time.monotonic() + within_s
        self._most = 0
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0))
        return not any(thread.is_alive() for thread in self._threads)
