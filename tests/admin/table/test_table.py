"""Every row of the table of ``pulsar-admin``'s commands, on ours, beside what Pulsar answered."""

import logging

import pytest

from tests.admin.table.compare import Keyed, differences, keyed, unexplained
from tests.admin.table.known import DIFFERS, NOT_HERE
from tests.admin.table.page import PAGE, page, rows_of
from tests.admin.table.record import GROUPS, play_on_ours, recorded
from tests.admin.table.session import SESSION
from tests.apache_tools import needs_tools


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Keyed:
    """What the unchanged tool prints of a cluster of ours."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        return play_on_ours(tmp_path_factory.mktemp("table"))
    finally:
        logging.disable(before)


@pytest.mark.client
@pytest.mark.timeout(600)
@needs_tools
def test_each_row_prints_what_it_prints_on_pulsar(ours: Keyed) -> None:
    different, alike = unexplained(keyed(recorded()["answers"]), ours, DIFFERS)
    assert not different, "\n".join(different)
    assert not alike, "\n".join(alike)


def test_every_command_of_the_tool_has_a_row_or_a_reason() -> None:
    commands = [f"{group} {each}" for group in GROUPS for each in recorded()["commands"][group]]
    assert not [each for each in commands if not rows_of(each) and each not in NOT_HERE]
    assert not [each for each in NOT_HERE if rows_of(each)]
    assert set(NOT_HERE) <= set(commands)
    assert {" ".join(row.command) for row in SESSION if row.command[0] != "client"} <= {*commands}


def test_the_page_is_that_of_the_rows() -> None:
    assert PAGE.read_text() == page(recorded()), "make admin-table writes it again"


@pytest.mark.parametrize(
    ("theirs", "ours", "found"),
    [
        ({"a": 1, "b": [1, 2]}, {"a": 1.0, "b": [1, 2]}, []),
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": 0}, {"a": False}, ["a"]),
        ({"a": None}, {}, ["a"]),
        ({}, {"a": {"b": 1}}, ["a"]),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}, ["a.b.c"]),
        ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 3}], ["1.a"]),
        ([1, 2], [1], ["text"]),
        (["x", "y"], ["y", "x"], []),
        ({"msgRateIn": 1.5}, {"msgRateIn": 0}, []),
        ({"msgRateIn": 1.5}, {"msgRateIn": "fast"}, ["msgRateIn"]),
        ({"msgRateIn": 1.5}, {}, ["msgRateIn"]),
        ("Reason: no", "Reason: yes", ["text"]),
    ],
)
def test_answers_are_compared_field_by_field(
    theirs: object, ours: object, found: list[str]
) -> None:
    assert [path for path, _ in differences(theirs, ours)] == found
