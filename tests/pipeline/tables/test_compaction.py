"""Compaction and retention: every row once, in order, whatever was compacted when."""

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterpoise.load.rows import BROKER, BUNDLE
from counterpoise.pipeline.tables import compaction, data_files, delta_table
from counterpoise.pipeline.tables.compaction import compact, retain
from counterpoise.pipeline.tables.data_files import read_file
from counterpoise.pipeline.tables.history import TablesReader, TablesWriter, take_over
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import (
    land,
    newest_poll,
    next_slice,
    read_reports,
    read_shard,
)
from counterpoise.pipeline.tables.schema import REPORTS
from tests.load.story import poll

EVER = 2**60
DAY_MS = 86_400_000


def landed(writer: TablesWriter, number: int, every_ms: int, bundles: int = 4) -> int:
    """Land a poll of this number, and give its time."""
    loads = {f"public/default/0x{n:08x}_0x{n + 1:08x}": 1.0 + n for n in range(bundles)}
    rows = poll(number, {"a:1": loads, "b:1": {}}, every_ms=every_ms)
    land(writer, rows)
    return int(rows["poll_id"][0])


def rows_of(reader: TablesReader) -> list[tuple[int, int]]:
    parts = list(read_reports(reader, -1, EVER, ("poll_id", "seq")))
    return [(row["poll_id"], row["seq"]) for part in parts for row in part.to_pylist()]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from(["land", "land", "land", "compact", "next day"]), max_size=20),
    at_least=st.integers(2, 4),
    keep=st.integers(0, 2),
    unfolded=st.integers(1, 3),
)
def test_no_row_is_lost_or_doubled_and_what_is_not_folded_stays_as_it_is(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[str],
    at_least: int,
    keep: int,
    unfolded: int,
) -> None:
    location = open_location(tmp_path_factory.mktemp("history"))
    writer = take_over(location)
    number, expected = 0, list[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "ROWS_MOST", 60)
        patch.setattr(compaction, "GROUP_ROWS", 20)
        patch.setattr(data_files, "SLOT_ROWS", 2)
        for step in steps:
            if step == "land":
                expected.append(landed(writer, number, 60_000))
                number += 1
            elif step == "next day":
                number += 1440
            elif expected:
                up_to = expected[-min(unfolded, len(expected))]
                later = {file.path for file in writer.files(REPORTS) if file.first_poll > up_to}
                compact(writer, REPORTS, up_to_poll=up_to, at_least=at_least, keep=keep)
                assert later <= {file.path for file in writer.files(REPORTS)}
    found = rows_of(TablesReader(location))
    assert sorted(found) == sorted(set(found))
    assert sorted({poll_id for poll_id, _ in found}) == expected
    assert len(found) == 7 * len(expected)
    for shards in (1, 3):
        part = next_slice(writer, 0)
        if part is None:
            assert not expected
            continue
        batches = [read_shard(location, part, shard, shards) for shard in range(shards)]
        assert sum(len(batch.samples["bundle"]) for batch in batches) == 4 * len(expected)
        assert all(len(batch.reports["broker"]) == 3 * len(expected) for batch in batches)


