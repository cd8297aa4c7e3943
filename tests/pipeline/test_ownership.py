"""The table of who reports which bundle: what a crash, an older balancer, or two reports leave."""

from pathlib import Path

import pytest

from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.history.care import repair
from counterpoise.pipeline.history.compaction import compact
from counterpoise.pipeline.history.layout import files
from counterpoise.pipeline.history.names import is_archive
from counterpoise.pipeline.history.ownership import TABLE, Owners, rebuild
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.history.tables import read_table
from tests.load.story import START, Loads, poll
from tests.pipeline.fake_cluster import bundle_name

ONE, TWO = bundle_name(1), bundle_name(2)
FIRST: dict[str, Loads | None] = {"b1:80": {ONE: 1.0, TWO: 1.0}, "b2:80": {}}
MOVED: dict[str, Loads | None] = {"b1:80": {ONE: 1.0}, "b2:80": {TWO: 1.0}}
SILENT: dict[str, Loads | None] = {"b1:80": {ONE: 1.0}, "b2:80": None}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path)


def kept(store: Store) -> list[tuple[int, str, str, str]]:
    rows = read_table(store, TABLE)
    assert all(row["at"].timestamp() * 1000 == row["poll_id"] for row in rows)
    return [
        ((row["poll_id"] - START) // 5000, row["bundle"], row["source"], row["destination"])
        for row in rows
    ]


def both_landed(store: Store, owners: Owners, *polls: ReportRows) -> None:
    for rows in polls:
        owners.land(store, rows)
        land(store, rows)


STORY = [(0, ONE, "", "b1:80"), (0, TWO, "", "b1:80"), (1, TWO, "b1:80", "b2:80")]


def test_a_row_for_each_change_and_none_for_what_stays_or_falls_silent(store: Store) -> None:
    polls = [poll(n, each) for n, each in enumerate((FIRST, MOVED, MOVED, SILENT, MOVED))]
    both_landed(store, Owners(), *polls)
    assert kept(store) == STORY


def test_whoever_comes_after_knows_who_had_what_compacted_or_not(store: Store) -> None:
    both_landed(store, Owners(), poll(0, FIRST))
    both_landed(store, Owners.of(store), poll(1, MOVED))
    compact(store, TABLE, up_to_poll=START * 2, at_least=1)
    both_landed(store, Owners.of(store), poll(2, MOVED), poll(3, FIRST))
    assert kept(store) == [*STORY, (3, TWO, "b2:80", "b1:80")]
    assert [is_archive(name) for name in files(store, TABLE)] == [True, False]


def test_what_was_written_for_a_poll_that_never_landed_is_found_anew(store: Store) -> None:
    owners = Owners()
    both_landed(store, owners, poll(0, FIRST))
    owners.land(store, poll(1, MOVED))  # and then the process dies
    both_landed(store, Owners.of(store), poll(2, MOVED))
    assert kept(store) == [*STORY[:2], (2, TWO, "b1:80", "b2:80")]


@pytest.mark.parametrize("newer", ["b1:80", "b2:80", "neither"])
def test_of_two_that_report_a_bundle_the_newer_report_counts(store: Store, newer: str) -> None:
    rows = poll(1, {"b1:80": {ONE: 1.0, TWO: 1.0}, "b2:80": {TWO: 1.0}})
    rows["report_at_ms"][rows["broker"] == newer] += 1
    both_landed(store, Owners(), poll(0, FIRST), rows)
    assert kept(store) == (STORY[:2] if newer == "b1:80" else STORY)


def test_a_history_that_was_begun_without_it_is_worked_out_by_repair(store: Store) -> None:
    polls = [poll(n, each) for n, each in enumerate((FIRST, MOVED, SILENT, MOVED, FIRST))]
    for rows in polls[:3]:
        land(store, rows)
    compact(store, "reports", up_to_poll=START * 2, at_least=1)
    both_landed(store, Owners.of(store), *polls[3:])
    assert kept(store)[0][0] == 3, "only what came since is known"
    repair(store)
    assert kept(store) == [*STORY, (4, TWO, "b2:80", "b1:80")]
    before = files(store, TABLE)
    assert rebuild(store) == 0
    assert files(store, TABLE) == before


def test_a_repair_that_was_cut_off_is_done_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, each in enumerate((FIRST, MOVED, FIRST)):
        land(store, poll(number, each))
    writing = Store.writing

    def cut_off(self: Store, name: str) -> object:
        if len(files(store, TABLE)) == 1:
            raise KeyboardInterrupt
        return writing(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "writing", cut_off)
        with pytest.raises(KeyboardInterrupt):
            rebuild(store)
    assert rebuild(store) == 4
    assert kept(store) == [*STORY, (2, TWO, "b2:80", "b1:80")]
