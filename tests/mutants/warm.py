"""Runs of pytest that begin with everything of others loaded: half of what a short one costs."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

# What is loaded before the fork. Nothing of ours is: it changes.
import aiohttp.web  # noqa: F401
import google.protobuf.message  # noqa: F401
import hypothesis.strategies  # noqa: F401
import numpy as np  # noqa: F401
import pytest
import pytest_asyncio  # noqa: F401
import pytest_timeout  # noqa: F401


class Outcome(Enum):
    """How a run of tests ended."""

    PASSED = "passed"
    FAILED = "failed"
    OVERDUE = "overdue"
    """It took longer than it may, and was ended."""


def outcome_of(
    arguments: Sequence[str], copy: Path, environment: Mapping[str, str], timeout_s: float
) -> Outcome:
    """Run tests with ``copy``'s sources.

    Raises ``RuntimeError`` where no test could be run.
    """
    said = copy / "said.txt"
    fork = multiprocessing.get_context("fork")
    run = fork.Process(target=_run, args=(arguments, copy, environment, said))
    run.start()
    run.join(timeout_s)
    if run.exitcode is None:
        # With the processes that its tests have started.
        os.killpg(run.pid or 0, signal.SIGKILL)
        run.join()
        return Outcome.OVERDUE
    output = said.read_text(errors="replace")
    no_such_test = run.exitcode == pytest.ExitCode.USAGE_ERROR and "not found:" in output
    if run.exitcode == pytest.ExitCode.NO_TESTS_COLLECTED or no_such_test:
        raise RuntimeError(f"{' '.join(arguments)[:500]}\n{output[-3000:]}")
    return Outcome.FAILED if run.exitcode else Outcome.PASSED


def _run(arguments: Sequence[str], copy: Path, environment: Mapping[str, str], said: Path) -> None:
    os.setpgid(0, 0)
    with said.open("wb") as output:
        os.dup2(output.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())
    os.chdir(copy)
    os.environ.update(environment)
    sys.dont_write_bytecode = True
    for name in list(sys.modules):
        if name.partition(".")[0] in ("tests", "counterpoise"):
            del sys.modules[name]
    sys.path[:0] = [str(copy), str(copy / "src")]
    sys.exit(pytest.main(["--assert=plain", *arguments]))
