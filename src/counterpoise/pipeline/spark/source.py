"""A history's tables as a batch source of Spark's, read by Python in the executors.

`spark.read.format("counterpoise").option("table", "bundle_loads").load("s3://bucket/history")`

Options: `table`, the name of a table or view; `from` and `to`, times in milliseconds since 1970.
It needs no jar: delta-rs lists the files of the table as it is now, in the driver, and each task
reads some of them by `pyarrow`, with the keys that this finds there.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import TableNotFoundError
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from counterpoise.pipeline.spark.frames import ddl_of, spark_schema
from counterpoise.pipeline.tables.delta_table import open_table
from counterpoise.pipeline.tables.location import Location, open_location
from counterpoise.pipeline.tables.rows_codec import completed
from counterpoise.pipeline.tables.schema import DAY, SCHEMAS, day_of
from counterpoise.pipeline.tables.views import VIEWS, TableView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_A_TASK = 1_000_000
ROWS_A_BATCH = 100_000
LAST = 253_402_300_799_000
"""The end of the year 9999, in milliseconds."""


class HistorySource(DataSource):
    """The source `counterpoise`."""

    @classmethod
    def name(cls) -> str:
        """What `spark.read.format` names it by."""
        return "counterpoise"

    def schema(self) -> str:
        """The columns of the table or view, and `day`."""
        return ddl_of(arrow_schema(self._location, _view_of(self._name)))

    def reader(self, schema: Any) -> "HistorySourceReader":
        """See `DataSource.reader`."""
        del schema
        first, last = int(self.options.get("from", 0)), int(self.options.get("to", LAST))
        return _reader(self._location, self._name, first, last)

    @property
    def _location(self) -> Location:
        return open_location(self.options["path"])

    @property
    def _name(self) -> str:
        return str(self.options.get("table", ""))


def frame_of(
    spark: "SparkSession",
    location: Location,
    name: str,
    first_ms: int,
    last_ms: int,
    *,
    days: Container[str] | None = None,
) -> "DataFrame":
    """The same rows, or those of some days alone, for a job of ours, whose driver lists the files.

    Spark starts a Python process for each scan of a source that it plans, most of a second.
    """
    reader = _reader(location, name, first_ms, last_ms)
    parts = _Parts(reader, reader.partitions(days))
    count = len(parts.parts)
    return spark.range(0, count, 1, count).mapInArrow(parts, ddl_of(reader.columns))


def _reader(location: Location, name: str, first_ms: int, last_ms: int) -> "HistorySourceReader":
    view = _view_of(name)
    return HistorySourceReader(location, view, arrow_schema(location, view), first_ms, last_ms)


def _view_of(name: str) -> TableView:
    return VIEWS.get(name) or TableView(name, "", (), "")


def arrow_schema(location: Location, view: TableView) -> pa.Schema:
    """The columns of a table or view as Spark takes them, of a view with the poll's number.

    Raises `ValueError` for no table.
    """
    if view.table in SCHEMAS:
        known = SCHEMAS[view.table].append(pa.field(DAY, pa.string()))
    else:
        try:
            known = pa.schema(open_table(location, view.table).schema().to_arrow())
        except TableNotFoundError:
            raise ValueError(f"{location.address} has no table {view.table!r}") from None
    names = known.names
    if view.columns:
        names = list(dict.fromkeys(["poll_id", *view.columns, DAY]))
    return spark_schema(pa.schema([known.field(name) for name in names]))


@dataclass
class FilesPartition(InputPartition):
    """Files of a table, below its directory, with the day of each."""

    files: tuple[tuple[str, str], ...]


class HistorySourceReader(DataSourceReader):
    """Reads the rows of a view between two times, both included."""

    def __init__(
        self, location: Location, view: TableView, columns: pa.Schema, first_ms: int, last_ms: int
    ) -> None:
        self._location = location
        self._view = view
        self.columns = columns
        self._first_ms, self._last_ms = first_ms, last_ms
        polled = view.table in SCHEMAS and "poll_id" in SCHEMAS[view.table].names
        self._of_view = (*(["poll_id"] if polled else []), *(["kind"] if view.kind else []))

    def partitions(self, days: Container[str] | None = None) -> Sequence[FilesPartition]:
        """Some files each, about a million rows; with `days` only files of these."""
        groups: list[list[tuple[str, str]]] = []
        room = 0
        for path, day, rows in self._files():
            if days is not None and day not in days:
                continue
            if rows > room or not groups:
                groups.append([])
                room = ROWS_A_TASK
            groups[-1].append((path, day))
            room -= rows
        return [FilesPartition(tuple(group)) for group in groups] or [FilesPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition's files."""
        if not isinstance(partition, FilesPartition):
            raise TypeError(f"a partition of this source was expected, not {partition!r}")
        for path, day in partition.files:
            yield from self._rows(path, day).to_batches(max_chunksize=ROWS_A_BATCH)

    def _files(self) -> Iterator[tuple[str, str, int]]:
        """Path, day and rows of the files that may have rows between the two times."""
        try:
            handle = open_table(self._location, self._view.table)
        except TableNotFoundError:
            return
        first, last = day_of(self._first_ms), day_of(min(self._last_ms, LAST))
        rows = pa.table(handle.get_add_actions(flatten=True)).to_pylist()
        for row in sorted(rows, key=lambda row: str(row["path"])):
            day, least, most = (
                row[f"partition.{DAY}"],
                row.get("min.poll_id"),
                row.get("max.poll_id"),
            )
            in_time = least is None or (least <= self._last_ms and most >= self._first_ms)
            if first <= day <= last and in_time:
                yield row["path"], day, row["num_records"] or 0

    def _rows(self, path: str, day: str) -> pa.Table:
        names = [name for name in self.columns.names if name != DAY]
        wanted = list(dict.fromkeys([*names, *self._of_view]))
        place = self._location.path(f"{self._view.table}/{path}")
        with self._location.filesystem.open_input_file(place) as file:
            rows = pq.ParquetFile(file).read(columns=wanted)
        if "kind" in self._of_view:
            rows = rows.filter(pc.equal(rows.column("kind"), self._view.kind))
        if "poll_id" in self._of_view:
            polls = rows.column("poll_id")
            later = pc.greater_equal(polls, self._first_ms)
            rows = rows.filter(pc.and_(later, pc.less_equal(polls, self._last_ms)))
        days = pa.array([day] * len(rows), pa.string())
        made = completed(rows, names).append_column(DAY, days)
        return made.select(self.columns.names).cast(self.columns)


class _Parts:
    """Reads the partitions whose numbers a task has."""

    def __init__(self, reader: HistorySourceReader, parts: Sequence[FilesPartition]) -> None:
        self._reader = reader
        self.parts = parts

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from self._reader.read(self.parts[number])
