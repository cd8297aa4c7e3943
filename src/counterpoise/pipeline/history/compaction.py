"""Many small files into few, in the background and in bounded memory; and days long past away.

A compacted file is written before those it replaces are removed. A crash in between leaves rows
twice for whoever reads the directory, until the next compaction; our own readers (`layout.files`)
count them once, since a compacted file's name says what it covers.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

import pyarrow as pa

from counterpoise.pipeline.history.layout import days, files
from counterpoise.pipeline.history.names import (
    TABLES,
    archive_of,
    archives,
    day_of,
    is_archive,
    span,
)
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.tables.parquet import opened, read_rows, writer
from counterpoise.pipeline.tables.rows_codec import write_reports

ROWS_MOST = 1_000_000
"""Rows of a compacted file, at most (but a poll stays whole): what a reader holds at once."""
GROUP_ROWS = 131_072
"""Rows of a group in it, about: what is in memory at once while it is written."""


def compact(store: Store, table: str, *, up_to_poll: int, at_least: int, keep: int = 0) -> int:
    """Compact a table's files up to this poll, and give the number of files that went away.

    Nothing is done before there are `at_least` of them; the newest `keep` stay as they are. For
    `reports`, `up_to_poll` is one that the stream has folded: a later one may be read just now.
    """
    remove_leftovers(store, table)
    small = [name for name in files(store, table) if not is_archive(name)]
    small = [name for name in small if _first(name) <= up_to_poll]
    small = small[: max(0, len(small) - keep)]
    if len(small) < max(1, at_least):
        return 0
    gone = 0
    for _, those in groupby(small, key=lambda name: day_of(_first(name))):
        for group in _groups(store, list(those)):
            gone += _merge(store, table, group)
    return gone


def remove_leftovers(store: Store, table: str) -> int:
    """Remove the small files that a compaction which was cut off has left, and count them.

    What a former holder of the history wrote too late is set aside.
    """
    gone = 0
    for day in days(store, table):
        for file in store.late(f"{table}/{day}"):
            store.set_late_aside(file)
        names = [f"{table}/{day}/{name}" for name in store.names(f"{table}/{day}") if span(name)]
        kept = set(archives(names))
        covered = max(map(_last, kept), default=-1)
        for name in names:
            if name not in kept and (is_archive(name) or _first(name) <= covered):
                store.delete(name)
                gone += 1
    return gone


def retain(store: Store, keep_days: int, now_ms: int) -> list[str]:
    """Remove all that is older than so many days, and give the partitions that went."""
    oldest = datetime.fromtimestamp(now_ms / 1000, UTC) - timedelta(days=keep_days)
    gone = []
    for table in TABLES:
        for day in days(store, table):
            if day < f"day={oldest:%Y-%m-%d}" and day != (days(store, table) or [""])[-1]:
                store.delete_directory(f"{table}/{day}")
                gone.append(f"{table}/{day}")
    return gone


def read_table_parts(store: Store, table: str, *, after: int = -1) -> Iterator[pa.Table]:
    """A table's rows, oldest first and each once, a file at a time."""
    for name in files(store, table, after=after):
        try:
            yield store.read(name, read_rows)
        except FileNotFoundError:
            continue  # it was compacted after we had listed it: read the next time


def _groups(store: Store, names: Sequence[str]) -> Iterator[list[str]]:
    """Files that become one, by the number of their rows."""
    group: list[str] = []
    rows = 0
    for name in names:
        count = store.read(name, lambda file: opened(file).metadata.num_rows)
        if group and rows + count > ROWS_MOST:
            yield group
            group, rows = [], 0
        group.append(name)
        rows += count
    if group:
        yield group


def _merge(store: Store, table: str, names: Sequence[str]) -> int:
    target = archive_of(table, _first(names[0]), _last(names[-1]))
    if len(names) == 1:
        store.move(names[0], target)
        return 1
    with store.writing(target) as file:
        schema = store.read(names[0], lambda file: opened(file).schema_arrow)
        with writer(file, schema) as made:
            held: list[pa.Table] = []
            for name in names:
                held.append(store.read(name, read_rows))
                if name == names[-1] or sum(len(each) for each in held) >= GROUP_ROWS:
                    whole = pa.concat_tables(held)
                    if table == "reports":
                        write_reports(made, whole)
                    else:
                        made.write_table(whole)
                    held = []
    for name in names:
        store.delete(name)
    return len(names)


def _first(name: str) -> int:
    return (span(name) or (0, 0))[0]


def _last(name: str) -> int:
    return (span(name) or (0, 0))[1]
