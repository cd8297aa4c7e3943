"""Landed files: whole or not there; archives: each row once, whatever was cut off."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from counterpoise.load.rows import COLUMNS, ReportRows
from counterpoise.pipeline import landing
from counterpoise.pipeline.compaction import archives, compact, read_history, small_files
from counterpoise.pipeline.landing import land, landed_path, landed_polls, read_landed
from tests.load.story import START, poll
from tests.pipeline.fake_cluster import bundle_name


def some_poll(number: int) -> ReportRows:
    return poll(number, {"b1:80": {bundle_name(0): 10.0 * number}, "b2:80": None})


def ids(history: Path) -> list[int]:
    return [i for table in read_history(history, "reports") for i in table["poll_id"].to_pylist()]


def test_what_was_landed_is_read_back(tmp_path: Path) -> None:
    rows = some_poll(1)
    back = read_landed(land(tmp_path, rows))
    for name in COLUMNS:
        np.testing.assert_array_equal(back[name], rows[name])
        assert back[name].dtype == rows[name].dtype


def test_files_are_in_the_order_of_their_polls_by_name_and_by_time(tmp_path: Path) -> None:
    for number in (2, 1, 3):
        land(tmp_path, some_poll(number))
    assert landed_polls(tmp_path) == [START + 5000 * n for n in (1, 2, 3)]
    times = [landed_path(tmp_path, p).stat().st_mtime_ns for p in landed_polls(tmp_path)]
    assert times == sorted(set(times))


def test_a_poll_is_never_landed_twice(tmp_path: Path) -> None:
    land(tmp_path, some_poll(1))
    with pytest.raises(FileExistsError):
        land(tmp_path, some_poll(1))


def test_a_write_that_is_cut_off_leaves_nothing_to_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(table: object, file: object, **options: object) -> None:
        file.write(b"PAR1 and then the power went")  # type: ignore[attr-defined]
        raise OSError("no space left on device")

    monkeypatch.setattr(landing.pq, "write_table", cut_off)
    with pytest.raises(OSError, match="no space"):
        land(tmp_path, some_poll(1))
    assert list(tmp_path.iterdir()) == []


def test_compaction_keeps_every_row_once_and_leaves_the_uncommitted_alone(tmp_path: Path) -> None:
    for number in range(6):
        land(tmp_path / "reports", some_poll(number))
    before = ids(tmp_path)
    made = compact(tmp_path, "reports", up_to_poll=START + 5000 * 3, at_least=2)
    assert made is not None
    assert [int(f.stem) for f in small_files(tmp_path, "reports")] == [
        START + 5000 * 4,
        START + 5000 * 5,
    ]
    assert ids(tmp_path) == before
    assert pq.read_schema(made).equals(pq.read_schema(small_files(tmp_path, "reports")[0]))


def test_compaction_waits_until_it_is_worth_it(tmp_path: Path) -> None:
    for number in range(3):
        land(tmp_path / "reports", some_poll(number))
    assert compact(tmp_path, "reports", up_to_poll=START * 2, at_least=4) is None
    assert compact(tmp_path, "reports", up_to_poll=START * 2, at_least=2, keep_newest=2) is None
    assert archives(tmp_path, "reports") == []


def test_a_compaction_that_was_cut_off_neither_loses_nor_doubles_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        land(tmp_path / "reports", some_poll(number))
    before = ids(tmp_path)

    def cut_off(self: Path, missing_ok: bool = False) -> None:
        if self.suffix == ".parquet":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", cut_off)
        with pytest.raises(KeyboardInterrupt):
            compact(tmp_path, "reports", up_to_poll=START * 2, at_least=1)
    assert len(small_files(tmp_path, "reports")) == 4
    assert ids(tmp_path) == before
    compact(tmp_path, "reports", up_to_poll=START * 2, at_least=1)
    assert small_files(tmp_path, "reports") == []
    assert ids(tmp_path) == before
