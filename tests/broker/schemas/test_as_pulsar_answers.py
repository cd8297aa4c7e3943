"""What Pulsar's registry answered to producers and consumers of topics, beside ours."""

import pytest

from tests.conformance import vectors
from tests.conformance.runner import answer_of
from tests.conformance.suites import SUITES

SUITE = SUITES["schemas"]
STORIES = [*vectors.load(SUITE.name)]
SHARE = 40
"""How many stories are told in one test."""


@pytest.mark.parametrize("first", range(0, len(STORIES), SHARE))
def test_our_registry_accepts_what_pulsars_does(first: int) -> None:
    for case, theirs in STORIES[first : first + SHARE]:
        assert SUITE.differ(case, answer_of(SUITE, case), theirs) is None, case


def test_every_kind_of_schema_is_accepted_and_refused() -> None:
    answers = {
        (line["type"], type(answer) is int or answer == "accepted")
        for case, theirs in STORIES
        for line, answer in zip(case["lines"], theirs, strict=True)
    }
    kinds = {"AVRO", "JSON", "PROTOBUF", "PROTOBUF_NATIVE", "KEY_VALUE", "STRING"}
    assert answers >= {(kind, accepted) for kind in kinds for accepted in (True, False)}
