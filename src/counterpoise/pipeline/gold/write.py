"""Replaces days of a gold table: tasks write files, and the driver commits all of them to Delta.

A gold table may be written while a balancer writes other tables of the history. If two jobs write
the same day at the same time, Delta refuses the later one.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, Schema, Transaction
from deltalake.transaction import AddAction
from pyspark.sql.pandas.types import to_arrow_schema

from counterpoise.pipeline.gold.tables import GOLD_TABLES
from counterpoise.pipeline.spark.frames import spark_schema, spark_type
from counterpoise.pipeline.tables.delta_table import create_table, find_table, open_table, trouble
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.plain_files import new_file
from counterpoise.pipeline.tables.schema import DAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WRITTEN: Final = pa.schema(
    {DAY: pa.string(), "path": pa.string(), "size": pa.int64(), "rows": pa.int64()}
)
_MADE_OF: Final = "made-of-"


class _DayFiles:
    """In a Spark task, writes rows to one file per day; yields what a commit needs of each."""

    def __init__(self, location: Location, table: str) -> None:
        self._location, self._table = location, table

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = [batch for batch in batches if batch.num_rows]
        if not kept:
            return
        rows = pa.Table.from_batches(kept)
        rows = rows.cast(spark_schema(rows.schema))
        for day in sorted(rows.column(DAY).unique().to_pylist()):
            of_day = rows.filter(pc.equal(rows.column(DAY), day)).drop_columns([DAY])
            yield self._written(day, of_day)

    def _written(self, day: str, rows: pa.Table) -> pa.RecordBatch:
        path = f"{DAY}={day}/{uuid.uuid4().hex}.parquet"
        with new_file(self._location, f"{self._table}/{path}") as sink:
            pq.write_table(rows, sink, compression="zstd")
            size = sink.tell()
        row = {DAY: day, "path": path, "size": size, "rows": len(rows)}
        return pa.RecordBatch.from_pylist([row], schema=_WRITTEN)


def replace_days(
    location: Location, table: str, frame: "DataFrame", made_of: Mapping[str, int], now_ms: int
) -> Mapping[str, int]:
    """Replace days of a gold table by a frame's rows; returns the number of rows by day.

    `made_of` has the days to replace, each with the version of its sources
    (`DaysToRollUp.sources`). Raises `HistoryFaultError`.
    """
    chosen = frame.where(frame[DAY].isin(*made_of))
    # This runs no job: Spark knows the columns of a frame without computing its rows.
    kinds = pa.schema(to_arrow_schema(frame.drop(DAY).schema, timezone="UTC"))
    schema = Schema.from_arrow(spark_schema(kinds).append(pa.field(DAY, pa.string())))
    made = chosen.mapInArrow(_DayFiles(location, table), spark_type(_WRITTEN)).toArrow()
    written = made.to_pylist()
    handle = find_table(location, table) or create_table(
        location, table, schema, description=GOLD_TABLES[table]
    )
    with trouble(location, table):
        if pa.schema(handle.schema().to_arrow()).names != [*kinds.names, DAY]:
            raise HistoryFaultError(
                f"{location.where(table)} has other columns than this version writes: remove that "
                "directory, and all days that the history has are rolled up again"
            )
        handle.create_write_transaction(
            [_add_action(row, now_ms) for row in written],
            "overwrite",
            schema,
            partition_by=[DAY],
            partition_filters=[(DAY, "in", sorted(made_of))],
            commit_properties=CommitProperties(
                app_transactions=[
                    Transaction(_MADE_OF + day, number) for day, number in made_of.items()
                ]
            ),
        )
    rows_of = dict.fromkeys(made_of, 0)
    for row in written:
        rows_of[row[DAY]] += row["rows"]
    return rows_of


def made_of_sources(location: Location, table: str, days: Iterable[str]) -> Mapping[str, int]:
    """By day, the version of the sources from which the table was computed, by its last commit."""
    handle = find_table(location, table)
    if handle is None:
        return {}
    with trouble(location, table):
        known = {day: handle.transaction_version(_MADE_OF + day) for day in days}
    return {day: made_of for day, made_of in known.items() if made_of is not None}


def clean_up(location: Location, table: str) -> None:
    """Delete the files of replaced days once they are a week old: no reader needs them by then."""
    with trouble(location, table):
        handle = open_table(location, table)
        handle.vacuum(dry_run=False)
        handle.create_checkpoint()
        handle.cleanup_metadata()


def _add_action(row: Mapping[str, Any], now_ms: int) -> AddAction:
    statistics = json.dumps({"numRecords": row["rows"]})
    return AddAction(row["path"], row["size"], {DAY: row[DAY]}, now_ms, True, statistics)
