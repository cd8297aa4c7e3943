"""``make mutants``: change the code at random and by hand, and see which changes no test notices.

The random ones are Cosmic Ray's. Everything happens in a copy of the sources, one change at a time.
Exit status 1 when a planted fault survives, or a random one that ``survivors.txt`` does not explain.
"""

from __future__ import annotations

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

ROOT = Path(__file__).resolve().parents[2]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
ROOMS = {
    "storage": ["tests/storage", "tests/broker/topic/test_damage.py"],
    "ownership": ["tests/ownership"],
    "wire": ["tests/wire"],
    "broker/topic": ["tests/broker/topic"],
    "pipeline": ["tests/pipeline", "-m", "not spark"],
}
"""What is changed, and the tests that are to notice."""

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
                survivors += _random(copy, room, args.each, until, rng)
    return 1 if survivors else 0


@contextlib.contextmanager
def changed_copy() -> Iterator[Path]:
    """The sources and tests, to be changed."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as made:
        copy = Path(made)
        ignored = shutil.ignore_patterns("__pycache__")
        for name in ("src", "tests"):
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
    finally:
        path.write_text(before)
    # 1: tests failed. Anything else says that no test ran.
    noticed = done.returncode == 1
    print(f"{'noticed ' if noticed else 'SURVIVED'}  {fault.file}: {fault.what}", flush=True)
    return noticed


def _random(copy: Path, room: str, count: int, until: float, rng: random.Random) -> int:
    """Change a room ``count`` times; how many changes nobody noticed and nobody explains."""
    from cosmic_ray.commands.init import init
    from cosmic_ray.mutating import mutate_and_test
    from cosmic_ray.work_db import WorkDB, use_db
    from cosmic_ray.work_item import TestOutcome

    explained = (Path(__file__).with_name("survivors.txt")).read_text()
    modules = [
        path
        for path in sorted((copy / "src" / "counterpoise" / room).rglob("*.py"))
        if not path.name.endswith("_pb2.py")
    ]
    with use_db(str(copy / "session.sqlite"), WorkDB.Mode.create) as work:
        init(modules, work, {})
        items = sorted(work.pending_work_items, key=lambda each: repr(each.mutations))
    chosen = rng.sample(items, min(count, len(items)))
    words = " ".join([*PYTEST, *(f"'{each}'" for each in ROOMS[room])])
    os.environ.update(_environment(copy))
    before = Path.cwd()
    os.chdir(copy)
    tried = noticed = unexplained = 0
    try:
        for item in chosen:
            if time.monotonic() > until:
                break
            outcome = mutate_and_test(item.mutations, words, TEST_TIMEOUT_S)
            tried += 1
            if outcome.test_outcome is not TestOutcome.SURVIVED:
                noticed += 1
                continue
            change = [
                line
                for line in (outcome.diff or "").splitlines()
                if line[:1] in "+-" and line[:3] not in ("---", "+++")
            ]
            name = item.mutations[0].module_path
            told = f"{Path(name).relative_to(copy / 'src' / 'counterpoise')}\n" + "\n".join(change)
            known = all(line in explained for line in change)
            unexplained += not known
            print(f"{'explained' if known else 'SURVIVED '} {told}", flush=True)
    finally:
        os.chdir(before)
        (copy / "session.sqlite").unlink(missing_ok=True)
    print(f"{room}: {noticed} of {tried} random changes noticed ({len(items)} are possible)")
    return unexplained


if __name__ == "__main__":
    sys.exit(main())
