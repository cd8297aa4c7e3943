"""Parquet as a history keeps it: with a checksum of each page, looked at whenever one is read.

Without it a byte that a disk turned over is another number, and a bundle moves because of it.
Files of an older balancer have none, and are read as they are.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def writer(file: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """What writes a file, some rows at a time."""
    return pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)


def write_rows(file: Any, rows: pa.Table) -> None:
    """Write a whole file."""
    with writer(file, rows.schema) as made:
        made.write_table(rows)


def opened(file: Any) -> pq.ParquetFile:
    """A file whose pages are held against their checksums when they are read."""
    return pq.ParquetFile(file, page_checksum_verification=True)


def read_rows(file: Any, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a whole file; raises `OSError` or `ArrowException` for a damaged one."""
    return opened(file).read(columns=list(columns) if columns is not None else None)
