"""Landed files: whole or not there; compacted ones: each row once, whatever was cut off."""

import errno
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from counterpoise.load.rows import COLUMNS, ReportRows
from counterpoise.pipeline.history import compaction, reports
from counterpoise.pipeline.history.compaction import compact, read_table_parts, retain
from counterpoise.pipeline.history.layout import files, newest_poll
from counterpoise.pipeline.history.names import is_archive, span
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.tables.faults import HistoryFaultError
from tests.load.story import START, poll
from tests.pipeline.fake_cluster import bundle_name
from tests.pipeline.landed import read_landed

DAY = 24 * 3600 * 1000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path)


def some_poll(number: int, every_ms: int = 5000) -> ReportRows:
    brokers = {"b1:80": {bundle_name(0): 10.0 * number}, "b2:80": None}
    return poll(number, brokers, every_ms=every_ms)


def landed(store: Store, count: int, every_ms: int = 5000) -> list[int]:
    for number in range(count):
        land(store, some_poll(number, every_ms))
    return [START + every_ms * number for number in range(count)]


def polls(store: Store) -> list[int]:
    """The polls of the table, each as often as it is read."""
    parts = [part["poll_id"].to_pylist() for part in read_table_parts(store, "reports")]
    return [first for ids in parts for first in dict.fromkeys(ids)]


def test_what_was_landed_is_read_back(store: Store) -> None:
    rows = some_poll(1)
    landed = read_landed(store, land(store, rows))
    back = landed.take(np.argsort(landed["seq"]))
    for name in COLUMNS:
        np.testing.assert_array_equal(back[name], rows[name])
        assert back[name].dtype == rows[name].dtype


def test_a_poll_is_never_landed_twice(store: Store) -> None:
    land(store, some_poll(1))
    with pytest.raises(FileExistsError):
        land(store, some_poll(1))


def test_others_read_the_table_with_days_and_real_times(store: Store, tmp_path: Path) -> None:
    import pandas as pd

    landed(store, 3, every_ms=DAY)
    compact(store, "reports", up_to_poll=START + DAY, at_least=1)
    frame = pd.read_parquet(tmp_path / "reports")
    assert sorted(frame["day"].astype(str).unique()) == ["2023-11-14", "2023-11-15", "2023-11-16"]
    moments = pd.to_datetime(frame["poll_id"], unit="ms", utc=True)
    assert (frame["at"] == moments).all()


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "the disk is full: make room"),
        (errno.EROFS, "it is read-only: mount it for writing"),
        (errno.EACCES, "permission denied: let this user write there"),
    ],
)
def test_a_write_that_is_cut_off_leaves_nothing_and_says_what_to_do(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str
) -> None:
    def cut_off(writer: object, table: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(reports, "write_reports", cut_off)
    with pytest.raises(HistoryFaultError, match=says) as error:
        land(store, some_poll(1))
    assert str(tmp_path) in str(error.value)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_a_damaged_file_is_named_with_the_way_on(store: Store, tmp_path: Path) -> None:
    name = land(store, some_poll(1))
    (tmp_path / name).write_bytes(b"PAR1 what is this PAR1")
    with pytest.raises(HistoryFaultError, match=f"{name} is damaged.*history repair"):
        read_landed(store, name)


def test_compaction_keeps_every_row_once_and_leaves_what_is_not_folded_alone(store: Store) -> None:
    expected = landed(store, 6)
    assert compact(store, "reports", up_to_poll=START + 5000 * 3, at_least=2) == 4
    small = [name for name in files(store, "reports") if not is_archive(name)]
    assert [span(name) for name in small] == [(p, p) for p in expected[4:]]
    assert polls(store) == expected
    assert newest_poll(store) == expected[-1]
    assert files(store, "reports", after=expected[4]) == small[1:]
    for name in files(store, "reports"):
        assert store.read(name, pq.read_schema).equals(reports.rows_to_arrow(some_poll(0)).schema)


def test_a_compacted_file_is_of_one_day_and_of_bounded_size(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "ROWS_MOST", 10)  # a poll has 4 rows
    expected = landed(store, 9, every_ms=DAY // 3)
    compact(store, "reports", up_to_poll=START * 2, at_least=2)
    assert polls(store) == expected
    names = files(store, "reports")
    assert all(is_archive(name) for name in names)
    assert max(store.read(name, pq.read_metadata).num_rows for name in names) <= 10


def test_compaction_waits_until_it_is_worth_it(store: Store) -> None:
    landed(store, 3)
    assert compact(store, "reports", up_to_poll=START * 2, at_least=4) == 0
    assert compact(store, "reports", up_to_poll=START * 2, at_least=2, keep=2) == 0


def test_a_compaction_that_was_cut_off_neither_loses_nor_doubles_rows(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = landed(store, 4)

    def cut_off(self: Store, name: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "delete", cut_off)
        with pytest.raises(KeyboardInterrupt):
            compact(store, "reports", up_to_poll=START * 2, at_least=1)
    [day] = store.directories("reports")
    assert len(store.names(f"reports/{day}")) == 5, "the small files are still beside the new one"
    assert polls(store) == expected
    compact(store, "reports", up_to_poll=START * 2, at_least=1)
    assert len(store.names(f"reports/{day}")) == 1
    assert polls(store) == expected


def test_days_long_past_go_and_the_newest_stays(store: Store) -> None:
    landed(store, 5, every_ms=DAY)
    now = START + 6 * DAY
    assert len(retain(store, 3, now)) == 3
    assert polls(store) == [START + DAY * n for n in (3, 4)]
    retain(store, 3, now + 100 * DAY)
    assert polls(store) == [START + DAY * 4], "what the balancer goes on from"
