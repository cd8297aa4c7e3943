"""Fold states and report rows as Arrow: the bytes of a shard's state, the landed file."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from counterpoise.load.fold import AVERAGES, BROKERS, Batch, FoldState
from counterpoise.load.rows import (
    BUNDLE,
    COLUMNS,
    REPORT,
    SAMPLE,
    SERVED,
    TEXT,
    Column,
    ReportRows,
    Table,
)

_ARROW = {"O": pa.string(), "i": pa.int64(), "f": pa.float64(), "b": pa.bool_()}

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")

_NEEDED = list(dict.fromkeys((*SAMPLE, *REPORT, "digest")))

REPORTS_SCHEMA = pa.schema(
    [pa.field(name, _ARROW[dtype.kind], nullable=False) for name, dtype in COLUMNS.items()]
)


def rows_to_arrow(rows: ReportRows) -> pa.Table:
    """Report rows as an Arrow table of `REPORTS_SCHEMA`."""
    return pa.table([pa.array(rows[name]) for name in COLUMNS], schema=REPORTS_SCHEMA)


def rows_from_arrow(table: pa.Table) -> ReportRows:
    """The reverse of `rows_to_arrow`."""
    return ReportRows(_columns(table, tuple(COLUMNS)))


def batch_from_files(landed: Iterable[Path], *, shard: int, shards: int) -> Batch:
    """What landed files have for one shard: its bundles, and all that are no bundles."""
    samples, reports = [], []
    for file in landed:
        table = pq.read_table(file, columns=_NEEDED)
        of_bundle = pc.equal(table.column("kind"), BUNDLE)
        mine = pa.array(table.column("digest").to_numpy() % shards == shard)
        samples.append(_columns(table.select(SAMPLE).filter(pc.and_(of_bundle, mine)), SAMPLE))
        reports.append(_columns(table.select(REPORT).filter(pc.invert(of_bundle)), REPORT))
    return Batch.joined(samples, reports)


def state_to_bytes(state: FoldState) -> bytes:
    """A fold state as three Arrow streams, one after another."""
    sink = pa.BufferOutputStream()
    for table in (state.averages, state.served, state.brokers):
        batch = _batch(table)
        with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED) as writer:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def state_from_bytes(blob: bytes) -> FoldState:
    """The reverse of `state_to_bytes`."""
    source = pa.BufferReader(blob)
    tables = [_read(source, names) for names in (AVERAGES, SERVED, BROKERS)]
    return FoldState(*tables)


def _read(source: pa.BufferReader, names: tuple[str, ...]) -> Table:
    with pa.ipc.open_stream(source) as reader:
        table = reader.read_all()
    return _columns(table, names)


def _columns(table: pa.Table, names: Sequence[str]) -> dict[str, Column]:
    return {name: _column(table.column(name)) for name in names}


def _batch(table: Table) -> Any:
    return pa.record_batch([pa.array(column) for column in table.values()], names=list(table))


def _column(column: Any) -> Column:
    values = column.to_numpy()
    return values.astype(TEXT) if pa.types.is_null(column.type) else np.asarray(values)
