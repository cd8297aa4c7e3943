"""The program that only the leader runs."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from counterpoise.app import supervisor
from counterpoise.app.processes import ChildSpec
from counterpoise.app.supervisor import LeaderProgram

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
    await asyncio.to_thread(child.wait, 20)
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


async def test_one_that_ends_by_itself_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "BACK_OFF_FIRST_S", 0.01)
    made = Observed(tmp_path, "raise SystemExit(3)")
    made.program.start()
    made.program.on_leadership(True)
    for _ in range(3):
        await asyncio.wait_for(made.starts.get(), 30)
    await made.program.stop()


async def test_other_settings_start_it_anew_without_a_pause(observed: Observed) -> None:
    observed.program.restart()  # Nothing runs yet: nothing to do.
    observed.program.on_leadership(True)
    await observed.starts.get()
    child = observed.program.child
    assert child is not None
    await asyncio.to_thread(child.wait_ready)
    observed.program.restart()
    await asyncio.wait_for(observed.starts.get(), 30)
    assert observed.program.child is not child
    assert not child.is_alive
