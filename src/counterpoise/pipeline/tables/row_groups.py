"""Parts of a data file of reports, of which only the row groups are read that may have them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from counterpoise.load.rows import BUNDLE
from counterpoise.pipeline.tables.data_files import SLOT_BITS, SLOTS, DataFile, parsed
from counterpoise.pipeline.tables.location import Location


@dataclass(frozen=True, slots=True)
class ReportPart:
    """Which rows of a data file: those that are no bundle's, bundles by ranges of digests."""

    others: bool
    """Those that are no bundle's."""
    digests: range = range(0)
    """Bundles whose names have such a digest."""

    def may_be_in(self, kinds: tuple[Any, Any] | None, digests: tuple[Any, Any] | None) -> bool:
        """Whether a row group has such rows, by the extents of two columns, where known."""
        if kinds is None or kinds[0] != kinds[1]:
            return True
        if kinds[0] != BUNDLE:
            return self.others
        return digests is None or (
            digests[0] < self.digests.stop and digests[1] >= self.digests.start
        )

    def of(self, rows: pa.Table) -> pa.Table:
        """Those of some rows, which have the columns `kind` and `digest`."""
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
    """A part of a data file, a row group at a time; raises `HistoryFaultError`."""
    names = list(columns) if columns is not None else None
    if names is not None and part is not None:
        names = list(dict.fromkeys((*names, "kind", "digest")))
    numbers: list[int] = parsed(location, file.name, partial(_numbers, part=part))
    for number in numbers:
        read = partial(pq.ParquetFile.read_row_group, i=number, columns=names)
        rows: pa.Table = parsed(location, file.name, read)
        yield rows if part is None else part.of(rows)


def _numbers(parquet: pq.ParquetFile, part: ReportPart | None) -> list[int]:
    """The row groups that may have a part."""
    groups = range(parquet.num_row_groups)
    if part is None:
        return list(groups)
    return [
        n
        for n in groups
        if part.may_be_in(extent(parquet, n, "kind"), extent(parquet, n, "digest"))
    ]


def extent(parquet: pq.ParquetFile, group: int, column: str) -> tuple[Any, Any] | None:
    """The least and the greatest value of a row group's column, where its statistics have them."""
    number = parquet.schema_arrow.names.index(column)
    found = parquet.metadata.row_group(group).column(number).statistics
    return (found.min, found.max) if found is not None and found.has_min_max else None
