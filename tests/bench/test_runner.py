"""`make bench`: a benchmark that fails is a line in the summary, and leaves no process behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from bench.__main__ import run

ROOT = Path(__file__).parents[2]

# What stands for benchmarks here, by name: each is the body of `run`.
BODIES = {
    "good": "return [Figure('a thing', 2.0, 'ms', 'another', 4.0, 'half', True)]",
    "slow": "subprocess.run(['sleep', '600']); return []",
    "wrong": "raise ValueError('no such broker')",
}


@pytest.fixture
def benchmarks(tmp_path: Path) -> Path:
    """A copy of the runner with three benchmarks of this test's own."""
    package = tmp_path / "bench"
    package.mkdir()
    for name in ("__init__", "__main__", "_alone", "_machine", "_page", "figures"):
        text = (ROOT / "bench" / f"{name}.py").read_text(encoding="utf-8")
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    for name, body in BODIES.items():
        head = "import subprocess\nfrom bench.figures import Figure\n\n\ndef run(*, quick, out):\n"
        (package / f"{name}.py").write_text(f"{head}    {body}\n", encoding="utf-8")
    (tmp_path / "docs").mkdir()
    return tmp_path


def bench(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def left_of(group: int) -> list[str]:
    """The processes of a group that run a minute later still; what was killed needs a moment."""
    until = time.monotonic() + 60
    while True:
        # A dead one has the state Z until its new parent collects it.
        words = ["pgrep", "--runstates", "D,R,S,T", "-g", str(group)]
        found = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()
        if not found or time.monotonic() > until:
            return found


def test_a_benchmark_that_raises_or_hangs_is_a_line_and_the_others_have_their_figures(
    benchmarks: Path,
) -> None:
    ran = bench(benchmarks, "--minutes", "0.2")
    assert ran.returncode == 1
    assert "1 figures, 0 below their bar, 2 benchmarks failed" in ran.stdout
    assert "failed: slow: was ended after 12 s" in ran.stdout
    assert "failed: wrong: status 1: ValueError: no such broker" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr
    figures = json.loads((benchmarks / "artifacts/bench/figures.json").read_text(encoding="utf-8"))
    assert [(one["benchmark"], one["figures"][0]["ratio"]) for one in figures] == [("good", 0.5)]


def test_figures_of_an_earlier_run_stay_when_one_benchmark_is_repeated(benchmarks: Path) -> None:
    out = benchmarks / "artifacts/bench"
    assert bench(benchmarks, "good").returncode == 0
    assert bench(benchmarks, "wrong").returncode == 1
    assert [each["benchmark"] for each in json.loads((out / "figures.json").read_text())] == [
        "good"
    ]
    assert bench(benchmarks, "--docs").returncode == 0
    page = (benchmarks / "docs/PERFORMANCE.md").read_text(encoding="utf-8")
    assert "| a thing | 2 ms | another 4 | 0.5 | half | holds |" in page


def test_a_runner_that_is_ended_ends_its_benchmark(benchmarks: Path) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-u", "-m", "bench", "slow"],
        cwd=benchmarks,
        env=os.environ | {"PYTHONPATH": str(benchmarks)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert runner.stdout is not None
    assert runner.stdout.readline() == "== slow\n"
    benchmark = _only_child(runner.pid)
    runner.send_signal(signal.SIGTERM)
    _, errors = runner.communicate(timeout=100)
    assert "Traceback" not in errors
    assert left_of(benchmark) == []


def test_a_signal_while_a_benchmark_is_being_started_ends_it(
    benchmarks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    class Interrupted(subprocess.Popen[str]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self.pid)
            signal.raise_signal(signal.SIGINT)

    # A shell starts background jobs with it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.chdir(benchmarks)
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("slow", benchmarks, quick=True, limit_s=60)
    monkeypatch.undo()
    [benchmark] = started
    assert left_of(benchmark) == []


def _only_child(parent: int) -> int:
    """The process that a process started; it is about to, if it has not yet."""
    while True:
        found = subprocess.run(
            ["pgrep", "-P", str(parent)], capture_output=True, text=True, check=False
        ).stdout.split()
        if found:
            return int(found[0])
