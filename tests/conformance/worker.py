"""A judge as a child process: one per Pulsar version, since two versions need two JVMs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class JudgeBrokenError(Exception):
    """The judge itself failed on a case: a fault of the harness, not of a decision."""


class Judge:
    """Pulsar's classes of one version behind a pipe. Use as a context manager.

    `submit` and `collect` are apart so that our side works while Java does: submit a batch, decide
    the same cases here, collect.
    """

    def __init__(self, lib: Path) -> None:
        self._lib = lib
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Judge":
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.jvm", str(self._lib)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=ROOT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        return self

    def __exit__(self, *_: object) -> None:
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.close()
        child.stdout.close()
        try:
            child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def submit(self, cases: list[dict[str, Any]]) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(cases) + "\n")
        self._child.stdin.flush()

    def collect(self) -> list[Any]:
        assert self._child is not None
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise JudgeBrokenError("the judge's process ended; its last words are above")
        replies = json.loads(line)
        for reply in replies:
            if "broken" in reply:
                raise JudgeBrokenError(reply["broken"])
        return [reply["answer"] for reply in replies]

    def ask(self, cases: list[dict[str, Any]]) -> list[Any]:
        self.submit(cases)
        return self.collect()
