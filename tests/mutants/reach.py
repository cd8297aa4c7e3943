"""Which tests come by which line, so that a change is tried on those alone."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coverage import CoverageData

MAX_TESTS = 400
"""Where more tests than this come by, the quickest of them are run."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What one run of a room's tests came by."""

    tests_of: Mapping[Path, Mapping[int, frozenset[str]]]
    """The tests by file and line; among them ``""`` where an import came by."""
    seconds: Mapping[str, float]

    def tests(self, path: Path, lines: Iterable[int]) -> list[str]:
        """Those that come by one of the lines, the quickest first.

        After them all others where one of the lines is run by an import, since it is not known what
        comes of it where.
        """
        known = self.tests_of.get(path.resolve(), {})
        nearest = set().union(*(known.get(line, ()) for line in lines))
        others: set[str] = set()
        if "" in nearest:
            others = set().union(
                *(tests for file in self.tests_of.values() for tests in file.values())
            )
            others -= nearest
        return [*self._quickest(nearest - {""}), *self._quickest(others)][:MAX_TESTS]

    def _quickest(self, tests: Iterable[str]) -> list[str]:
        return sorted(tests, key=lambda test: (self.seconds.get(test, 0.0), test))


def measure(copy: Path, tests: Sequence[str], env: dict[str, str]) -> Reach:
    """Run the tests once, and see where they come by. Raises ``RuntimeError`` if any fails."""
    data, times = copy / "reach.sqlite", copy / "times.xml"
    watch = ["--cov=counterpoise", "--cov-context=test", "--cov-report=", f"--junitxml={times}"]
    # Watched line by line, what goes through every order of events takes its time, and whatever a
    # test leaves to the collector comes up in another.
    watch += ["-o", "timeout=0", "-p", "no:unraisableexception"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *watch, *tests],
        cwd=copy,
        env={**env, "COVERAGE_FILE": str(data)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the tests fail before anything is changed:\n{done.stdout[-3000:]}")
    found = CoverageData(basename=str(data))
    found.read()
    tests_of = {
        Path(file).resolve(): {
            line: frozenset(context.rpartition("|")[0] for context in contexts)
            for line, contexts in found.contexts_by_lineno(file).items()
        }
        for file in found.measured_files()
    }
    return Reach(tests_of, _seconds(times))


def _seconds(times: Path) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for case in ET.parse(times).iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        seconds[f"{file}::{case.get('name')}"] += float(case.get("time", 0))
    return seconds
