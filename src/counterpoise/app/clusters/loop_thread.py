"""An event loop in a thread of its own, for synchronous callers."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop (uvloop if installed) in its own thread, for coroutines of other threads."""

    def __init__(self, name: str) -> None:
        """Raises OSError if the process has no descriptors left for a loop."""
        self._runner = asyncio.Runner(loop_factory=loop_factory())
        self._started = concurrent.futures.Future[asyncio.AbstractEventLoop]()
        self._ended: asyncio.Event | None = None
        # A daemon, so that a program that forgets to stop it can still end.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._loop: asyncio.AbstractEventLoop | None = self._started.result()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and return its result, or raise its exception.

        Raises TimeoutError if it takes longer than ``timeout_s``, and RuntimeError after `stop` and
        on the loop's own thread, where waiting would never end.
        """
        if self._loop is None or threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("call this from another thread, while the loop runs")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except concurrent.futures.TimeoutError:
            if not future.done():
                future.cancel()
                raise TimeoutError(f"not done after {timeout_s} s") from None
            raise

    def stop(self) -> None:
        """End the loop and the thread. Idempotent."""
        loop, self._loop = self._loop, None
        if loop is not None and self._ended is not None:
            loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            with self._runner:
                self._runner.run(self._until_ended())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _until_ended(self) -> None:
        ended = self._ended = asyncio.Event()
        self._started.set_result(asyncio.get_running_loop())
        await ended.wait()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory of event loops; None, which means asyncio's own, without uvloop."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
