"""Run a suite: cases to both sides, answers compared, differences minimised and written down."""

import json
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.conformance.shrink import minimise
from tests.conformance.suite import Answer, Case, Suite
from tests.conformance.worker import Judge

FAILURES_MAX = 3
ENOUGH_IN_OWN_ORDER = 100
"""Lines from which the share that agrees in Java's own order says something."""


@dataclass(slots=True)
class Outcome:
    """What one suite found."""

    suite: str
    floor: float = 0.0
    lines: int = 0
    acted: int = 0
    asked_in_own_order: int = 0
    same_in_own_order: int = 0
    seconds: float = 0.0
    failures: list[dict[str, object]] = field(default_factory=list)
    modes: Counter[str] = field(default_factory=Counter)

    @property
    def shortcoming(self) -> str | None:
        """Why the outcome proves less than it should, or None; differences are counted apart."""
        if not self.lines:
            return f"{self.suite}: judged nothing"
        if not self.acted:
            return f"{self.suite}: never acted, so nothing was proved"
        asked, same = self.asked_in_own_order, self.same_in_own_order
        if asked >= ENOUGH_IN_OWN_ORDER and same < self.floor * asked:
            return (
                f"{self.suite}: {same} of {asked} lines are the same in Java's own table order, "
                f"and ties explain no more than {1 - self.floor:.0%}"
            )
        return None

    @property
    def sentence(self) -> str:
        """The outcome for a person."""
        verdict = "no difference" if not self.failures else f"{len(self.failures)} DIFFERENCES"
        text = f"{self.suite}: {self.lines} lines, {self.acted} acted, {verdict}"
        if self.asked_in_own_order:
            share = 100.0 * self.same_in_own_order / self.asked_in_own_order
            text += f"; {share:.1f} % the same in Java's own table order, the rest ties"
        return f"{text} ({self.seconds:.0f} s)"


def answer_of(suite: Suite, case: Case) -> Answer:
    """Our answer; an exception or warning of ours is an answer too, and a difference."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return suite.ours(case)
    except Exception as error:
        return {"raised": f"{type(error).__name__}: {error}"}


def run(
    suite: Suite,
    judge: Judge,
    *,
    lines: int,
    seed: int,
    out: Path,
    seconds: float | None = None,
    say: Callable[[str], None] = lambda _: None,
    own_order_share: float = 0.25,
) -> Outcome:
    """Compare until `lines` lines were judged, `seconds` passed, or three cases failed."""
    outcome = Outcome(suite.name, suite.floor)
    rng = Random(f"{suite.name}/{seed}")
    started = time.monotonic()
    while outcome.lines < lines and len(outcome.failures) < FAILURES_MAX:
        if seconds is not None and time.monotonic() - started > seconds:
            break
        cases = [suite.generate(rng) for _ in range(suite.batch)]
        twice = [case for case in cases if suite.orders and rng.random() < own_order_share]
        early = [answer_of(suite, case) for case in cases] if suite.ours_first else None
        judge.submit(
            [{**case, "by_name": True} for case in cases]
            + [{**case, "by_name": False} for case in twice]
        )
        ours = early or [answer_of(suite, case) for case in cases]
        theirs = judge.collect()
        _tally(outcome, suite, cases, theirs)
        for case, mine, reply in zip(cases, ours, theirs, strict=False):
            if suite.differ(case, mine, reply) is not None and len(outcome.failures) < FAILURES_MAX:
                outcome.failures.append(_failure(suite, judge, case, seed, out, say))
        own = theirs[len(cases) :]
        for case, reply in zip(twice, own, strict=True):
            mine = ours[next(i for i, known in enumerate(cases) if known is case)]
            outcome.asked_in_own_order += suite.lines(case)
            if suite.differ(case, mine, reply) is None:
                outcome.same_in_own_order += suite.lines(case)
    outcome.seconds = time.monotonic() - started
    return outcome


def _tally(outcome: Outcome, suite: Suite, cases: list[Case], theirs: list[Answer]) -> None:
    for case, reply in zip(cases, theirs, strict=False):
        outcome.lines += suite.lines(case)
        outcome.acted += suite.acted(reply)
        outcome.modes[case.get("mode", "")] += suite.lines(case)


def _failure(
    suite: Suite, judge: Judge, case: Case, seed: int, out: Path, say: Callable[[str], None]
) -> dict[str, object]:
    def first_failing(cases: list[Case]) -> int | None:
        ours = [answer_of(suite, each) for each in cases]
        judge.submit([{**each, "by_name": True} for each in cases])
        for index, reply in enumerate(judge.collect()):
            if suite.differ(cases[index], ours[index], reply) is not None:
                return index
        return None

    small = minimise(case, suite.smaller, first_failing)
    mine = answer_of(suite, small)
    reply = judge.ask([{**small, "by_name": True}])[0]
    found = {
        "suite": suite.name,
        "seed": seed,
        "difference": suite.differ(small, mine, reply),
        "case": small,
        "ours": mine,
        "java": reply,
    }
    out.mkdir(parents=True, exist_ok=True)
    stem = f"{suite.name.replace('/', '-')}-{seed}"
    path = out / f"{stem}-{len(list(out.glob(f'{stem}-*')))}.json"
    path.write_text(json.dumps(found, indent=1, default=repr), encoding="utf-8")
    say(f"{suite.name}: {found['difference']}\n  minimised case in {path}")
    return found
