"""Supervised background tasks: a task that fails is logged and restarted."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from counterpoise.metadata import StoreUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BackOff:
    """Pauses between attempts, in seconds: doubling from the first to the longest."""

    first_s: float = 1.0
    most_s: float = 60.0
    steady_s: float = 60.0
    """A task that ran longer than this had recovered: its next failure waits `first_s` again."""

    def after(self, pause_s: float, ran_s: float) -> float:
        """The next pause in seconds, after one of ``pause_s`` (0: none) and a run of ``ran_s``."""
        if pause_s <= 0 or ran_s > self.steady_s:
            return self.first_s
        return min(2 * pause_s, self.most_s)


_BACK_OFF = BackOff()


class BackgroundTasks:
    """The background tasks of one broker, or of one part of it.

    `keep` runs work for as long as the broker lives: when it fails, one log line says why (the
    stack at debug level), and it starts again after a pause; a metadata store that did not answer
    is a warning. `start` runs work that ends by itself; its failure is logged as an error.
    """

    __slots__ = ("_back_off", "_tasks", "failures")

    def __init__(self, back_off: BackOff = _BACK_OFF) -> None:
        self._back_off = back_off
        self._tasks: set[asyncio.Task[Any]] = set()
        self.failures: Counter[str] = Counter()
        """How often each task has failed, by its name."""

    @property
    def running(self) -> list[str]:
        """The names of the running tasks, sorted."""
        return sorted(task.get_name() for task in self._tasks)

    def keep(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run ``work`` until it returns or is cancelled; start it again after each failure."""
        return self._start(name, self._keep(name, work))

    def start(
        self, name: str, work: Coroutine[Any, Any, T], *, expected: tuple[type[Exception], ...] = ()
    ) -> asyncio.Task[T]:
        """Run ``work`` once; a failure is logged unless it is ``expected`` by the awaiting code."""
        task = self._start(name, work)
        task.add_done_callback(lambda done: self._ended(done, expected))
        return task

    def _start(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        clock = asyncio.get_running_loop().time
        pause_s = 0.0
        while True:
            began = clock()
            try:
                await work()
            except asyncio.CancelledError as error:
                # Raised only if this task was cancelled; else something that it awaited was.
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                failure: BaseException = error
            except Exception as error:
                failure = error
            else:
                return
            pause_s = self._back_off.after(pause_s, clock() - began)
            self._log_failure(name, failure, f"; it begins again in {pause_s:g} s")
            await asyncio.sleep(pause_s)

    def _ended(self, task: asyncio.Task[Any], expected: tuple[type[Exception], ...]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, expected):
            self._log_failure(task.get_name(), error, "")

    def _log_failure(self, name: str, error: BaseException, what_follows: str) -> None:
        self.failures[name] += 1
        if what_follows and isinstance(error, StoreUnavailable):
            # Sessions with the metadata store end; the work goes on in the next one.
            log.warning("%s: %s%s", name, error, what_follows)
            return
        why = str(error) or "no reason given"
        log.error("%s failed: %s: %s%s", name, type(error).__name__, why, what_follows)
        log.debug("%s failed here:", name, exc_info=error)

    def cancel(self) -> list[asyncio.Task[Any]]:
        """Cancel all tasks; returns them to be awaited."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        return tasks

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        await asyncio.gather(*self.cancel(), return_exceptions=True)
