"""Child processes: ready at their ready line, ended on request or with their parent."""

import os
import queue
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from counterpoise.app.clusters.processes import Child, ChildFailedError, ChildSpec

SAYS_READY_THEN_WAITS = "import signal; print('ready now', flush=True); signal.pause()"


def spec(tmp_path: Path, script: str, **changes: object) -> ChildSpec:
    arguments = {
        "name": "child",
        "argv": [sys.executable, "-c", script],
        "is_ready": lambda line: line.startswith("ready"),
        "log": tmp_path / "child.log",
        **changes,
    }
    return ChildSpec(**arguments)  # type: ignore[arg-type]


def wait_gone(pid: int) -> None:
    """Wait until a process that is not our child has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], 100)[0], f"process {pid} still runs"
    finally:
        os.close(descriptor)


def test_the_ready_line_is_given_and_output_is_kept(tmp_path: Path) -> None:
    script = "print('starting', flush=True); " + SAYS_READY_THEN_WAITS
    with Child.start(spec(tmp_path, script)) as child:
        assert child.ready_line == "ready now"
        assert child.is_alive
        assert os.getpgid(child.pid) == child.pid
    assert not child.is_alive
    assert (tmp_path / "child.log").read_text() == "starting\nready now\n"


def test_a_child_that_ends_before_it_is_ready_is_reported_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(ChildFailedError, match=r"status 3 before it was ready: no such thing"):
        Child.start(spec(tmp_path, "import sys; print('no such thing'); sys.exit(3)"))


def test_one_that_is_not_ready_in_time_is_given_up_and_stopped(tmp_path: Path) -> None:
    script = f"import os, signal; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); "
    script += "print('waiting for a lock', flush=True); signal.pause()"
    for seconds in (1, 10, 100):
        with pytest.raises(ChildFailedError, match=f"not ready after {seconds} s: ") as given_up:
            Child.start(spec(tmp_path, script, ready_within_s=seconds))
        # On a busy machine it may not have come so far in a second.
        if "s: no output (" not in str(given_up.value):
            break
    assert f"not ready after {seconds} s: waiting for a lock (its" in str(given_up.value)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_one_whose_log_cannot_be_written_is_not_started(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        Child.start(spec(tmp_path, "print('ready')", log=tmp_path, ready_within_s=1))


def test_one_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    script = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    child = Child.start(spec(tmp_path, script + SAYS_READY_THEN_WAITS, stop_within_s=0.2))
    assert child.stop() == -signal.SIGKILL


@pytest.mark.parametrize("end", ["signal.pause()", "pass"], ids=["stopped", "by itself"])
def test_what_a_child_started_goes_with_it(end: str, tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, signal\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'],"
        " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        f"print('ready', inner.pid, flush=True); {end}"
    )
    child = Child.start(spec(tmp_path, script))
    inner = int(child.ready_line.split()[1])
    if end != "pass":
        child.stop()
    wait_gone(inner)


def test_children_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = (
        "import sys, signal\nfrom pathlib import Path\n"
        "from counterpoise.app.clusters.processes import Child, ChildSpec\n"
        f"child = Child.start(ChildSpec('inner', [sys.executable, '-c', {SAYS_READY_THEN_WAITS!r}],"
        f" lambda line: 'ready' in line, Path({str(tmp_path / 'inner.log')!r})))\n"
        "print(child.pid, flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        inner = int(process.stdout.readline())
        assert psutil.pid_exists(inner)
        process.kill()
    wait_gone(inner)


@pytest.mark.parametrize(
    ("asked", "log"),
    [(True, "log"), (False, "log"), (False, "/dev/full")],
    ids=["stopped", "by itself", "with a full disk"],
)
def test_the_end_of_a_child_is_reported_unless_it_was_asked_for(
    asked: bool, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    script = "import sys; print('ready', flush=True); sys.exit(3)"
    if asked:
        script = "import signal; print('ready', flush=True); signal.pause()"
    child = Child.start(spec(tmp_path, script, on_ended=ended.put, log=tmp_path / log))
    if not asked:
        assert ended.get(timeout=100) == 3
        child.stop()
        # By now a stranger's group may have its id.
        monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("a signal to a stranger"))
    child.stop()  # returns when its output is read to the end, after which nothing is reported
    assert ended.empty()


def test_variables_of_a_child_win_over_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOISE_TEST", "ours")
    script = "import os; print('ready', os.environ['COUNTERPOISE_TEST'], flush=True)"
    with Child(spec(tmp_path, script, environment={"COUNTERPOISE_TEST": "its own"})) as child:
        assert child.wait_ready() == "ready its own"


def test_one_whose_output_no_thread_can_read_does_not_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(psutil.Process().children())

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(OSError, match=r"child.*can't start new thread"):
        Child(spec(tmp_path, SAYS_READY_THEN_WAITS))
    assert set(psutil.Process().children()) == before
