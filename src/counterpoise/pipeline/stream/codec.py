"""A shard's state as bytes, and its part of landed files."""

import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.load.fold import AVERAGES, BROKERS, Batch, FoldState
from counterpoise.load.rows import BUNDLE, REPORT, SAMPLE, SERVED, Table
from counterpoise.pipeline.history.parquet import opened
from counterpoise.pipeline.history.rows_codec import columns_of
from counterpoise.pipeline.history.store import Store

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")

_SEAL = b"crc:"
_SEAL_BYTES = len(_SEAL) + 4

_OF_BUNDLES = [*SAMPLE, "digest"]
_OF_ALL = list(dict.fromkeys((*SAMPLE, *REPORT, "digest")))


def batch_of_files(
    store: Store, names: Iterable[str], *, after: int, shard: int, shards: int
) -> Batch:
    """What landed files have for one shard behind a poll: its bundles, and what is no bundle."""
    samples: list[Table] = []
    reports: list[Table] = []
    for name in names:
        for group in store.read(name, _groups):
            polls = group.column("poll_id")
            older = pc.min(polls).as_py() <= after
            table = group.filter(pc.greater(polls, after)) if older else group
            mine = table.column("digest").to_numpy() % shards == shard
            if "kind" in table.column_names:
                of_bundle = np.asarray(pc.equal(table.column("kind"), BUNDLE))
                reports.append(columns_of(table.take(np.flatnonzero(~of_bundle)), REPORT))
                mine &= of_bundle
            samples.append(columns_of(table.select(SAMPLE).filter(pa.array(mine)), SAMPLE))
    return Batch.joined(samples, reports)


def _groups(file: Any) -> list[pa.Table]:
    """The row groups of a file; those of bundles alone with no more than these need."""
    parquet = opened(file)
    kind = parquet.schema_arrow.names.index("kind")
    groups = []
    for number in range(parquet.num_row_groups):
        said = parquet.metadata.row_group(number).column(kind).statistics
        alone = said is not None and said.has_min_max and said.min == said.max == BUNDLE
        groups.append(parquet.read_row_group(number, columns=_OF_BUNDLES if alone else _OF_ALL))
    return groups


def state_to_bytes(state: FoldState) -> bytes:
    """A fold state as three Arrow streams, one after another, and their checksum."""
    sink = pa.BufferOutputStream()
    for table in (state.averages, state.served, state.brokers):
        batch = _batch(table)
        with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED) as writer:
            writer.write_batch(batch)
    whole = sink.getvalue()
    return bytes(whole) + _seal(whole)


def state_from_bytes(blob: bytes) -> FoldState:
    """The reverse of `state_to_bytes`; raises `ValueError` or `ArrowException` for a damaged one.

    A state of an older balancer has no checksum.
    """
    # Looked at first: what is wrong in a stream may be how much memory it asks for.
    if (said := blob[-_SEAL_BYTES:]).startswith(_SEAL):
        blob = blob[:-_SEAL_BYTES]
        if said != _seal(blob):
            raise ValueError("its checksum is another")
    source = pa.BufferReader(blob)
    tables = [_read(source, names) for names in (AVERAGES, SERVED, BROKERS)]
    if source.tell() != len(blob):
        raise ValueError("there is something behind its end")
    return FoldState(*tables)


def _seal(blob: Any) -> bytes:
    return _SEAL + zlib.crc32(blob).to_bytes(4, "big")


def _read(source: pa.BufferReader, names: tuple[str, ...]) -> Table:
    with pa.ipc.open_stream(source) as reader:
        table = reader.read_all()
    return columns_of(table, names)


def _batch(table: Table) -> Any:
    return pa.record_batch([pa.array(column) for column in table.values()], names=list(table))
