"""A shard's state as bytes, and its part of landed files."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from counterpoise.load.fold import AVERAGES, BROKERS, Batch, FoldState
from counterpoise.load.rows import BUNDLE, REPORT, SAMPLE, SERVED, Table
from counterpoise.pipeline.history.rows_codec import columns_of
from counterpoise.pipeline.history.store import Store

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")

_NEEDED = list(dict.fromkeys((*SAMPLE, *REPORT, "digest")))


def batch_of_files(
    store: Store, names: Iterable[str], *, after: int, shard: int, shards: int
) -> Batch:
    """What landed files have for one shard behind a poll: its bundles, and what is no bundle."""
    samples, reports = [], []
    for name in names:
        table = store.read(name, lambda file: pq.read_table(file, columns=_NEEDED))
        table = table.filter(pc.greater(table.column("poll_id"), after))
        of_bundle = pc.equal(table.column("kind"), BUNDLE)
        mine = pa.array(table.column("digest").to_numpy() % shards == shard)
        samples.append(columns_of(table.select(SAMPLE).filter(pc.and_(of_bundle, mine)), SAMPLE))
        reports.append(columns_of(table.select(REPORT).filter(pc.invert(of_bundle)), REPORT))
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
    return columns_of(table, names)


def _batch(table: Table) -> Any:
    return pa.record_batch([pa.array(column) for column in table.values()], names=list(table))
