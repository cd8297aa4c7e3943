"""Computes the gold tables of a history, a week at a time; days without new rows are skipped."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from counterpoise.pipeline.gold.tables import GOLD_TABLES, query_of
from counterpoise.pipeline.gold.write import clean_up, made_of_sources, replace_days
from counterpoise.pipeline.spark.code import ship_code
from counterpoise.pipeline.spark.source import frame_of
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.schema import JOURNAL, REPORTS, day_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS: Final = 86_400_000
DAYS_AT_ONCE: Final = 7
"""The most days that one Spark job computes: a job takes seconds, however few rows it has."""
AROUND_MS: Final = 600_000
"""To see a move's effect, loads are compared over so many milliseconds before and after it."""
WEEK_MS: Final = 6 * DAY_MS
"""How long before a day rows are read for it: a bundle's daily shape needs the six days before."""
HOURS: Final = "gold_bundle_hours"
SHARED: Final = frozenset({HOURS, "gold_bundle_days", "gold_namespace_hours", "gold_imbalance"})
"""Gold tables that are also inputs of other gold tables."""
OF_DAYS: Final = (
    "bundle_loads",
    "broker_loads",
    "gaps",
    "polls",
    "decisions",
    "rejections",
    "outcomes",
)
OF_SESSION: Final = {"spark.sql.session.timeZone": "UTC"}
SETTINGS: Final = {
    # Unlike the stream's batches, a roll-up has many rows, so generating code is worth it.
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""Spark settings of a session that is started for the roll-up."""


@dataclass(frozen=True, slots=True)
class DaysToRollUp:
    """The days whose gold tables are out of date, and which tables."""

    sources: Mapping[str, int]
    """For each day of the history a version of its rows.

    It is a number that grows whenever rows are added, and when the day is over."""
    old: Mapping[str, frozenset[str]]
    """The tables to be replaced, by day; days without any are omitted."""


def days_to_roll_up(location: Location, *, again: bool = False) -> DaysToRollUp:
    """Find the days whose gold tables are older than what was recorded; all days if `again`.

    Gold rows of days that the history no longer has are kept. Raises `HistoryFaultError`.
    """
    sources = _sources_of_days(location)
    made_of = {table: made_of_sources(location, table, sources) for table in GOLD_TABLES}
    old = {
        day: frozenset(table for table in GOLD_TABLES if again or made_of[table].get(day) != source)
        for day, source in sorted(sources.items())
    }
    return DaysToRollUp(sources, {day: tables for day, tables in old.items() if tables})


def roll_up(
    spark: "SparkSession",
    location: Location,
    days: DaysToRollUp,
    now_ms: int,
    at_once: int = DAYS_AT_ONCE,
) -> Iterator[tuple[str, str, int]]:
    """Compute these days of the gold tables, `at_once` days by one job for each table.

    Yields table, day and number of rows as soon as each is replaced. Raises `HistoryFaultError`.
    """
    for name, value in OF_SESSION.items():
        spark.conf.set(name, value)
    ship_code(spark)
    left = list(days.old)
    for week in (left[n : n + at_once] for n in range(0, len(left), at_once)):
        with ExitStack() as stack:
            frames = _frames_of(spark, location, week, stack)
            for table in GOLD_TABLES:
                made_of = {day: days.sources[day] for day in week if table in days.old[day]}
                if made_of:
                    rows = replace_days(location, table, frames[table], made_of, now_ms)
                    yield from ((table, day, rows[day]) for day in made_of)
    for table in {table for tables in days.old.values() for table in tables}:
        clean_up(location, table)


def _sources_of_days(location: Location) -> dict[str, int]:
    """The version of each day's sources: twice its rows in `reports` and `journal`, plus 1 once the
    day is over.

    A day is over some minutes after midnight, when the effect of its last moves is recorded.
    """
    rows: Counter[str] = Counter()
    newest = 0
    reader = TablesReader(location)
    for file in (*reader.files(REPORTS), *reader.files(JOURNAL)):
        rows[file.day] += file.rows
        newest = max(newest, file.last_poll)
    return {
        day: 2 * count + (newest >= _start_ms(day) + DAY_MS + AROUND_MS)
        for day, count in rows.items()
    }


def _frames_of(
    spark: "SparkSession", location: Location, days: Sequence[str], stack: ExitStack
) -> "dict[str, DataFrame]":
    """The gold tables of some days as data frames, computed when written; shared parts are cached.

    Each is also a temporary view of the table's name, which the queries of later tables read.
    """
    start, end = _start_ms(days[0]), _start_ms(days[-1]) + DAY_MS - 1
    for view in OF_DAYS:
        rows = frame_of(spark, location, view, start, end, days=frozenset(days))
        rows.createOrReplaceTempView(view)
    around = frame_of(spark, location, "broker_loads", start - AROUND_MS, end + AROUND_MS)
    around.createOrReplaceTempView("broker_loads_around")
    weeks = [(day_of(_start_ms(day) - WEEK_MS), day) for day in days]
    spark.createDataFrame(weeks, "first_day string, day string").createOrReplaceTempView("weeks")
    frames: dict[str, DataFrame] = {}
    for table in GOLD_TABLES:
        if table == "gold_bundle_features":
            hours = _hours_of_weeks(spark, location, days, frames[HOURS])
            hours.createOrReplaceTempView("gold_bundle_hours_of_weeks")
        frame = spark.sql(query_of(table))
        if table in SHARED:
            frame = frame.persist()
            stack.callback(frame.unpersist)
        frame.createOrReplaceTempView(table)
        frames[table] = frame
    return frames


def _hours_of_weeks(
    spark: "SparkSession", location: Location, days: Sequence[str], new: "DataFrame"
) -> "DataFrame":
    """The rows of `gold_bundle_hours` of these days (`new`) and of the six days before the first,
    as far as those are rolled up.
    """
    kept = frozenset(file.day for file in TablesReader(location).files(HOURS)) - frozenset(days)
    if not kept:
        return new
    first, last = _start_ms(days[0]) - WEEK_MS, _start_ms(days[-1])
    before = frame_of(spark, location, HOURS, first, last, days=kept)
    return before.select(new.columns).unionByName(new)


def _start_ms(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)
