"""A few threads that write groups and wait for the disk, so that the event loop never does."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from typing import Protocol

from counterpoise.storage.files.thread_queue import ThreadQueue

_log = logging.getLogger(__name__)


class Job(Protocol):
    """Blocking work for a committer thread, with a part that follows on the event loop."""

    def run(self) -> None:
        """Do the blocking part in a thread; never raises, but keeps errors for `finish`."""

    def finish(self) -> None:
        """Do the rest on the event loop, after `run`."""


class Committer:
    """Runs jobs in ``threads`` threads, and their last part on one event loop.

    Jobs that end close together share one wake-up of the loop. The threads do not keep the process
    alive: a disk that never responds must not block its exit.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 2) -> None:
        self._loop = loop
        self._queue: ThreadQueue[Job | None] = ThreadQueue()
        self._done: deque[Job] = deque()
        self._notified = False
        self._threads = [
            threading.Thread(target=self._work, name=f"ledger-committer-{n}", daemon=True)
            for n in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; its `finish` is called on the loop."""
        self._queue.put(job)

    def _work(self) -> None:
        get = self._queue.getter()
        while (job := get()) is not None:
            try:
                job.run()
            except Exception:
                # A job keeps what it raises; one that doesn't must not cost the others their turn.
                _log.exception("a write job raised an error that it does not report itself")
            self._done.append(job)
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
                done.popleft().finish()
            except Exception:
                _log.exception("what follows a write failed")

    def close(self, within_s: float) -> bool:
        """End the threads once all queued jobs have run; returns whether they ended in time."""
        deadline = time.monotonic() + within_s
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0))
        return not any(thread.is_alive() for thread in self._threads)
