"""Runs of pytest that begin with everything of others loaded: half of what a short one costs."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# What is loaded before the fork. Nothing of ours is: it changes.
import aiohttp.web  # noqa: F401
import google.protobuf.message  # noqa: F401
import hypothesis.strategies  # noqa: F401
import numpy as np  # noqa: F401
import pytest
import pytest_asyncio  # noqa: F401
import pytest_timeout  # noqa: F401


def fails(
    arguments: Sequence[str], copy: Path, environment: Mapping[str, str], timeout_s: float
) -> bool:
    """Whether a test fails with ``copy``'s sources, or the run takes longer than it may.

    Raises ``RuntimeError`` where no test could be run.
    """
    said = copy / "said.txt"
    fork = multiprocessing.get_context("fork")
    run = fork.Process(target=_run, args=(arguments, copy, environment, said))
    run.start()
    run.join(timeout_s)
    if run.exitcode is None:
        run.kill()
        run.join()
        return True
    output = said.read_text(errors="replace")
    no_such_test = run.exitcode == pytest.ExitCode.USAGE_ERROR and "not found:" in output
    if run.exitcode == pytest.ExitCode.NO_TESTS_COLLECTED or no_such_test:
        raise RuntimeError(f"{' '.join(arguments)[:500]}\n{output[-3000:]}")
    return run.exitcode != 0


def _run(arguments: Sequence[str], copy: Path, environment: Mapping[str, str], said: Path) -> None:
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
