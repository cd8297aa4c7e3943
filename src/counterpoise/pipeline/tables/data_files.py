"""Data files of a history's tables, written under unique names that a commit then lists.

Nothing here needs delta-rs, so a Spark task writes a file and returns its description to the
driver. A file that no commit lists is ignored, and removed by the next vacuum.
"""

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from counterpoise.load.rows import BUNDLE
from counterpoise.pipeline.tables.faults import damaged, is_out_of_reach, unreadable, unwritable
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.plain_files import new_file
from counterpoise.pipeline.tables.schema import FOLD_STATE, JOURNAL, REPORTS, day_of

SLOTS = 16
"""Bundles are divided into this many slots by a digest of their names."""
SLOT_BITS = 28
"""A 32-bit digest shifted right by this many bits is its slot: its first four bits."""
DIGEST_BITS = 32
SLOT_ROWS = 8192
"""A row group gets more slots until it has about this many rows: each row group costs time, too."""
_STATISTICS = ("kind", "poll_id", "digest")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a table, with its description in the commit."""

    table: str
    path: str
    """The path below the table's directory."""
    size: int
    """The size in bytes."""
    rows: int
    first_poll: int
    last_poll: int
    kinds: tuple[str, str] | None = None
    """In the journal: the least and the greatest value of `kind`, in order of the alphabet."""
    level: int = 0
    """How often its rows were compacted."""

    @property
    def name(self) -> str:
        """The file's path relative to the history's root."""
        return f"{self.table}/{self.path}"

    @property
    def day(self) -> str:
        """The partition (UTC day) that the file is in."""
        return self.path.partition("/")[0].removeprefix("day=")


def write_file(location: Location, table: str, rows: pa.Table, *, level: int = 0) -> DataFile:
    """Write rows of one day; they become part of the table when a commit lists the file.

    `rows` has the columns of the table's schema, at least one row, in the order of polls. Raises
    `HistoryFaultError`.
    """
    with writing_file(location, table, rows.schema, int(rows["poll_id"][0].as_py()), level) as file:
        file.write(rows)
    return file.written


class DataFileWriter:
    """Writes a data file of a table; after `close`, `written` describes it for a commit."""

    def __init__(self, table: str, path: str, sink: Any, schema: pa.Schema, level: int) -> None:
        self._table, self._path, self._level = table, path, level
        self._polls: list[int] = []
        self._kinds: list[str] = []
        self._rows = self.size = 0
        self._parquet = pq.ParquetWriter(
            sink,
            schema,
            compression="none" if table == FOLD_STATE else "zstd",
            use_dictionary=_few_valued(schema) if table != FOLD_STATE else [],
            write_page_checksum=True,
            write_statistics=[name for name in _STATISTICS if name in schema.names],
        )

    def write(self, rows: pa.Table) -> None:
        """Write rows, grouped by ranges of bundles, so that a shard reads only its row groups."""
        if not len(rows):
            return
        # One chunk: a column of a thousand polls' pieces takes several times longer to write.
        rows = rows.combine_chunks()
        for group in _groups(self._table, rows):
            if len(group):
                self._parquet.write_table(group, row_group_size=len(group))
        least = pc.min_max(rows.column("poll_id")).as_py()
        self._polls += least.values()
        if self._table == JOURNAL:
            self._kinds += pc.min_max(rows.column("kind")).as_py().values()
        self._rows += len(rows)

    def close(self) -> None:
        """Write the Parquet footer."""
        self._parquet.close()

    def abandon(self) -> None:
        """Keep pyarrow from writing the footer when the open writer is garbage-collected."""
        self._parquet.is_open = False

    @property
    def written(self) -> DataFile:
        """The file's path, size, rows and polls, as a commit needs them."""
        kinds = (min(self._kinds), max(self._kinds)) if self._kinds else None
        first, last = min(self._polls), max(self._polls)
        return DataFile(
            self._table, self._path, self.size, self._rows, first, last, kinds, self._level
        )


@contextlib.contextmanager
def writing_file(
    location: Location, table: str, schema: pa.Schema, poll_id: int, level: int = 0
) -> Iterator[DataFileWriter]:
    """Write a new data file in the partition of a poll's day; it is durable after the block."""
    path = f"day={day_of(poll_id)}/{poll_id:015d}-{level}-{uuid.uuid4().hex[:16]}.parquet"
    name = f"{table}/{path}"
    try:
        with new_file(location, name) as sink:
            made = DataFileWriter(table, path, sink, schema, level)
            try:
                yield made
                made.close()
            except BaseException:
                made.abandon()
                raise
            made.size = sink.tell()
    except (pa.ArrowException, OSError) as error:
        raise unwritable(location.where(name), error) from error


def level_of(path: str) -> int:
    """How often a data file's rows were compacted, by its name; 0 if another program named it."""
    parts = path.rpartition("/")[2].split("-")
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() else 0


def read_file(location: Location, file: DataFile, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a data file; raises `HistoryFaultError`."""
    with reading_file(location, file.name) as parquet:
        return parquet.read(columns=list(columns) if columns is not None else None)


@contextlib.contextmanager
def reading_file(location: Location, name: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file during the block, with page checksums verified.

    Raises `HistoryFaultError`, which names the file, also for read errors in the block.
    """
    try:
        with location.filesystem.open_input_file(location.path(name)) as opened:
            yield pq.ParquetFile(opened, page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError) as error:
        if is_out_of_reach(error):
            raise unreadable(location.where(name), error) from error
        raise damaged(location.where(name), location.address, error) from error


def _few_valued(schema: pa.Schema) -> list[str]:
    """The text columns, for which dictionary encoding pays: numbers are smaller, and sooner
    written, by zstd alone.
    """
    return [each.name for each in schema if pa.types.is_string(each.type)]


def _groups(table: str, rows: pa.Table) -> Iterator[pa.Table]:
    """Divide rows into row groups; within each, rows stay in the order of polls."""
    if table != REPORTS:
        yield rows
        return
    of_bundle = pc.equal(rows.column("kind"), BUNDLE).to_numpy()
    yield rows.take(pa.array(np.flatnonzero(~of_bundle)))
    bundles = np.flatnonzero(of_bundle)
    # Digests are divided into 1, 2, 4, 8 or 16 equal ranges; each lies in one of any fewer ranges.
    count = min(SLOTS, 1 << max(0, (len(bundles) // SLOT_ROWS).bit_length() - 1))
    slots = (rows.column("digest").to_numpy()[bundles] * count) >> DIGEST_BITS
    order = slots.argsort(kind="stable")
    ordered = rows.take(pa.array(bundles[order]))
    ends = slots[order].searchsorted(range(count), side="right").tolist()
    for start, end in zip([0, *ends], ends, strict=False):
        yield ordered.slice(start, end - start)
