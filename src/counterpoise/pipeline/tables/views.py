"""A history's tables, and views of them, as rows and as SQL.

A view selects some kinds of a table's rows, with the columns that these have. It is not a copy.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from counterpoise.load.rows import BROKER, BUNDLE, GAP, POLL, RATES, USAGE
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.reports import read_reports
from counterpoise.pipeline.tables.schema import (
    FOLD_STATE,
    JOURNAL,
    JOURNAL_COLUMNS,
    REPORTS,
    SCHEMAS,
    TABLES,
    JournalKind,
)

BUNDLE_LOADS = ("at", "report_at", "broker", "bundle", *RATES, "topics", "producers", "consumers")
BROKER_LOADS = (
    "at",
    "report_at",
    "age_ms",
    "fresh",
    "broker",
    *RATES,
    "topics",
    "bundles",
    "producers",
    "consumers",
    *USAGE,
    "load_manager",
    "broker_version",
)


@dataclass(frozen=True, slots=True)
class TableView:
    """A named view of a table: some columns of its rows of one kind."""

    table: str
    kind: str
    columns: Sequence[str]
    text: str
    """A description for `--help`."""


def _of_journal(kind: JournalKind, text: str) -> TableView:
    return TableView(JOURNAL, str(kind), ("poll_id", "at", *JOURNAL_COLUMNS[kind]), text)


VIEWS: Mapping[str, TableView] = {
    "bundle_loads": TableView(
        REPORTS, BUNDLE, BUNDLE_LOADS, "what each bundle carried, a row for each measurement"
    ),
    "broker_loads": TableView(
        REPORTS, BROKER, BROKER_LOADS, "what each broker carried and used, a row for each poll"
    ),
    "gaps": TableView(
        REPORTS, GAP, ("at", "broker", "note"), "brokers that could not be read, and why"
    ),
    "polls": TableView(REPORTS, POLL, ("at", "note"), "polls, and why one read nothing"),
    "rounds": _of_journal(JournalKind.ROUND, "rounds of decisions"),
    "decisions": _of_journal(JournalKind.DECISION, "moves that were decided"),
    "rejections": _of_journal(JournalKind.REJECTION, "what rounds left alone, and why"),
    "outcomes": _of_journal(JournalKind.OUTCOME, "what became of moves"),
    "memory": _of_journal(JournalKind.MEMORY, "what each round left to the next"),
}
NAMES = (*(table for table in TABLES if table != FOLD_STATE), *VIEWS)

ENGINES: Sequence[str] = ("duckdb", "parquet", "spark")
"""The engines that `sql` makes views for: DuckDB with its extension `delta`; DuckDB without it,
from the Parquet files of the version that is newest now; Spark."""


def parts(reader: TablesReader, name: str, *, first_ms: int, last_ms: int) -> Iterator[pa.Table]:
    """The rows of a table or view between two times, oldest first, a table for each row group.

    Yields an empty table last, so that a writer has the columns even without rows.
    """
    view = VIEWS.get(name)
    table = view.table if view else name
    columns = list(view.columns) if view else SCHEMAS[table].names
    kinds = [view.kind] if view else []
    yield from read_reports(reader, first_ms - 1, last_ms, columns, kinds, table)
    yield SCHEMAS[table].empty_table().select(columns)


def sql(reader: TablesReader, engine: str) -> str:
    """SQL in the dialect of ``engine`` that makes a view of each table and `TableView`."""
    there = [table for table in TABLES if reader.version(table) >= 0]
    if engine == "parquet":  # `read_parquet` needs at least one file
        there = [table for table in there if reader.files(table)]
    make = "create or replace temporary view" if engine == "spark" else "create or replace view"
    statements = [
        f"{make} {table} as select * from {_source(reader, table, engine)}"  # noqa: S608
        for table in there
    ]
    for name, view in VIEWS.items():
        # With the table's name, since `at` alone is a keyword in DuckDB.
        listed = ", ".join(f"{view.table}.{_quoted(column)}" for column in view.columns)
        condition = f"where kind = '{view.kind}'"
        if view.table in there:
            made = f"select {listed} from {view.table} {condition}"  # noqa: S608  our own names
            statements.append(f"{make} {name} as {made}")
    return "".join(f"{statement};\n" for statement in statements)


def _source(reader: TablesReader, table: str, engine: str) -> str:
    uri = reader.location.table_uri(table)
    if engine == "spark":
        return "delta.`" + uri.replace("`", "``") + "`"
    if engine == "parquet" and (files := reader.files(table)):
        named = ", ".join(_text(f"{uri}/{file.path}") for file in files)
        return f"read_parquet([{named}], hive_partitioning = true, union_by_name = true)"
    return f"delta_scan({_text(uri)})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(column: str) -> str:
    return f'"{column}"' if column in ("limit", "value") else column
