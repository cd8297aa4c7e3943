"""Runs blocking work in threads and lets coroutines await the results."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from counterpoise.storage.files.committer import Committer

R = TypeVar("R")


class Threads:
    """Up to ``count`` threads for one event loop, that of the first work; they start with it."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._committer: Committer | None = None

    def run(self, work: Callable[[], R]) -> asyncio.Future[R]:
        """Run work in a thread. If the caller is cancelled, the work goes on."""
        loop = asyncio.get_running_loop()
        if self._committer is None:
            self._committer = Committer(loop, self._count, self._name)
        job = _Work(work, loop.create_future())
        self._committer.submit(job.run, job.finish)
        return job.future

    def close(self) -> None:
        """Let the threads end when their work is done; does not wait for them."""
        if self._committer is not None:
            self._committer.close(0)


class _Work(Generic[R]):
    """One piece of work, and the future for its result."""

    __slots__ = ("_error", "_result", "_work", "future")

    def __init__(self, work: Callable[[], R], future: asyncio.Future[R]) -> None:
        self.future = future
        self._work = work
        self._result: R
        self._error: BaseException | None = None

    def run(self) -> None:
        """Called in a thread: do the work, and keep its result or error."""
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error

    def finish(self) -> None:
        """Pass the outcome to the caller, if it still waits."""
        if self.future.done():
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._result)
