"""What Pulsar's classes answered, kept: replayed by `make test`, where there is no Java.

`python -m tests.conformance.vectors` captures them again from the jars.
"""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.conformance.jars import AVG_SHEDDER_VERSION, MAIN_VERSION, pulsar_lib
from tests.conformance.runner import answer_of
from tests.conformance.suite import Answer, Case, Suite
from tests.conformance.suites import SUITES
from tests.conformance.worker import Judge

DIRECTORY = Path(__file__).with_name("vectors")
SEED = 20_240_501
BYTES_MAX = 12_000
"""A case larger than this as JSON is not kept: vectors are for breadth, `make conformance` for
size."""


def path_of(suite: str) -> Path:
    return DIRECTORY / f"{suite.replace('/', '-')}.jsonl.gz"


def load(suite: str) -> Iterator[tuple[Case, Answer]]:
    """The kept cases of a suite, with Pulsar's answers."""
    with gzip.open(path_of(suite), "rt", encoding="utf-8") as lines:
        for line in lines:
            kept = json.loads(line)
            yield kept["case"], kept["java"]


def capture(suite: Suite, judge: Judge) -> None:
    """Ask the judge about new cases and keep them, half of them cases that led to something."""
    rng = Random(f"{suite.name}/{SEED}")
    kept: list[str] = []
    idle = 0
    while len(kept) < suite.kept:
        cases = [suite.generate(rng) for _ in range(suite.kept)]
        for case in cases:
            answer_of(suite, case)  # leaves our picks in the case where Java goes on from them
        answers = judge.ask([{**case, "by_name": True} for case in cases])
        for case, answer in zip(cases, answers, strict=True):
            text = json.dumps({"case": case, "java": answer}, separators=(",", ":"))
            acted = suite.acted(answer) > 0
            if (
                len(text) > BYTES_MAX
                or len(kept) >= suite.kept
                or (not acted and idle >= suite.kept // 2)
            ):
                continue
            idle += not acted
            kept.append(text)
    DIRECTORY.mkdir(exist_ok=True)
    with (
        path_of(suite.name).open("wb") as file,
        gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed,
    ):
        packed.write("".join(f"{line}\n" for line in kept).encode())


def main(wanted: list[str]) -> int:
    for version in (MAIN_VERSION, AVG_SHEDDER_VERSION):
        suites = [s for s in SUITES.values() if s.version == version]
        suites = [s for s in suites if not wanted or s.name in wanted]
        if not suites:
            continue
        lib = pulsar_lib(version)
        if lib is None:
            return 1
        with Judge(lib) as judge:
            for suite in suites:
                capture(suite, judge)
                print(f"{suite.name}: {path_of(suite.name).stat().st_size} bytes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
