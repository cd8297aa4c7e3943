"""The threads that write: every job runs once, and one that hangs holds up no other."""

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from counterpoise.storage.files import committer as committer_module
from counterpoise.storage.files.committer import Committer
from tests.waiting import WITHIN_S


class Noted:
    """A job that may begin when it is let, and notes when it is finished."""

    def __init__(self, name: str, finished: asyncio.Queue[str], *, let: bool = True) -> None:
        self.name = name
        self.begun = threading.Event()
        self.may = threading.Event()
        if let:
            self.may.set()
        self._finished = finished

    def submit_to(self, committer: Committer) -> None:
        committer.submit(self.run, self.finish)

    def run(self) -> None:
        self.begun.set()
        self.may.wait(WITHIN_S)

    def finish(self) -> None:
        self._finished.put_nowait(self.name)


async def test_a_thread_that_hangs_holds_up_no_job_of_others() -> None:
    finished: asyncio.Queue[str] = asyncio.Queue()
    committer = Committer(asyncio.get_running_loop(), threads=2)
    hanging, slow = (Noted(name, finished, let=False) for name in ("hanging", "slow"))
    for job in (hanging, slow):
        job.submit_to(committer)
        assert await asyncio.to_thread(job.begun.wait, WITHIN_S)
    for name in "abc":
        Noted(name, finished).submit_to(committer)
    slow.may.set()
    async with asyncio.timeout(WITHIN_S):
        assert [await finished.get() for _ in range(4)] == ["slow", "a", "b", "c"]
        # By now it may rest, or not yet.
        for name in "de":
            Noted(name, finished).submit_to(committer)
            assert await finished.get() == name
    hanging.may.set()
    assert await asyncio.to_thread(committer.close, 10)


async def test_what_is_queued_is_run_before_the_threads_end() -> None:
    finished: asyncio.Queue[str] = asyncio.Queue()
    committer = Committer(asyncio.get_running_loop(), threads=2)
    jobs = [Noted(str(number), finished, let=False) for number in range(20)]
    for job in jobs:
        job.submit_to(committer)
    closing = asyncio.create_task(asyncio.to_thread(committer.close, 10))
    for job in jobs:
        job.may.set()
    async with asyncio.timeout(WITHIN_S):
        assert {await finished.get() for _ in jobs} == {job.name for job in jobs}
    assert await closing


async def test_threads_that_rest_are_woken_again_and_again() -> None:
    finished: asyncio.Queue[str] = asyncio.Queue()
    committer = Committer(asyncio.get_running_loop(), threads=2)
    async with asyncio.timeout(WITHIN_S):
        for turn in range(300):
            names = [f"{turn}.{number}" for number in range(turn % 4 + 1)]
            for name in names:
                Noted(name, finished).submit_to(committer)
            assert sorted([await finished.get() for _ in names]) == names
    assert await asyncio.to_thread(committer.close, 10)


async def test_a_job_that_fails_keeps_no_other_from_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(Noted):
        """Fails in its thread, and again on the loop."""

        def run(self) -> None:
            super().run()
            raise OSError("the disk is gone")

        def finish(self) -> None:
            super().finish()
            raise OSError("the log is gone")

    finished: asyncio.Queue[str] = asyncio.Queue()
    committer = Committer(asyncio.get_running_loop(), threads=1)
    async with asyncio.timeout(WITHIN_S):
        for _ in range(2):
            for kind, name in ((Failing, "failing"), (Noted, "sound")):
                kind(name, finished).submit_to(committer)
            assert [await finished.get() for _ in range(2)] == ["failing", "sound"]
    for error in ("OSError: the disk is gone", "OSError: the log is gone"):
        assert caplog.text.count(error) == 2
    assert await asyncio.to_thread(committer.close, 10)


class Called:
    """Stands for the loop: what threads have called on it runs when a test says so."""

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], None]] = deque()
        self.call_soon_threadsafe = self.waiting.append

    def run(self) -> None:
        while self.waiting:
            self.waiting.popleft()()


def finish_interrupted(step: int) -> tuple[int, list[str]]:
    """Finish one job while another ends at the given step of that.

    Returns how many steps there were, and the jobs that are finished.
    """
    loop: Any = Called()
    committer, finished, steps = Committer(loop, threads=1), list[str](), 0

    def end(name: str) -> None:
        handled = threading.Event()
        committer.submit(lambda: None, lambda: finished.append(name))
        committer.submit(handled.set)
        assert handled.wait(WITHIN_S)

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal steps
        if frame.f_code.co_filename != committer_module.__file__:
            return None
        if event == "line":
            if steps == step:
                end("second")
            steps += 1
        return trace

    end("first")
    former = sys.gettrace()
    sys.settrace(trace)
    try:
        loop.run()
    finally:
        sys.settrace(former)
    loop.run()
    assert committer.close(10)
    return steps, finished


def test_a_job_is_finished_though_it_ends_at_any_step_of_finishing_another() -> None:
    steps, _ = finish_interrupted(-1)
    assert steps > 3
    for step in range(steps):
        assert finish_interrupted(step)[1] == ["first", "second"], f"at step {step}"
