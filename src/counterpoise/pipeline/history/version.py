"""Which layout a history has, and bringing an older one to this one.

| version | layout |
| --- | --- |
| 1 | `<table>/<poll>.parquet` and `archive/<table>/…`, without timestamps |
| 2 | `layout.py`: by day, with real timestamps; `HISTORY/version` says so |
| 3 | the same; names may say who wrote a file (`reigns.py`), which version 2 would not see |
"""

import re
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.history.names import ASIDE, TABLES, archive_of, day_of, file_of
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.history.tables import SCHEMAS
from counterpoise.pipeline.tables.faults import DamagedError, HistoryFaultError
from counterpoise.pipeline.tables.parquet import read_rows, writer
from counterpoise.pipeline.tables.rows_codec import MOMENT, REPORTS_SCHEMA, write_reports

VERSION = 3
SAME_FILES = 2
"""A history of this version is one of ours already."""
NAME = "version"

_FLAT = re.compile(r"^\d+(-[0-9a-f]+)?\.parquet$")
_MOMENTS = {"at": "poll_id", "report_at": "report_at_ms", "started_at": "started_at_ms",
            "ended_at": "ended_at_ms"}  # fmt: skip


def version_of(store: Store) -> int:
    """The version of a history; an empty one has this one."""
    if store.exists(NAME):
        return int(store.read(NAME, lambda file: int(file.read())))
    return 1 if of_the_first(store) else VERSION


def is_readable(store: Store) -> bool:
    """Whether the file that says it can be read, or is not there: then the layout says it."""
    try:
        version_of(store)
    except DamagedError:
        return False
    return True


def expect_version(store: Store) -> None:
    """Mark a history as of this version; raises `HistoryFaultError` when it is of another."""
    found = version_of(store)
    if found > VERSION:
        raise HistoryFaultError(
            f"{store.address} was written by a newer counterpoise (its layout is version {found}, "
            f"this one knows {VERSION}): run that one, or name another --history"
        )
    if found < SAME_FILES:
        raise HistoryFaultError(
            f"{store.address} has the layout of an older counterpoise: `counterpoise history "
            f"repair {store.address}` brings it to this one, with all that is in it"
        )
    if found != VERSION or not store.exists(NAME):
        store.write(NAME, f"{VERSION}\n".encode())


def migrate(store: Store) -> int:
    """Bring a history of the first version to this one, and give how many files that were.

    A file goes when its rows are where they belong, so a migration that was cut off goes on where
    it stopped; one that cannot be read is set aside.
    """
    names = of_the_first(store)
    for table, name in names:
        try:
            rows = _completed(table, store.read(name, read_rows))
        except DamagedError:
            store.move(name, f"{ASIDE}/{name}")
            continue
        polls = rows.column("poll_id").to_pylist()
        for day, those in groupby(sorted(set(polls)), key=day_of):
            del day
            mine = list(those)
            part = rows.filter(pc.is_in(rows.column("poll_id"), pa.array(mine)))
            key = name.rpartition("/")[2].removesuffix(".parquet")
            alone = not name.startswith("archive/")
            target = file_of(table, mine[0], key) if alone else archive_of(table, mine[0], mine[-1])
            with store.writing(target) as file:
                _write(table, part, file)
        store.delete(name)
    return len(names)


def mark(store: Store) -> None:
    """Say of a history that it has this layout, whatever an older version or a slip said of it."""
    if store.exists(NAME) and version_of(store) < VERSION:
        store.write(NAME, f"{VERSION}\n".encode())


def of_the_first(store: Store) -> list[tuple[str, str]]:
    """The files of the first version's layout, each with its table."""
    return [
        (table, f"{place}/{name}")
        for table in TABLES
        for place in (table, f"archive/{table}")
        for name in store.names(place)
        if _named(place, name)
    ]


def _named(place: str, name: str) -> bool:
    return name.endswith(".parquet") if place.startswith("archive/") else bool(_FLAT.match(name))


def _completed(table: str, rows: pa.Table) -> pa.Table:
    schema = REPORTS_SCHEMA if table == "reports" else SCHEMAS[table]
    columns = [
        rows.column(name) if name in rows.column_names
        else rows.column(_MOMENTS[name]).cast(MOMENT)
        for name in schema.names
    ]  # fmt: skip
    return pa.table(columns, names=schema.names).cast(schema)


def _write(table: str, rows: pa.Table, file: object) -> None:
    with writer(file, rows.schema) as made:
        if table == "reports":
            write_reports(made, rows)
        else:
            made.write_table(rows)
