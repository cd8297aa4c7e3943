"""A sample of the vectors through the real command line: the contract that scripts rely on."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance import vectors
from tests.conformance.ours.shedding import conf_text
from tests.conformance.suites import SUITES
from tests.decide_command import Decide

SHEDDERS = tuple(name for name in SUITES if name.endswith("Shedder") and "/" not in name)
PLACEMENTS = tuple(name for name in SUITES if name.startswith("place/"))


@pytest.fixture
def answers(decide: Decide) -> Callable[..., list[Any]]:
    """What `counterpoise decide` answers to these lines under a case's settings."""

    def run(what: str, case: Any, lines: list[Any], *arguments: str) -> list[Any]:
        settings = [f"--set={name}={value}" for name, value in conf_text(case["conf"]).items()]
        status, found, complaint = decide(what, *lines, more=(*arguments, *settings))
        assert status == 0, complaint
        return found

    return run


def sample(name: str, count: int = 2) -> Iterator[tuple[Any, Any]]:
    """The first cases of a suite with many lines and something happening."""
    suite = SUITES[name]
    kept = sorted(vectors.load(name), key=lambda v: (-suite.acted(v[1]), json.dumps(v[0])))
    return iter(kept[:count])


@pytest.mark.parametrize("name", SHEDDERS)
def test_shed(answers: Callable[..., list[Any]], name: str) -> None:
    for case, java in sample(name):
        found = answers("shed", case, case["lines"], "--strategy", name)
        for answer, reply in zip(found, java, strict=True):
            if name == "TransferShedder":
                ours = [
                    [d["broker"], d["bundle"], d["destination"], d["reason"]]
                    for d in answer["decisions"]
                ]
                assert sorted(ours, key=repr) == reply["decisions"]
                continue
            bundles: dict[str, list[str]] = {}
            for decision in answer["decisions"]:
                bundles.setdefault(decision["broker"], []).append(decision["bundle"])
            assert bundles == reply["bundles"]


@pytest.mark.parametrize("name", PLACEMENTS)
def test_place(answers: Callable[..., list[Any]], name: str) -> None:
    for case, java in sample(name, 1):
        found = answers("place", case, case["requests"], "--strategy", case["strategy"])
        picks = case.get("picks")
        for number, (answer, reply) in enumerate(zip(found, java, strict=True)):
            if picks is None or name != "place/AvgShedder" or number == 0:
                assert sorted(answer["admissible"]) == reply.get("admissible", [])


def test_split(answers: Callable[..., list[Any]]) -> None:
    for case, java in sample("split/algorithms", 4):
        line = {key: case[key] for key in ("bundle", "topics", "boundaries")}
        (answer,) = answers("split", case, [line], "--algorithm", case["algorithm"])
        assert [int(point, 16) for point in answer["boundaries"]] == java["boundaries"]


def test_a_bad_line_is_named_and_no_traceback_shown() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "counterpoise.app.main", "decide", "shed", "--strategy=AvgShedder"],
        input='{"now": 1, "brokerData": {}, "bundleData": {}}\n{"now": 1, "brokerData": 5}\n',
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "line 2" in done.stderr
    assert "Data" in done.stderr
    assert "Traceback" not in done.stderr
