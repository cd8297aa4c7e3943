"""A history's tables as a batch source for Spark, read by Python in the executors.

`spark.read.format("counterpoise").option("table", "bundle_loads").load("s3://bucket/history")`

Options: `table`, the name of a table or view; `from` and `to`, times in milliseconds since 1970.
The source needs no jar: delta-rs lists the table's current files in the driver, and each task reads
some of them by `pyarrow`, with the credentials that `pyarrow` finds there.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from counterpoise.pipeline.spark.frames import spark_schema, spark_type
from counterpoise.pipeline.tables.data_files import DataFile, read_file
from counterpoise.pipeline.tables.delta_table import find_table
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.location import Location, open_location
from counterpoise.pipeline.tables.row_groups import of_polls
from counterpoise.pipeline.tables.schema import DAY, SCHEMAS, completed, day_of
from counterpoise.pipeline.tables.views import VIEWS, TableView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_A_TASK = 1_000_000
ROWS_A_BATCH = 100_000
LAST = 253_402_300_799_000
"""The end of the year 9999, in milliseconds."""


class HistorySource(DataSource):
    """The Spark data source `counterpoise`, which reads a history's tables and views."""

    @classmethod
    def name(cls) -> str:
        """The name of the source in `spark.read.format`."""
        return "counterpoise"

    def schema(self) -> StructType:
        """The columns of the table or view to be read, and the partition column `day`."""
        return spark_type(arrow_schema(self._location, _view_of(self._name)))

    def reader(self, schema: Any) -> "HistorySourceReader":
        """A reader of the table's or view's rows between the options `from` and `to`."""
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
    """The rows of a table or view between two times as a data frame, for this package's own jobs.

    Faster than the data source: the driver lists the files, where Spark would start a Python
    process for each scan. With `days` only these partitions.
    """
    reader = _reader(location, name, first_ms, last_ms)
    parts = _Parts(reader, reader.partitions(days))
    count = len(parts.parts)
    return spark.range(0, count, 1, count).mapInArrow(parts, spark_type(reader.columns))


def _reader(location: Location, name: str, first_ms: int, last_ms: int) -> "HistorySourceReader":
    view = _view_of(name)
    return HistorySourceReader(location, view, arrow_schema(location, view), first_ms, last_ms)


def _view_of(name: str) -> TableView:
    return VIEWS.get(name) or TableView(name, "", (), "")


def arrow_schema(location: Location, view: TableView) -> pa.Schema:
    """The columns of a table or view with types that Spark accepts; a view also has `poll_id`.

    Raises `ValueError` if there is no such table.
    """
    if view.table in SCHEMAS:
        known = SCHEMAS[view.table].append(pa.field(DAY, pa.string()))
    else:
        handle = find_table(location, view.table)
        if handle is None:
            raise ValueError(f"{location.address} has no table {view.table!r}")
        known = pa.schema(handle.schema().to_arrow())
    names = known.names
    if view.columns:
        names = list(dict.fromkeys(["poll_id", *view.columns, DAY]))
    return spark_schema(pa.schema([known.field(name) for name in names]))


@dataclass
class FilesPartition(InputPartition):
    """The data files that one Spark task reads."""

    files: tuple[DataFile, ...]


class HistorySourceReader(DataSourceReader):
    """Reads the rows of a table or view between two times, both included."""

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
        """Data files in groups of about a million rows; with `days` only those of these days."""
        groups: list[list[DataFile]] = []
        room = 0
        first_day, last_day = day_of(self._first_ms), day_of(min(self._last_ms, LAST))
        for file in TablesReader(self._location).files(self._view.table, self._first_ms - 1):
            if (
                (days is not None and file.day not in days)
                or file.first_poll > self._last_ms
                or not first_day <= file.day <= last_day
            ):
                continue
            if file.rows > room or not groups:
                groups.append([])
                room = ROWS_A_TASK
            groups[-1].append(file)
            room -= file.rows
        return [FilesPartition(tuple(group)) for group in groups] or [FilesPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition's files."""
        if not isinstance(partition, FilesPartition):
            raise TypeError(f"a partition of this source was expected, not {partition!r}")
        for file in partition.files:
            yield from self._rows(file).to_batches(max_chunksize=ROWS_A_BATCH)

    def _rows(self, file: DataFile) -> pa.Table:
        names = [name for name in self.columns.names if name != DAY]
        rows = read_file(self._location, file, list(dict.fromkeys([*names, *self._of_view])))
        if "poll_id" in self._of_view:
            kinds = [self._view.kind] if self._view.kind else []
            rows = of_polls(rows, self._first_ms - 1, self._last_ms, kinds)
        days = pa.repeat(file.day, len(rows))
        made = completed(rows, names).append_column(DAY, days)
        return made.select(self.columns.names).cast(self.columns)


class _Parts:
    """In a Spark task, reads the partitions whose numbers are in its rows."""

    def __init__(self, reader: HistorySourceReader, parts: Sequence[FilesPartition]) -> None:
        self._reader = reader
        self.parts = parts

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from self._reader.read(self.parts[number])
