"""The table `fold_state`: the state of each shard after a poll, and so the stream's offset.

A task folds its shard and writes the state to a data file. The driver commits the files of all
shards at once, with the number of the last folded poll as application transaction. So a poll's
states are committed for all shards or for none, and once, whichever process folded them. A task
that was retried or killed leaves a file that no commit lists.
"""

import contextlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from counterpoise.load.fold import AVERAGES, BROKERS, FoldState, merged, select
from counterpoise.load.rows import SERVED, Column, Table
from counterpoise.pipeline.tables.data_files import DataFile, read_file, write_file
from counterpoise.pipeline.tables.faults import damaged
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.reports import shard_of
from counterpoise.pipeline.tables.schema import FOLD_STATE, MOMENT, SCHEMAS, columns_of

if TYPE_CHECKING:  # executors do without delta-rs
    from counterpoise.pipeline.tables.history import TablesReader, TablesWriter

FOLD = "counterpoise-fold"
"""The name of a Delta application transaction: its version is the last poll that was folded."""

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class FoldedStates:
    """The fold's states of all shards after poll `up_to`, as files."""

    up_to: int
    files: tuple[DataFile, ...]
    """One file for each shard, in the order of shards."""

    @property
    def shards(self) -> int:
        """The number of shards."""
        return len(self.files)


def write_state(
    location: Location, state: FoldState, *, up_to: int, shard: int, shards: int
) -> DataFile:
    """Write a shard's state after poll `up_to`; it is valid once `commit_states` lists the file."""
    rows = {
        "poll_id": [up_to],
        "at": pa.array([up_to]).cast(MOMENT),
        "shard": [shard],
        "shards": [shards],
        "state": [state_to_bytes(state)],
    }
    return write_file(location, FOLD_STATE, pa.table(rows, schema=SCHEMAS[FOLD_STATE]))


def commit_states(writer: "TablesWriter", files: Sequence[DataFile], up_to: int) -> None:
    """Replace the states of all shards; does nothing if poll `up_to` is folded already.

    The previous files are deleted at once, since each batch writes megabytes.
    """
    if (writer.transaction(FOLD_STATE, FOLD) or 0) >= up_to:
        return
    before = writer.files(FOLD_STATE)
    writer.commit(FOLD_STATE, files, removed=before, transactions={FOLD: up_to})
    for each in before:
        with contextlib.suppress(OSError):
            writer.location.filesystem.delete_file(writer.location.path(each.name))


def current_states(reader: "TablesReader") -> FoldedStates | None:
    """The newest committed states; None if nothing was folded yet. Raises `DamagedError`."""
    files = reader.files(FOLD_STATE)
    if not files:
        return None
    shards: dict[int, DataFile] = {}
    for file in files:
        [row] = read_file(reader.location, file, ["shard", "shards"]).to_pylist()
        shards[row["shard"]] = file
    if sorted(shards) != list(range(row["shards"])):
        raise damaged(
            reader.location.where(FOLD_STATE),
            reader.location.address,
            ValueError(f"it has shards {sorted(shards)} of {row['shards']}"),
        )
    return FoldedStates(files[0].last_poll, tuple(shards[n] for n in sorted(shards)))


def read_state(location: Location, file: DataFile) -> FoldState:
    """Read a shard's state from its file; raises `HistoryFaultError`."""
    table = read_file(location, file, ["state"])
    try:
        return state_from_bytes(table.column("state")[0].as_py())
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise damaged(location.where(file.name), location.address, error) from error


def resharded(writer: "TablesWriter", shards: int) -> FoldedStates | None:
    """The newest states, rewritten first if they have another number of shards; None if there are
    none.
    """
    found = current_states(writer)
    if found is None or found.shards == shards:
        return found
    whole = merged([read_state(writer.location, file) for file in found.files])
    files = write_parts(writer.location, whole, up_to=found.up_to, shards=shards)
    writer.commit(FOLD_STATE, files, removed=writer.files(FOLD_STATE))
    return FoldedStates(found.up_to, tuple(files))


def write_parts(location: Location, whole: FoldState, *, up_to: int, shards: int) -> list[DataFile]:
    """Write a whole state divided into shards; the files are valid once they are committed."""
    return [
        write_state(location, _part(whole, shard, shards), up_to=up_to, shard=shard, shards=shards)
        for shard in range(shards)
    ]


def _part(state: FoldState, shard: int, shards: int) -> FoldState:
    def mine(bundles: Column) -> Column:
        digests = np.array([zlib.crc32(name.encode()) for name in bundles.tolist()], np.int64)
        chosen: Column = np.equal(shard_of(digests, shards), shard)
        return chosen

    return FoldState(
        select(state.averages, AVERAGES, mine(state.averages["bundle"])),
        select(state.served, SERVED, mine(state.served["bundle"])),
        state.brokers,
    )


def state_to_bytes(state: FoldState) -> bytes:
    """A fold state as bytes: its three tables as consecutive Arrow streams, without a checksum."""
    sink = pa.BufferOutputStream()
    for table in (state.averages, state.served, state.brokers):
        batch = _batch(table)
        with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED) as writer:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def state_from_bytes(blob: bytes) -> FoldState:
    """The reverse of `state_to_bytes`; raises `ValueError` or `ArrowException` for other bytes."""
    source = pa.BufferReader(blob)
    return FoldState(*(_read(source, names) for names in (AVERAGES, SERVED, BROKERS)))


def _read(source: pa.BufferReader, names: tuple[str, ...]) -> Table:
    with pa.ipc.open_stream(source) as reader:
        table = reader.read_all()
    return columns_of(table, names)


def _batch(table: Table) -> Any:
    return pa.record_batch([pa.array(column) for column in table.values()], names=list(table))
