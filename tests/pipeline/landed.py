"""Landed files, read back."""

import pyarrow.parquet as pq

from counterpoise.load.rows import COLUMNS, ReportRows
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.tables.rows_codec import columns_of


def read_landed(store: Store, name: str) -> ReportRows:
    """The rows of a landed file."""
    return ReportRows(
        store.read(name, lambda file: columns_of(pq.read_table(file), tuple(COLUMNS)))
    )
