"""The harness itself, on a pretended judge: differences are found, made small and written down."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.conformance import __main__ as command
from tests.conformance.runner import run
from tests.conformance.shrink import smaller_load_data
from tests.conformance.suite import Answer, Case, Suite

HOT = 3e6


class PretendedJudge:
    """Answers the names of the hot bundles of each line; `asked` counts cases."""

    def __init__(self) -> None:
        self.asked = 0
        self._cases: list[Case] = []

    def submit(self, cases: list[Case]) -> None:
        self._cases = cases
        self.asked += len(cases)

    def collect(self) -> list[Answer]:
        return [hot(case) for case in self._cases]

    def ask(self, cases: list[Case]) -> list[Answer]:
        self.submit(cases)
        return self.collect()


def hot(case: Case) -> Answer:
    return [sorted(b for b, d in line["bundleData"].items() if d > HOT) for line in case["lines"]]


def hot_but_never_two(case: Case) -> Answer:
    """Ours, with a fault: of several hot bundles it names one."""
    return [names[:1] for names in hot(case)]


def generate(rng: Random) -> Case:
    lines = [
        {
            "now": 1,
            "brokerData": {f"b{i}": {"localData": {"bundles": []}} for i in range(4)},
            "bundleData": {f"bundle-{i}": rng.uniform(0, 4e6) for i in range(8)},
        }
        for _ in range(4)
    ]
    return {"op": "hot", "mode": "", "lines": lines, "conf": {"loadBalancerEnabled": True}}


def suite(ours: Any) -> Suite:
    return Suite("hot", generate, ours, smaller=smaller_load_data, acted=lambda a: sum(map(len, a)))


def test_agreement_is_no_failure(tmp_path: Path) -> None:
    judge: Any = PretendedJudge()
    outcome = run(suite(hot), judge, lines=50, seed=1, out=tmp_path)
    assert outcome.lines >= 50
    assert outcome.acted
    assert not outcome.failures
    assert "no difference" in outcome.sentence
    assert not list(tmp_path.iterdir())


def test_a_difference_is_minimised_and_written(tmp_path: Path) -> None:
    judge: Any = PretendedJudge()
    said: list[str] = []
    outcome = run(suite(hot_but_never_two), judge, lines=50, seed=1, out=tmp_path, say=said.append)
    assert outcome.failures
    assert "DIFFERENCES" in outcome.sentence
    assert said
    (first, *_) = sorted(tmp_path.iterdir())
    found = json.loads(first.read_text(encoding="utf-8"))
    small = found["case"]
    assert len(small["lines"]) == 1, "one line shows it"
    assert len(small["lines"][0]["bundleData"]) == 2, "two hot bundles show it"
    assert not small["lines"][0]["brokerData"]
    assert not small["conf"]
    assert found["java"] != found["ours"]


def test_an_exception_of_ours_is_a_difference(tmp_path: Path) -> None:
    def broken(case: Case) -> Answer:
        raise KeyError("gone")

    judge: Any = PretendedJudge()
    outcome = run(suite(broken), judge, lines=10, seed=1, out=tmp_path)
    assert outcome.failures[0]["ours"] == {"raised": "KeyError: 'gone'"}


def test_the_same_seed_draws_the_same_cases(tmp_path: Path) -> None:
    first: Any = PretendedJudge()
    second: Any = PretendedJudge()
    one = run(suite(hot), first, lines=40, seed=5, out=tmp_path)
    two = run(suite(hot), second, lines=40, seed=5, out=tmp_path)
    assert (one.lines, one.acted, first.asked) == (two.lines, two.acted, second.asked)


class UnrulyJudge(PretendedJudge):
    """One whose own table order changes every answer."""

    def collect(self) -> list[Answer]:
        return [hot(case) if case["by_name"] else [["tie"]] * 4 for case in self._cases]


def test_what_proves_less_than_it_should_says_so(tmp_path: Path) -> None:
    judge: Any = PretendedJudge()
    good = run(suite(hot), judge, lines=400, seed=1, out=tmp_path)
    assert good.shortcoming is None
    idle = Suite("idle", generate, hot, acted=lambda answer: 0)
    assert "never acted" in str(run(idle, judge, lines=40, seed=1, out=tmp_path).shortcoming)
    assert "judged nothing" in str(
        run(suite(hot), judge, lines=0, seed=1, out=tmp_path).shortcoming
    )


def test_ties_explain_only_so_many_differences_in_javas_own_order(tmp_path: Path) -> None:
    judge: Any = UnrulyJudge()
    tied = replace(suite(hot), orders=True, floor=0.5)
    outcome = run(tied, judge, lines=800, seed=1, out=tmp_path)
    assert not outcome.failures
    assert "ties explain no more than 50%" in str(outcome.shortcoming)
    assert run(replace(tied, floor=0.0), judge, lines=800, seed=1, out=tmp_path).shortcoming is None


def test_who_judged_nothing_has_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "pulsar_lib", lambda version: None)
    assert command.main(["--lines", "1"]) == command.EXIT_NOT_JUDGED
    assert command.main(["--lines", "1", "--only", "names"]) == command.EXIT_NOT_JUDGED
    assert command.main(["--list"]) == 0