def test_a_compacted_file_has_a_row_group_for_each_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a shard reads its own: rows of others come only from groups that are not divided."""
    writer = take_over(open_location(tmp_path))
    monkeypatch.setattr(data_files, "SLOT_ROWS", 100)
    last = [landed(writer, n, 5000, bundles=900) for n in range(2)][-1]
    assert compact(writer, "reports", up_to_poll=last, at_least=2) == 2
    [file] = writer.files("reports")
    assert (file.level, file.rows) == (1, 2 * 903)
    entry = max((tmp_path / "reports" / "_delta_log").glob("*.json")).read_text()
    changes = [next(iter(json.loads(line).values())) for line in entry.splitlines()]
    changed = [each["dataChange"] for each in changes if "dataChange" in each]
    assert changed == [False] * 3, "a stream that reads the table is not given its rows again"
    import pyarrow.parquet as pq

    whole = pq.ParquetFile(tmp_path / file.name)
    kinds = [whole.read_row_group(n, columns=["kind"]) for n in range(whole.num_row_groups)]
    assert [set(group["kind"].to_pylist()) == {BUNDLE} for group in kinds] == [False] + [True] * 16
    assert BROKER in kinds[0]["kind"].to_pylist()


@pytest.mark.parametrize(
    ("path", "level"),
    [
        ("day=2026-11-26/1-2-abc.parquet", 2),
        ("day=2026-11-26/part-00000-5f1c-c000.snappy.parquet", 0),
        ("day=2026-11-26/a-b-c.parquet", 0),
        ("one.parquet", 0),
    ],
)
def test_a_file_of_another_engine_was_never_compacted(path: str, level: int) -> None:
    assert data_files.level_of(path) == level


def test_a_file_of_half_the_rows_that_one_may_have_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = take_over(open_location(tmp_path))
    polls = [landed(writer, n, 5000, bundles) for n, bundles in enumerate((40, 1, 1, 1))]
    big, *small = writer.files(REPORTS)
    monkeypatch.setattr(compaction, "ROWS_MOST", 2 * big.rows)
    assert compact(writer, REPORTS, up_to_poll=polls[-1], at_least=2) == len(small)
    assert writer.files(REPORTS)[0].name == big.name
    assert len(writer.files(REPORTS)) == 2


def test_days_long_past_go_and_the_newest_day_stays(tmp_path: Path) -> None:
    writer = take_over(open_location(tmp_path))
    polls = [landed(writer, n, DAY_MS) for n in range(4)]
    gone = retain(writer, 1, polls[-1])
    assert [each.partition("/")[0] for each in gone] == ["reports"] * 2
    assert sorted({poll_id for poll_id, _ in rows_of(writer)}) == polls[2:]
    retain(writer, 1, polls[-1] + 100 * DAY_MS)
    assert newest_poll(writer) == polls[-1]
    assert {poll_id for poll_id, _ in rows_of(writer)} == {polls[-1]}


def test_a_vacuum_leaves_what_the_newest_version_names(tmp_path: Path) -> None:
    writer = take_over(open_location(tmp_path))
    last = [landed(writer, n, 5000) for n in range(3)][-1]
    compact(writer, "reports", up_to_poll=last, at_least=2)
    before = rows_of(writer)
    writer.vacuum("reports")
    assert len(list(tmp_path.glob("reports/day=*/*.parquet"))) == 4
    writer.keep_versions(0)
    assert writer.vacuum("reports") == 3
    assert len(list(tmp_path.glob("reports/day=*/*.parquet"))) == 1
    assert rows_of(TablesReader(writer.location)) == before
    [file] = writer.files("reports")
    assert isinstance(read_file(writer.location, file), pa.Table)


def test_a_table_is_read_as_it_was_for_the_days_asked_for_and_older_entries_of_its_log_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit lists the entries that are there."""
    monkeypatch.setattr(delta_table, "CHECKPOINT_EVERY", 5)
    writer = take_over(open_location(tmp_path))
    reader = TablesReader(writer.location)
    assert reader.files("reports") == []
    writer.keep_versions(3)
    first = writer.version("reports")
    polls = [landed(writer, n, 5000, bundles=1) for n in range(40)]
    log = tmp_path / "reports" / "_delta_log"
    for entry in log.iterdir():
        version = int(entry.name.partition(".")[0]) if entry.name[0].isdigit() else 0
        at = time.time() - (4 if version <= first + 20 else 2) * 86_400
        os.utime(entry, (at, at))
    writer.forget_versions("reports")
    left = sorted(int(entry.stem) for entry in log.glob("*.json"))
    assert first + 10 < left[0] <= first + 21
    for number in (25, 40):
        as_it_was = DeltaTable(tmp_path / "reports", version=first + number)
        assert len(as_it_was.file_uris()) == number
    # One that was opened when the entries were there goes on from the checkpoint.
    assert sorted({poll_id for poll_id, _ in rows_of(reader)}) == polls
