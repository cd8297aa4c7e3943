"""Merges many small data files into few, in bounded memory, and removes old days.

A compaction writes one file that replaces others; one commit adds it and removes them. Each file
has a level, the number of times that its rows were compacted. `PER_LEVEL` files of one day and
level are merged into one of the next level, so each row is written only a few times, however long
the day.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby

import pyarrow as pa

from counterpoise.pipeline.tables.data_files import DataFile, DataFileWriter, writing_file
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.row_groups import ALL_ROWS, BY_SLOT, NO_BUNDLES, rows_of
from counterpoise.pipeline.tables.schema import (
    FOLD_STATE,
    REPORTS,
    SCHEMAS,
    TABLES,
    completed,
    day_of,
)

ROWS_MOST = 1_000_000
"""The most rows of a compacted file (but files are never divided)."""
GROUP_ROWS = 131_072
"""About how many rows a row group of a Parquet file has; they are in memory while it is written."""
PER_LEVEL = 100
"""How many files of one level are merged into one."""


def compact(
    writer: TablesWriter, table: str, *, up_to_poll: int, at_least: int = PER_LEVEL, keep: int = 0
) -> int:
    """Merge a table's small files up to this poll; returns how many files were replaced.

    Files of one day and level are merged once there are `at_least`, or the day is over; the newest
    `keep` stay as they are. Raises `HistoryFaultError`.
    """
    files = [file for file in writer.files(table) if file.last_poll <= up_to_poll]
    small = [file for file in files[: len(files) - keep] if file.rows < ROWS_MOST // 2]
    today = day_of(up_to_poll)
    gone = 0
    for day, of_day in groupby(small, key=lambda file: file.day):
        those = list(of_day)
        if day != today:
            gone += _merge_all(writer, table, those) if len(those) > 1 else 0
            continue
        for level in sorted({file.level for file in those}):
            same = [file for file in those if file.level == level]
            if len(same) >= max(2, at_least):
                gone += _merge_all(writer, table, same)
    return gone


def retain(writer: TablesWriter, keep_days: int, now_ms: int) -> list[str]:
    """Drop days older than `keep_days`, except the newest day of each table; returns the dropped
    days.

    Their files are removed by the next `vacuum`.
    """
    oldest = f"{datetime.fromtimestamp(now_ms / 1000, UTC) - timedelta(days=keep_days):%Y-%m-%d}"
    gone = []
    for table in TABLES:
        files = [] if table == FOLD_STATE else writer.files(table)
        newest = max((file.day for file in files), default="")
        old = [file for file in files if file.day < min(oldest, newest)]
        if old:
            writer.commit(table, [], removed=old)
            gone += [f"{table}/{day}" for day in sorted({file.day for file in old})]
    return gone


def _merge_all(writer: TablesWriter, table: str, files: Sequence[DataFile]) -> int:
    gone = 0
    for group in groups_to_merge(files):
        if len(group) > 1:
            location = writer.location
            made = merge_files(location, location, table, group)
            writer.commit(table, [made], removed=group, data_change=False)
            gone += len(group)
    return gone


def groups_to_merge(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Groups of files that are to become one file each, limited by the number of rows.

    Small files are first merged into files sorted by slots (ranges of bundles), and those later,
    slot by slot, into large ones.
    """
    group: list[DataFile] = []
    rows = 0
    for file in files:
        is_small = all(each.rows < GROUP_ROWS // 2 for each in (*group, file))
        if group and rows + file.rows > (GROUP_ROWS if is_small else ROWS_MOST):
            yield group
            group, rows = [], 0
        group.append(file)
        rows += file.rows
    if group:
        yield group


def merge_files(
    source: Location, target: Location, table: str, files: Sequence[DataFile]
) -> DataFile:
    """Write one file with the rows of several of one day, possibly from another history (`source`).

    Raises `HistoryFaultError`.
    """
    schema = SCHEMAS[table]
    level, rows = max(file.level for file in files) + 1, sum(file.rows for file in files)
    with writing_file(target, table, schema, files[0].first_poll, level) as made:
        whole = table != REPORTS or rows <= GROUP_ROWS
        for part in (ALL_ROWS,) if whole else (NO_BUNDLES, *BY_SLOT):
            read = (rows_of(source, file, part) for file in files)
            rows_read = chain.from_iterable(read)
            _write(made, (completed(each, schema.names).cast(schema) for each in rows_read))
    return made.written


def _write(made: DataFileWriter, tables: Iterable[pa.Table]) -> None:
    """Write tables, several in one row group if they are small, so that it has `GROUP_ROWS`."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(map(len, held)) >= GROUP_ROWS:
            made.write(pa.concat_tables(held))
            held = []
    if held:
        made.write(pa.concat_tables(held))
