"""Report rows as Arrow: the schema of the `reports` table.

It has the columns of `load/rows.py`, which are numbers and text, and two real timestamps for those
who ask the table: `at`, that of the poll, and `report_at`, that of the report.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.load.rows import COLUMNS, TEXT, Column, ReportRows

_ARROW = {"O": pa.string(), "i": pa.int64(), "f": pa.float64(), "b": pa.bool_()}
MOMENT = pa.timestamp("ms", tz="UTC")
MOMENTS = {"at": "poll_id", "report_at": "report_at_ms"}

ADDED = ("load_average",)
"""Columns that reports have not had from the beginning: null, to other engines, in older rows."""

REPORTS_SCHEMA = pa.schema(
    [pa.field(name, _ARROW[dtype.kind], nullable=name in ADDED) for name, dtype in COLUMNS.items()]
    + [pa.field(name, MOMENT, nullable=False) for name in MOMENTS]
)


def rows_to_arrow(rows: ReportRows) -> pa.Table:
    """Report rows as an Arrow table of `REPORTS_SCHEMA`."""
    arrays = [pa.array(rows[name]) for name in COLUMNS]
    arrays += [pa.array(rows[name]).cast(MOMENT) for name in MOMENTS.values()]
    return pa.table(arrays, schema=REPORTS_SCHEMA)


def completed(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """These columns of rows; one that came later than the rows is zero in them."""
    for name in set(names).intersection(ADDED).difference(table.column_names):
        nothing = pa.repeat(pa.scalar(0, REPORTS_SCHEMA.field(name).type), len(table))
        table = table.append_column(REPORTS_SCHEMA.field(name), nothing)
    return table.select(list(names))


def columns_of(table: pa.Table, names: Sequence[str]) -> dict[str, Column]:
    """Arrow columns as NumPy's; one that came later than the rows is zero in them."""
    table = completed(table, names)
    return {name: _column(table.column(name)) for name in names}


def _column(column: Any) -> Column:
    values = column.to_numpy()
    return values.astype(TEXT) if pa.types.is_null(column.type) else np.asarray(values)
