"""Rolls a history up into its gold tables, a day at a time; a day without news is left alone."""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa
from deltalake.exceptions import TableNotFoundError

from counterpoise.pipeline.gold.tables import GOLD_TABLES, query_of
from counterpoise.pipeline.gold.write import clean_up, made_of_sources, replace_day
from counterpoise.pipeline.spark.code import ship_code
from counterpoise.pipeline.spark.source import frame_of
from counterpoise.pipeline.tables.delta_table import open_table, trouble
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.schema import DAY, JOURNAL, REPORTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS: Final = 86_400_000
AROUND_MS: Final = 600_000
"""How far before and after a move its effect is looked for."""
WEEK_MS: Final = 6 * DAY_MS
"""A day and the six before it have the shape of a bundle's load."""
HOURS: Final = "gold_bundle_hours"
SHARED: Final = frozenset({HOURS, "gold_bundle_days", "gold_namespace_hours", "gold_imbalance"})
"""Other gold tables are made of these."""
OF_DAY: Final = (
    *("bundle_loads", "broker_loads", "gaps", "polls"),
    *("decisions", "rejections", "outcomes"),
)
OF_SESSION: Final = {"spark.sql.session.timeZone": "UTC"}
SETTINGS: Final = {
    # Unlike the stream's batches these have many rows: generated code pays.
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""Of a session that is started for it."""


class RollupLog(Protocol):
    """What a person is shown while days are rolled up."""

    def rolled_up(self, table: str, day: str, rows: int) -> None:
        """A day of a table was replaced."""


@dataclass(frozen=True, slots=True)
class DaysToRollUp:
    """What of the gold tables is out of date."""

    sources: Mapping[str, int]
    """For each day of the history, a number that grows with whatever its rows are made of."""
    old: Mapping[str, frozenset[str]]
    """The tables to be replaced, by day; no day without any."""


def days_to_roll_up(location: Location, *, again: bool = False) -> DaysToRollUp:
    """Compare the gold tables with the history; `again` counts every day as out of date.

    A day that the history has no more stays as it is. Raises `HistoryFaultError`.
    """
    sources = _sources_of_days(location)
    made_of = {table: made_of_sources(location, table, sources) for table in GOLD_TABLES}
    old = {
        day: frozenset(table for table in GOLD_TABLES if again or made_of[table].get(day) != source)
        for day, source in sorted(sources.items())
    }
    return DaysToRollUp(sources, {day: tables for day, tables in old.items() if tables})


def roll_up(
    spark: "SparkSession", location: Location, days: DaysToRollUp, now_ms: int, log: RollupLog
) -> None:
    """Replace these days of the gold tables; raises `HistoryFaultError`."""
    for name, value in OF_SESSION.items():
        spark.conf.set(name, value)
    ship_code(spark)
    for day, tables in days.old.items():
        with ExitStack() as stack:
            frames = _frames_of_day(spark, location, day, stack)
            for table in (name for name in GOLD_TABLES if name in tables):
                source = days.sources[day]
                rows = replace_day(location, table, day, frames[table], source, now_ms)
                log.rolled_up(table, day, rows)
    for table in {table for tables in days.old.values() for table in tables}:
        clean_up(location, table)


def _sources_of_days(location: Location) -> dict[str, int]:
    """Rows of reports and of the journal by day, twice, and one more once the day is over.

    It is over some minutes after midnight, when the effect of its last moves is recorded.
    """
    rows: Counter[str] = Counter()
    newest = 0
    for table in (REPORTS, JOURNAL):
        with trouble(location, table):
            try:
                actions = pa.table(open_table(location, table).get_add_actions(flatten=True))
            except TableNotFoundError:
                continue
        for row in actions.to_pylist():
            rows[row[f"partition.{DAY}"]] += row["num_records"] or 0
            newest = max(newest, row.get("max.poll_id") or 0)
    return {
        day: 2 * count + (newest >= _start_ms(day) + DAY_MS + AROUND_MS)
        for day, count in rows.items()
    }


def _frames_of_day(
    spark: "SparkSession", location: Location, day: str, stack: ExitStack
) -> "dict[str, DataFrame]":
    """The gold tables of a day; Spark computes each when it is written, and keeps what is shared.

    Each is a temporary view, too, by which the queries of the others name it.
    """
    start = _start_ms(day)
    end = start + DAY_MS - 1
    for view in OF_DAY:
        frame_of(spark, location, view, start, end).createOrReplaceTempView(view)
    around = frame_of(spark, location, "broker_loads", start - AROUND_MS, end + AROUND_MS)
    around.createOrReplaceTempView("broker_loads_around")
    frames: dict[str, DataFrame] = {}
    for table in GOLD_TABLES:
        if table == "gold_bundle_features":
            week = _week(spark, location, start, frames["gold_bundle_hours"])
            week.createOrReplaceTempView("gold_bundle_hours_of_week")
        frame = spark.sql(query_of(table))
        if table in SHARED:
            frame = frame.persist()
            stack.callback(frame.unpersist)
        frame.createOrReplaceTempView(table)
        frames[table] = frame
    return frames


def _week(
    spark: "SparkSession", location: Location, start_ms: int, today: "DataFrame"
) -> "DataFrame":
    """The hours of bundles in a day and in those of the six before it that are rolled up."""
    with trouble(location, HOURS):
        try:
            open_table(location, HOURS)
        except TableNotFoundError:
            return today
    before = frame_of(spark, location, HOURS, start_ms - WEEK_MS, start_ms - 1)
    return before.select(today.columns).unionByName(today)


def _start_ms(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)
