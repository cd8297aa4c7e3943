"""An event loop without a world: time moves when nothing is left to do now.

Everything runs on behalf of a `Machine` (a computer: it can freeze, die, and have a clock that is
too fast or too slow) or of no machine (the network, the store). Which one is a context variable, so
that whatever a broker starts is the broker's.
"""

import asyncio
import contextlib
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from counterpoise.broker.base.errors import BrokerError
from counterpoise.metadata import MetadataError

T = TypeVar("T")


EXPECTED = MetadataError | BrokerError
"""What a task may fail with."""


class Machine:
    """A computer on which callbacks run."""

    def __init__(self, name: str, rate: float = 1.0) -> None:
        self.name = name
        self.rate = rate
        """How long its seconds are: 1.1 is a clock that is too slow by a tenth."""
        self.frozen = False
        self.dead = False
        self.waiting: list[Handle] = []
        self.context = contextvars.copy_context()
        self.context.run(_MACHINE.set, self)


_MACHINE: contextvars.ContextVar[Machine | None] = contextvars.ContextVar("machine", default=None)


class Handle:
    """A callback that is to run; as much of `asyncio.Handle` as anybody here asks for."""

    __slots__ = ("args", "callback", "cancelled", "context", "machine")

    def __init__(
        self,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> None:
        self.callback, self.args = callback, args
        self.context = contextvars.copy_context() if context is None else context
        self.machine = self.context.get(_MACHINE)
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


async def pass_virtual_time(seconds: float) -> None:
    """Let so much time of the simulated loop pass, which takes none."""
    assert isinstance(asyncio.get_running_loop(), SimulatedLoop), "this would take as long"
    await asyncio.sleep(seconds)


class SimulatedLoop(asyncio.AbstractEventLoop):
    """As much of an event loop as tasks, futures and timers need."""

    def __init__(self) -> None:
        self._now = 0.0
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._numbers = itertools.count()
        self._tasks: list[asyncio.Task[Any]] = []
        self.steps = 0
        self.errors: list[str] = []

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override] - as the loops of the standard library
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> Handle:
        handle = Handle(callback, args, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> Handle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> Handle:
        handle = Handle(callback, args, context)
        if handle.machine is not None:
            when = self._now + (when - self._now) * handle.machine.rate
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, work: Coroutine[Any, Any, T], *, name: str | None = None, context: Any = None
    ) -> asyncio.Task[T]:
        task = asyncio.Task(work, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if "was destroyed" not in context["message"]:
            self.errors.append(f"{context['message']}: {context.get('exception')!r}")

    def run_until(self, when: float) -> None:
        """Run everything that happens up to a time."""
        ready, timers = self._ready, self._timers
        while True:
            while ready:
                handle = ready.popleft()
                if not handle.cancelled:
                    self._run(handle)
            while timers and timers[0][2].cancelled:
                heapq.heappop(timers)
            if not timers or timers[0][0] > when:
                self._now = when
                return
            at, _, timer = heapq.heappop(timers)
            self._now = max(self._now, at)
            ready.append(timer)

    def failures(self) -> list[str]:
        """What failed and was reported to no caller."""
        living = []
        for task in self._tasks:
            if not task.done():
                living.append(task)
            elif not task.cancelled() and (error := task.exception()) is not None:
                if isinstance(error, EXPECTED):
                    continue
                self.errors.append(f"{task.get_name()}: {error!r}")
        self._tasks = living
        return self.errors

    def end(self) -> None:
        """End what still waits, so that no garbage collector has to, at a time of its own."""
        for task in self._tasks:
            if not task.done():
                # Private: asyncio has no other way to drop a task in silence.
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(RuntimeError):
                    task.get_coro().close()  # type: ignore[union-attr]
        self._tasks.clear()
        self._ready.clear()
        self._timers.clear()

    def _run(self, handle: Handle) -> None:
        machine = handle.machine
        if machine is not None:
            if machine.dead:
                return
            if machine.frozen:
                machine.waiting.append(handle)
                return
        self.steps += 1
        try:
            handle.context.run(handle.callback, *handle.args)
        except Exception as error:
            self.errors.append(f"{handle.callback}: {error!r}")

    def thaw(self, machine: Machine) -> None:
        """Let a frozen machine go on with all that waited."""
        machine.frozen = False
        waiting, machine.waiting = machine.waiting, []
        self._ready.extend(waiting)
