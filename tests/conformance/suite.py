"""What a suite is: inputs to generate, our answer, the judge's answer, and how the two compare."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.conformance.jars import MAIN_VERSION

Case = dict[str, Any]
Answer = Any


def equal(case: Case, ours: Answer, theirs: Answer) -> str | None:
    """The plain comparison: None when both are the same, else what differs."""
    del case
    return None if ours == theirs else f"ours {ours!r}, Java {theirs!r}"


def no_smaller(case: Case) -> Iterator[Case]:
    """For cases that are small already."""
    del case
    return iter(())


@dataclass(frozen=True, slots=True)
class Suite:
    """One thing of Pulsar's that ours must answer like.

    `generate` draws a case; `ours` answers it with the product; the judge answers it under the
    case's `op`. `differ` says what is different, or None. `smaller` yields simpler variants of a
    case, simplest first, for minimising a failure.
    """

    name: str
    generate: Callable[[Random], Case]
    ours: Callable[[Case], Answer]
    differ: Callable[[Case, Answer, Answer], str | None] = equal
    smaller: Callable[[Case], Iterator[Case]] = no_smaller
    lines: Callable[[Case], int] = lambda case: (
        len(case.get("lines") or case.get("requests") or ()) or 1
    )
    acted: Callable[[Answer], int] = lambda answer: 1
    """How many of a case's lines led to anything: a suite that never acts proves nothing."""
    version: str = MAIN_VERSION
    orders: bool = False
    """Whether Java's hash tables can change the answer: then the judge is asked twice, with tables
    in the order of names (which must match exactly) and with its own (which is counted)."""
    floor: float = 0.0
    """The least share of lines that must be the same in Java's own order: there ties are settled
    by hash tables, and everything else must agree."""
    ours_first: bool = False
    """Whether the judge needs our answer: it goes on from our pick where Java's is random."""
    batch: int = 20
    kept: int = 60
    """How many cases are kept with Java's answers, for tests where there is no Java."""
