"""The table `reports`: writes polls, and reads those after an offset in bounded memory.

A stream's offset is the number of a poll. These numbers only grow, and each file's statistics have
its least and greatest, so an offset stays valid after compaction and after cleanup of the log.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from counterpoise.load.fold import Batch
from counterpoise.load.rows import BUNDLE, REPORT, SAMPLE, Column, ReportRows, Table
from counterpoise.pipeline.tables import data_files, schema
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.row_groups import ALL_ROWS, NO_BUNDLES, extent, of_polls, rows_of

if TYPE_CHECKING:  # executors do without delta-rs
    from counterpoise.pipeline.tables.history import TablesReader, TablesWriter

LANDED = "counterpoise-poll"
"""The application transaction whose version is the newest poll of the table."""
ROWS_MOST = 1_000_000
"""The most rows that are read at once, unless a single file has more."""

_OF_BUNDLES = [*SAMPLE, "digest"]
_OF_ALL = list(dict.fromkeys((*SAMPLE, *REPORT, "digest")))


@dataclass(frozen=True, slots=True)
class ReportSlice:
    """The consecutive polls of the table `reports` after poll `after`, up to `up_to`, as files."""

    after: int
    up_to: int
    files: tuple[data_files.DataFile, ...]
    rows: int
    """The number of rows of these files; a compacted file may have rows of other polls, too."""


def land(writer: "TablesWriter", rows: ReportRows) -> None:
    """Commit one poll's rows to the table `reports`.

    Raises `FileExistsError` if that poll, or a later one, is there already.
    """
    poll_id = int(rows["poll_id"][0])
    land_polls(writer, [schema.rows_to_arrow(rows)], poll_id, poll_id)


def land_polls(
    writer: "TablesWriter",
    parts: Iterable[pa.Table],
    first: int,
    last: int,
    also: Sequence[str] = (),
) -> None:
    """Commit the rows of consecutive polls of one day (`first` to `last`) in one data file.

    `also` names further application transactions whose version becomes `last`. Raises
    `FileExistsError` if poll `first`, or a later one, is there already.
    """
    if newest_poll(writer) >= first:
        raise FileExistsError(
            f"poll {first} has already been landed in {writer.location.where(schema.REPORTS)}"
        )
    with data_files.writing_file(
        writer.location, schema.REPORTS, schema.REPORTS_SCHEMA, first
    ) as file:
        for part in parts:
            file.write(part)
    writer.commit(schema.REPORTS, [file.written], transactions=dict.fromkeys((LANDED, *also), last))


def newest_poll(reader: "TablesReader") -> int:
    """The newest poll in the table `reports`; 0 if there is none."""
    return reader.transaction(schema.REPORTS, LANDED) or 0


def next_slice(
    reader: "TablesReader", after: int, most_rows: int = ROWS_MOST
) -> ReportSlice | None:
    """The polls to fold after poll `after`, limited to about `most_rows` rows; None without any."""
    chosen: list[data_files.DataFile] = []
    rows = 0
    for file in reader.files(schema.REPORTS, after):
        if chosen and rows + file.rows > most_rows:
            break
        chosen.append(file)
        rows += file.rows
    if not chosen:
        return None
    return ReportSlice(after, max(file.last_poll for file in chosen), tuple(chosen), rows)


def shard_of(digests: Column, shards: int) -> Column:
    """The shard of each bundle, by the 32-bit digest of its name: shards are equal ranges.

    A file's row groups are ranges of digests as well, so that each belongs to one shard.
    """
    found: Column = (digests.astype(np.int64) * shards) >> data_files.DIGEST_BITS
    return found


def read_shard(location: Location, part: ReportSlice, shard: int, shards: int) -> Batch:
    """The rows of a slice for one shard: those of its bundles, and all rows that are not about
    bundles.

    Raises `HistoryFaultError`.
    """
    samples: list[Table] = []
    reports: list[Table] = []
    for file in part.files:
        with data_files.reading_file(location, file.name) as parquet:
            groups = _groups_of(parquet, shard, shards)
        for group in groups:
            table = group
            if file.first_poll <= part.after or file.last_poll > part.up_to:
                table = of_polls(group, part.after, part.up_to)
            mine = shard_of(table.column("digest").to_numpy(), shards) == shard
            if "kind" in table.column_names:
                of_bundle = np.asarray(pc.equal(table.column("kind"), BUNDLE))
                reports.append(schema.columns_of(table.take(np.flatnonzero(~of_bundle)), REPORT))
                mine &= of_bundle
            samples.append(schema.columns_of(table.select(SAMPLE).filter(pa.array(mine)), SAMPLE))
    return Batch.joined(samples, reports)


def read_reports(
    reader: "TablesReader",
    after: int,
    up_to: int,
    columns: Sequence[str] | None = None,
    kinds: Sequence[str] = (),
    table: str = schema.REPORTS,
) -> Iterator[pa.Table]:
    """The rows of polls after `after` up to `up_to`, a table for each row group.

    Files come oldest first; within one, rows of bundles come last. With `kinds` only rows of these
    kinds. `table` may be another table with the column `poll_id`.
    """
    needed = ("poll_id", "kind") if kinds else ("poll_id",)
    names = list(dict.fromkeys((*columns, *needed))) if columns is not None else None
    for file in reader.files(table, after):
        if file.first_poll > up_to:
            continue
        few = table == schema.REPORTS and kinds and BUNDLE not in kinds
        part = NO_BUNDLES if few else ALL_ROWS
        for group in rows_of(reader.location, file, part, names):
            if len(found := of_polls(group, after, up_to, kinds)):
                yield schema.completed(found, columns or schema.SCHEMAS[table].names)


def _groups_of(parquet: pq.ParquetFile, shard: int, shards: int) -> list[pa.Table]:
    """The row groups that may have rows for a shard; fewer columns of those with bundles alone."""
    groups = []
    for number in range(parquet.num_row_groups):
        alone = extent(parquet, number, "kind") == (BUNDLE, BUNDLE)
        digests = extent(parquet, number, "digest")
        if alone and digests is not None:
            first, last = shard_of(np.array(digests), shards).tolist()
            if not first <= shard <= last:
                continue
        groups.append(parquet.read_row_group(number, columns=_OF_BUNDLES if alone else _OF_ALL))
    return groups
