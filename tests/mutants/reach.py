"""Which tests come by which line, so that a change is tried on those alone."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from coverage import CoverageData

MEASURE_S = 1800.0
"""How long a room's tests may take once, watched line by line."""
MAX_TESTS = 400
MAX_SECONDS = 40.0
"""Where more tests than this come by, or longer ones, the quickest of them are run."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What one run of a room's tests came by."""

    tests_of: Mapping[Path, Mapping[int, frozenset[str]]]
    """The tests by file and line of the room; among them ``""`` where an import came by."""
    seconds: Mapping[str, float]
    """What each test took (s): those that pass before anything is changed."""

    def tests(self, path: Path, lines: Iterable[int]) -> list[str]:
        """Those that come by one of the lines, the quickest first.

        After them all others where one of the lines is run by an import, since it is not known what
        comes of it where.
        """
        known = self.tests_of.get(path.resolve(), {})
        nearest = set().union(*(known.get(line, ()) for line in lines))
        others: set[str] = set()
        if "" in nearest:
            others = self.seconds.keys() - nearest
        found = [*self._quickest(nearest - {""}), *self._quickest(others)][:MAX_TESTS]
        ends = accumulate(self.seconds.get(test, 0.0) for test in found)
        return [test for test, end in zip(found, ends, strict=True) if end <= MAX_SECONDS] or found[
            :1
        ]

    def takes(self, tests: Iterable[str]) -> float:
        """How long tests took, watched line by line (s)."""
        return sum(self.seconds.get(test, 0.0) for test in tests)

    def _quickest(self, tests: Iterable[str]) -> list[str]:
        return sorted(tests, key=lambda test: (self.seconds.get(test, 0.0), test))


def measure(copy: Path, room: str, tests: Sequence[str], env: dict[str, str]) -> Reach:
    """Run the tests once, and see where they come by in the files of a room.

    A test that fails before anything is changed notices nothing; it is printed, and left out.
    Raises ``RuntimeError`` where that is more than a few.
    """
    data, times = copy / "reach.sqlite", copy / "times.xml"
    # Of the room alone: to watch every line that a test comes by takes several times as long.
    watch = [f"--cov={copy / 'src' / 'counterpoise' / room}", "--cov-context=test"]
    watch += ["--cov-report=", f"--junitxml={times}"]
    # Watched line by line, what goes through every order of events takes its time, and whatever a
    # test leaves to the collector comes up in another. Hypothesis gives the examples of later runs.
    watch += ["-o", "timeout=0", "-p", "no:unraisableexception", "-p", "tests.mutants.in_a_hurry"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--maxfail=6", *watch, *tests],
            cwd=copy,
            env={**env, "COVERAGE_FILE": str(data)},
            capture_output=True,
            text=True,
            timeout=MEASURE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"they take more than {MEASURE_S:g} s") from None
    failed, seconds = _outcomes(times, copy) if times.exists() else (frozenset[str](), {})
    if len(failed) > 5 or (done.returncode and not failed):
        raise RuntimeError(f"the tests fail before anything is changed:\n{done.stdout[-3000:]}")
    print(*(f"failed before anything was changed: {test}" for test in failed), sep="\n", flush=True)
    found = CoverageData(basename=str(data))
    found.read()
    tests_of = {
        Path(file).resolve(): {
            line: frozenset(context.rpartition("|")[0] for context in contexts) - failed
            for line, contexts in found.contexts_by_lineno(file).items()
        }
        for file in found.measured_files()
    }
    return Reach(tests_of, {test: took for test, took in seconds.items() if test not in failed})


def _outcomes(times: Path, copy: Path) -> tuple[frozenset[str], dict[str, float]]:
    """The tests that failed, and what each took (s)."""
    seconds: dict[str, float] = defaultdict(float)
    failed = set()
    for case in ET.parse(times).iter("testcase"):
        test = f"{_place(case.get('classname', ''), copy)}::{case.get('name')}"
        seconds[test] += float(case.get("time", 0))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(test)
    return frozenset(failed), seconds


def _place(dotted: str, copy: Path) -> str:
    """A test's file, and its class if it is in one, as pytest names them."""
    # A file that cannot be imported has no class: pytest gives its name alone.
    parts = dotted.split(".") if dotted else []
    for end in range(len(parts), 0, -1):
        file = Path(*parts[:end]).with_suffix(".py")
        if (copy / file).exists():
            return "::".join([str(file), *parts[end:]])
    return dotted
