"""An event loop whose time jumps to the next timer: exact on any machine, and over at once."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

from counterpoise.quota import SECOND_NS
from tests.stuck import LastResort, WaitsForever


class _Select(selectors.SelectSelector):
    """Instead of waiting, time passes; where none can pass any more, the test fails."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0
        self._last_resort = LastResort(self)

    def select(self, timeout: float | None = None):  # type: ignore[no-untyped-def]
        if timeout:
            self.now_ns += max(1, round(timeout * SECOND_NS))
        if timeout is not None:
            return super().select(0)
        found = super().select(self._last_resort.silent_s)
        if not found:
            raise WaitsForever("nothing is left to happen, and the test still waits")
        return found


class JumpingLoop(asyncio.SelectorEventLoop):
    """Its time is a number, which passes at once."""

    def __init__(self) -> None:
        self.jumping = _Select()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now_ns / SECOND_NS

    def timers_of(self, method: str) -> int:
        """How many timers are set that call a method, such as ``Class.method``."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        pending = [repr(it) for it in timers if not it.cancelled() and it.when() > self.time()]
        return sum(f"{method}(" in each or f"{method} " in each for each in pending)


def now_ns() -> int:
    """The time of the jumping loop that runs; 0 before one does."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return 0
    assert isinstance(loop, JumpingLoop)
    return loop.jumping.now_ns


async def pass_time(seconds: float) -> None:
    """Let so much time of the jumping loop pass, which takes none."""
    assert isinstance(asyncio.get_running_loop(), JumpingLoop), "this would take as long as it says"
    await asyncio.sleep(seconds)


def on_jumping_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test on a `JumpingLoop`."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(test(*arguments, **named))

    return run
