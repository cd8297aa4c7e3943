"""The tables of a history: their names, columns and what a row is.

Each is a Delta table in a directory of its own below the history. All are partitioned by `day`, the
UTC date of the poll (`2026-11-23`), which stands in the log and in the path and not in the data
files. `poll_id` is the poll's time in milliseconds since 1970, `at` the same as a timestamp.

| table               | a row for each                                             |
|---------------------|------------------------------------------------------------|
| `reports`           | line of a load report, as landed (`load/rows.py`)          |
| `ownership_changes` | bundle that another broker reports than before             |
| `journal`           | thing that was decided or done; `kind` says which          |
| `fold_state`        | shard: the stream's averages, as Arrow, up to `poll_id`    |

Kinds of the journal:

| kind        | a row for each                       | columns besides `poll_id`, `at` |
|-------------|--------------------------------------|---------------------------------|
| `round`     | round of decisions                   | `ROUND`                         |
| `decision`  | move; `action` is the kind of move   | `DECISION`                      |
| `rejection` | thing that a round left alone        | `REJECTION`                     |
| `outcome`   | move that was tried, by the same id  | `OUTCOME`                       |
| `memory`    | round that was recorded to its end   | `memory`                        |
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import numpy as np
import pyarrow as pa

from counterpoise.load.rows import COLUMNS, TEXT, Column, ReportRows

LAYOUT: Final = 4
"""The version of the tables; 1 to 3 were directories of Parquet without a log."""
LAYOUT_KEY: Final = "counterpoise.layout"
"""The table property that contains the layout's version."""

REPORTS: Final = "reports"
OWNERSHIP_CHANGES: Final = "ownership_changes"
JOURNAL: Final = "journal"
FOLD_STATE: Final = "fold_state"

DAY: Final = "day"


class JournalKind(StrEnum):
    """The kind of a row in the journal."""

    ROUND = "round"
    DECISION = "decision"
    REJECTION = "rejection"
    OUTCOME = "outcome"
    MEMORY = "memory"


_TEXT, _INT, _FLOAT, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_ARROW = {"O": _TEXT, "i": _INT, "f": _FLOAT, "b": _FLAG}
MOMENT = pa.timestamp("ms", tz="UTC")
MOMENTS = {"at": "poll_id", "report_at": "report_at_ms"}
"""The timestamp columns, for people who query the table, and the columns of milliseconds from which
they are computed."""

ADDED = ("load_average", "topic_loads")
"""Columns that `reports` got later; other engines read null for them in older rows."""

REPORTS_SCHEMA = pa.schema(
    [pa.field(name, _ARROW[dtype.kind], nullable=name in ADDED) for name, dtype in COLUMNS.items()]
    + [pa.field(name, MOMENT, nullable=False) for name in MOMENTS]
)

_MOVE: Final = dict.fromkeys(("id", "action", "bundle", "source", "destination"), _TEXT)
_ROUND: Final = {
    "strategy": _TEXT,
    "imbalance": _FLOAT,
    **dict.fromkeys(("brokers", "bundles", "decisions", "rejections"), _INT),
    "memory": _TEXT,  # JSON
}
_WHY: Final = dict.fromkeys(("reason", "sentence", "template", "figures", "placement"), _TEXT)
"""The columns that say why something was decided or rejected; `figures` is a JSON object."""
_LIMIT: Final = {
    **dict.fromkeys(("subject", "rule"), _TEXT),
    **dict.fromkeys(("value", "limit"), _FLOAT),
    "setting": _TEXT,
}
_END: Final = {
    "status": _TEXT,
    "carried_out": _FLAG,
    "owner": _TEXT,
    **dict.fromkeys(("started_at_ms", "ended_at_ms"), _INT),
    **dict.fromkeys(("started_at", "ended_at"), MOMENT),
    "error": _TEXT,
}
ROUND: Final = tuple(_ROUND)
DECISION: Final = (*_MOVE, *_WHY)
REJECTION: Final = (*_LIMIT, "sentence", "template", "figures")
OUTCOME: Final = ("id", "bundle", "source", "destination", *_END, "figures")

JOURNAL_COLUMNS: Final[Mapping[JournalKind, tuple[str, ...]]] = {
    JournalKind.ROUND: ROUND,
    JournalKind.DECISION: DECISION,
    JournalKind.REJECTION: REJECTION,
    JournalKind.OUTCOME: OUTCOME,
    JournalKind.MEMORY: ("memory",),
}

SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    REPORTS: REPORTS_SCHEMA,
    OWNERSHIP_CHANGES: pa.schema(
        {
            "poll_id": _INT,
            "at": MOMENT,
            "bundle": _TEXT,
            "source": _TEXT,  # empty in the first row of a bundle
            "destination": _TEXT,
        }
    ),
    JOURNAL: pa.schema(
        {"kind": _TEXT, "poll_id": _INT, "at": MOMENT, **_MOVE, **_ROUND, **_WHY, **_LIMIT, **_END}
    ),
    FOLD_STATE: pa.schema(
        {
            "poll_id": _INT,  # the state has every poll up to this one
            "at": MOMENT,
            "shard": _INT,
            "shards": _INT,
            "state": pa.binary(),  # Arrow streams: averages, served, brokers (`states.py`)
        }
    ),
}
TABLES: Final = tuple(SCHEMAS)
"""The names of all tables, in the order in which a writer takes them over."""


def day_of(poll_id: int) -> str:
    """The partition of a poll, whose id is a time in milliseconds: its UTC day."""
    return f"{datetime.fromtimestamp(poll_id / 1000, UTC):%Y-%m-%d}"


def statistics_of(table: str) -> tuple[str, ...]:
    """The columns with statistics in the Delta log: few, since each makes commits slower."""
    return ("kind", "poll_id") if table == JOURNAL else ("poll_id",)


def rows_to_arrow(rows: ReportRows) -> pa.Table:
    """Report rows as an Arrow table of `REPORTS_SCHEMA`."""
    arrays = [pa.array(rows[name]) for name in COLUMNS]
    arrays += [pa.array(rows[name]).cast(MOMENT) for name in MOMENTS.values()]
    return pa.table(arrays, schema=REPORTS_SCHEMA)


def completed(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """These columns of a table, with zeros or empty text for one that is newer than the rows."""
    for name in set(names).intersection(ADDED).difference(table.column_names):
        nothing = pa.scalar("" if COLUMNS[name] == TEXT else 0, REPORTS_SCHEMA.field(name).type)
        table = table.append_column(REPORTS_SCHEMA.field(name), pa.repeat(nothing, len(table)))
    return table.select(list(names))


def columns_of(table: pa.Table, names: Sequence[str]) -> dict[str, Column]:
    """These columns as NumPy arrays. A column newer than the rows is zeros or empty text."""
    table = completed(table, names)
    return {name: _column(table.column(name)) for name in names}


def _column(column: Any) -> Column:
    values = column.to_numpy()
    return values.astype(TEXT) if pa.types.is_null(column.type) else np.asarray(values)
