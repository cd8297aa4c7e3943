"""Reads parts of a data file of reports: only those row groups that may have matching rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from counterpoise.load.rows import BUNDLE
from counterpoise.pipeline.tables.data_files import SLOT_BITS, SLOTS, DataFile, reading_file
from counterpoise.pipeline.tables.location import Location


@dataclass(frozen=True, slots=True)
class ReportPart:
    """Which rows of a data file are read: those of some bundles, and perhaps those of no bundle."""

    others: bool
    """Whether rows that are not about a bundle are selected."""
    digests: range = range(0)
    """The digests of the names of those bundles whose rows are selected."""

    def may_be_in(self, kinds: tuple[Any, Any] | None, digests: tuple[Any, Any] | None) -> bool:
        """Whether a row group may have selected rows, by the least and greatest `kind` and `digest`
        in it.

        True if these are unknown.
        """
        if kinds is None or kinds[0] != kinds[1]:
            return True
        if kinds[0] != BUNDLE:
            return self.others
        return digests is None or (
            digests[0] < self.digests.stop and digests[1] >= self.digests.start
        )

    def of(self, rows: pa.Table) -> pa.Table:
        """The selected ones of `rows`, which need the columns `kind` and `digest`."""
        bundles = pc.equal(rows.column("kind"), BUNDLE)
        digests = rows.column("digest")
        inside = pc.and_(
            pc.greater_equal(digests, self.digests.start), pc.less(digests, self.digests.stop)
        )
        chosen = pc.and_(bundles, inside)
        return rows.filter(pc.or_(chosen, pc.invert(bundles)) if self.others else chosen)


NO_BUNDLES = ReportPart(others=True)
BY_SLOT = tuple(
    ReportPart(others=False, digests=range(slot << SLOT_BITS, (slot + 1) << SLOT_BITS))
    for slot in range(SLOTS)
)
ALL_ROWS: None = None


def rows_of(
    location: Location,
    file: DataFile,
    part: ReportPart | None = ALL_ROWS,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.Table]:
    """The selected rows of a data file, a table for each row group; raises `HistoryFaultError`."""
    names = list(columns) if columns is not None else None
    if names is not None and part is not None:
        names = list(dict.fromkeys((*names, "kind", "digest")))
    with reading_file(location, file.name) as parquet:
        for number in range(parquet.num_row_groups):
            if part is None:
                yield parquet.read_row_group(number, columns=names)
            elif part.may_be_in(extent(parquet, number, "kind"), extent(parquet, number, "digest")):
                yield part.of(parquet.read_row_group(number, columns=names))


def of_polls(rows: pa.Table, after: int, up_to: int, kinds: Sequence[str] = ()) -> pa.Table:
    """The rows of polls after `after` up to `up_to`; with `kinds` only rows of these kinds."""
    polls = rows.column("poll_id")
    kept = pc.and_(pc.greater(polls, after), pc.less_equal(polls, up_to))
    if kinds:
        kept = pc.and_(kept, pc.is_in(rows.column("kind"), pa.array([*map(str, kinds)])))
    return rows.filter(kept)


def extent(parquet: pq.ParquetFile, group: int, column: str) -> tuple[Any, Any] | None:
    """The least and greatest value of a row group's column; None without statistics."""
    number = parquet.schema_arrow.names.index(column)
    found = parquet.metadata.row_group(group).column(number).statistics
    return (found.min, found.max) if found is not None and found.has_min_max else None
