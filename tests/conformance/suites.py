"""Every suite by name."""

from collections.abc import Mapping
from random import Random
from typing import Any

from tests.conformance.generators.load_data import shedding_case
from tests.conformance.generators.transfer import transfer_case
from tests.conformance.jars import AVG_SHEDDER_VERSION, MAIN_VERSION
from tests.conformance.ours import shedding
from tests.conformance.shrink import smaller_load_data, smaller_transfer
from tests.conformance.suite import Answer, Case, Suite


def _per_line(case: Case, ours: Answer, theirs: Answer) -> str | None:
    """The first line that differs; a key only Java has (its counters) is not compared."""
    del case
    if isinstance(ours, dict):
        return f"ours raised: {ours.get('raised')}"
    for number, (mine, reply) in enumerate(zip(ours, theirs, strict=True), 1):
        for key in mine:
            if mine[key] != reply.get(key):
                return f"line {number}, {key}: ours {mine[key]!r}, Java {reply.get(key, reply)!r}"
    return None


def _lines_that_shed(answer: Any) -> int:
    return sum(bool(line.get("bundles") or line.get("decisions")) for line in answer)


def _shedding(strategy: str, version: str = MAIN_VERSION) -> Suite:
    def generate(rng: Random) -> Case:
        return shedding_case(rng, strategy)

    return Suite(
        name=strategy,
        generate=generate,
        ours=shedding.shed,
        differ=_per_line,
        smaller=smaller_load_data,
        acted=_lines_that_shed,
        version=version,
        orders=True,
    )


def _all() -> list[Suite]:
    return [
        _shedding("OverloadShedder"),
        _shedding("ThresholdShedder"),
        _shedding("UniformLoadShedder"),
        _shedding("AvgShedder", AVG_SHEDDER_VERSION),
        Suite(
            name="TransferShedder",
            generate=transfer_case,
            ours=shedding.transfer,
            differ=_per_line,
            smaller=smaller_transfer,
            acted=_lines_that_shed,
            orders=True,
        ),
    ]


SUITES: Mapping[str, Suite] = {suite.name: suite for suite in _all()}
