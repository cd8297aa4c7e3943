"""``make mutants``: change the code at random and by hand, and see which changes no test notices.

Everything happens in a copy of the sources, one change at a time.
Exit status 1 when a planted fault survives, or a random one that ``survivors.txt`` does not explain.
"""

import argparse
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.fault import Fault
from tests.mutants.planted import PLANTED
from tests.mutants.random_changes import ROOMS, try_some

ROOT = Path(__file__).resolve().parents[2]
PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "-x",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:schemathesis",
]
TEST_TIMEOUT_S = 180.0


def main() -> int:
    """Run what was asked for; see the module."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--planted", action="store_true", help="only the faults planted by hand")
    parser.add_argument("--random", action="store_true", help="only random changes")
    parser.add_argument("--rooms", nargs="*", default=list(ROOMS), choices=list(ROOMS))
    parser.add_argument("--each", type=int, default=20, help="random changes a room (default 20)")
    parser.add_argument("--minutes", type=float, default=30, help="stop after this long")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default 1)")
    args = parser.parse_args()
    survivors = 0
    with changed_copy() as copy:
        if not args.random:
            survivors += sum(not noticed(copy, fault) for fault in PLANTED)
            print(f"{len(PLANTED) - survivors} of {len(PLANTED)} planted faults noticed")
        if not args.planted:
            until = time.monotonic() + 60 * args.minutes
            rng = random.Random(args.seed)
            for room in args.rooms:
                survivors += try_some(copy, room, args.each, until, rng, env=_environment(copy))
    return 1 if survivors else 0


@contextlib.contextmanager
def changed_copy() -> Iterator[Path]:
    """The sources and tests, and what tests read, to be changed."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as made:
        copy = Path(made)
        ignored = shutil.ignore_patterns("__pycache__")
        for name in ("src", "tests", "scripts", "docs", "deploy", "bench"):
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", copy)
        yield copy


def _environment(copy: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "DAMAGE_SEEDS": "4",
    }


def noticed(copy: Path, fault: Fault) -> bool:
    """Whether the test of a planted fault fails with it (and the place is still there)."""
    path = copy / "src" / "counterpoise" / fault.file
    before = path.read_text()
    if before.count(fault.old) != 1:
        print(f"STALE     {fault.file}: {fault.what}: the text occurs {before.count(fault.old)} x")
        return False
    path.write_text(before.replace(fault.old, fault.new))
    try:
        done = subprocess.run(
            [*PYTEST, fault.test],
            cwd=copy,
            env=_environment(copy),
            capture_output=True,
            text=True,
            timeout=TEST_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(
            f"OVERDUE   {fault.file}: {fault.what}: no answer in {TEST_TIMEOUT_S:g} s", flush=True
        )
        return False
    finally:
        path.write_text(before)
    # 1: tests failed. Anything else says that no test ran.
    noticed = done.returncode == 1
    print(f"{'noticed ' if noticed else 'SURVIVED'}  {fault.file}: {fault.what}", flush=True)
    return noticed


if __name__ == "__main__":
    sys.exit(main())
