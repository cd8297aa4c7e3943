"""What the seeds state and is deliberately done otherwise is in the docs, each with its reason.

A test is named after the statement's document and line.
"""

import re

import pytest

from counterpoise.admin.metrics.reference import MEANINGS
from tests.docs.test_pages import DOCS

ROWS = [
    [cell.strip() for cell in line.strip("| \n").split(" | ")]
    for line in (DOCS / "DIFFERENCES.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| ---", "| document |"))
]


def row_of(words: str) -> list[str]:
    """The one row whose statement has these words."""
    [row] = [row for row in ROWS if words in row[1]]
    return row


def test_each_difference_says_what_is_done_here_and_why_and_can_be_found() -> None:
    assert len(ROWS) >= 52
    assert [row for row in ROWS if len(row) != 4 or not all(row)] == []
    assert "(DIFFERENCES.md)" in (DOCS / "not-here.md").read_text()


def test_003_l369_counts_of_the_slides_are_counters_under_the_names_of_pulsar_4_0_7() -> None:
    slides, here = row_of("pulsar_lb_bundles_split_count")[1:3]
    assert "_total" in here
    stems = re.findall(r"`(?:pulsar_lb|…)_(\w+)_count`", slides)
    assert stems == ["bundles_split", "unload_bundle", "unload_broker"]
    assert {f"pulsar_lb_{stem}_total" for stem in stems} <= MEANINGS.keys()


@pytest.mark.parametrize(
    ("statement", "here"),
    [
        ("Splits are checked whenever a report arrives", "a timer of one minute"),
        ("The leader finds bundles to split", "carries out those about its own bundles"),
        ("A pause lasts until the bucket has 16 ms worth", "4 ms"),
        ("DeviationShedder", "none of that name"),
        ("900 million bucket operations", "A few million"),
    ],
    ids=["001_l280", "000_l132", "002_l120", "001_l343", "002_l103"],
)
def test_a_seeds_statement_that_is_not_followed_has_its_row(statement: str, here: str) -> None:
    assert here in row_of(statement)[2]


def test_002_l103_the_bucket_is_measured_beside_pulsars_own() -> None:
    assert "`AsyncTokenBucket`" in row_of("900 million bucket operations")[3]
    measured = (DOCS / "PERFORMANCE.md").read_text()
    assert (
        len(re.findall(r"beside Pulsar \| [\d.]+ ns \| AsyncTokenBucket [\d.]+ \|", measured)) > 1
    )
