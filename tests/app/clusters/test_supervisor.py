"""The program that only the leader runs."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest

from counterpoise.app.clusters import supervisor
from counterpoise.app.clusters.processes import ChildSpec
from counterpoise.app.clusters.supervisor import LeaderProgram

WAITS = "import signal; print('up', flush=True); signal.pause()"


class Observed:
    """A leader program whose starts can be awaited."""

    def __init__(self, directory: Path, script: str) -> None:
        self.starts: asyncio.Queue[int] = asyncio.Queue()
        self._directory = directory
        self._script = script
        self.program = LeaderProgram(self._spec)

    def _spec(self) -> ChildSpec:
        self.starts.put_nowait(1)
        argv = [sys.executable, "-c", self._script]
        return ChildSpec("balancer", argv, lambda line: "up" in line, self._directory / "log")


@pytest.fixture
async def observed(tmp_path: Path) -> AsyncIterator[Observed]:
    made = Observed(tmp_path, WAITS)
    made.program.start()
    yield made
    await made.program.stop()


async def test_it_runs_while_this_broker_leads(observed: Observed) -> None:
    program = observed.program
    assert program.child is None
    program.on_leadership(True)
    await observed.starts.get()
    child = program.child
    assert child is not None
    await asyncio.to_thread(child.wait_ready)
    program.on_leadership(False)
    await asyncio.to_thread(child.wait, 100)
    program.on_leadership(True)
    await observed.starts.get()
    assert program.child is not child


async def test_stopping_stops_the_child(observed: Observed) -> None:
    observed.program.on_leadership(True)
    await observed.starts.get()
    child = observed.program.child
    assert child is not None
    await observed.program.stop()
    assert not psutil.pid_exists(child.pid)


@pytest.mark.parametrize("logs", [".", "no directory"])
async def test_one_that_ends_by_itself_or_cannot_be_started_is_started_again(
    logs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "BACK_OFF_FIRST_S", 0.01)
    (tmp_path / "no directory").touch()
    made = Observed(tmp_path / logs, "raise SystemExit(3)")
    made.program.start()
    made.program.on_leadership(True)
    for _ in range(3):
        await asyncio.wait_for(made.starts.get(), 100)
    await made.program.stop()


async def test_other_settings_start_it_again_without_a_pause(observed: Observed) -> None:
    observed.program.restart()  # Nothing runs yet: nothing to do.
    observed.program.on_leadership(True)
    await observed.starts.get()
    child = observed.program.child
    assert child is not None
    await asyncio.to_thread(child.wait_ready)
    observed.program.restart()
    await asyncio.wait_for(observed.starts.get(), 100)
    assert observed.program.child is not child
    assert not child.is_alive


class Runs:
    """Child processes in name only: each run takes its time by a clock that nothing else moves."""

    def __init__(self, *lifetimes: float) -> None:
        self.now = 0.0
        self.left = list(lifetimes)
        self.over = threading.Event()

    def start(self, spec: ChildSpec) -> "Runs":
        self.spec, self.pid = spec, 1
        return self

    def wait(self) -> int:
        if not self.left:
            self.over.wait()
            return 0
        self.now += self.left.pop(0)
        return 3

    def stop(self) -> None:
        self.over.set()


async def pauses_after(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *lifetimes: float
) -> list[float]:
    """The pauses after runs of so many seconds, as parts of the first one."""
    runs, waited, all_over = Runs(*lifetimes), [], asyncio.Event()

    async def wait_for(waiting: Coroutine[Any, Any, bool], pause_s: float) -> None:
        waiting.close()
        waited.append(pause_s)
        if len(waited) == len(lifetimes):
            all_over.set()
        raise TimeoutError

    monkeypatch.setattr(supervisor, "Child", runs.start)
    monkeypatch.setattr(supervisor.asyncio, "wait_for", wait_for)
    spec = ChildSpec("balancer", [], lambda _: True, tmp_path / "log")
    program = LeaderProgram(lambda: spec, lambda: runs.now)
    program.start()
    program.on_leadership(True)
    await all_over.wait()
    await program.stop()
    return [each / supervisor.BACK_OFF_FIRST_S for each in waited]


async def test_pauses_double_and_begin_again_after_a_steady_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    steady = supervisor.STEADY_AFTER_S
    lives = (0, 0, 0, steady + 1, 0, steady, 0)
    assert await pauses_after(monkeypatch, tmp_path, *lives) == [1, 2, 4, 1, 2, 4, 8]


async def test_pauses_have_a_longest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pauses = await pauses_after(monkeypatch, tmp_path, *([0.0] * 9))
    assert pauses[-2:] == [supervisor.BACK_OFF_MOST_S / supervisor.BACK_OFF_FIRST_S] * 2


async def test_a_broker_that_leads_no_longer_waits_for_no_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "BACK_OFF_FIRST_S", 3600.0)
    pausing = asyncio.Event()
    monkeypatch.setattr(supervisor.log, "warning", lambda *_: pausing.set())
    made = Observed(tmp_path, "raise SystemExit(3)")
    made.program.start()
    made.program.on_leadership(True)
    await made.starts.get()
    await pausing.wait()
    made.program.on_leadership(False)
    for _ in range(9):
        await asyncio.sleep(0)  # turns of the loop, in which the pause ends
    made.program.on_leadership(True)
    await asyncio.wait_for(made.starts.get(), 100)
    await made.program.stop()
