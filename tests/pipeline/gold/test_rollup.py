"""The gold tables, held against NumPy over the rows that they were made of."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow.fs import LocalFileSystem, copy_files

from counterpoise.load.rows import BROKER, BUNDLE
from counterpoise.pipeline.gold.rollup import days_to_roll_up, roll_up
from counterpoise.pipeline.gold.tables import GOLD_TABLES, query_of
from counterpoise.pipeline.gold.write import replace_days
from counterpoise.pipeline.spark.source import HistorySource
from counterpoise.pipeline.tables.delta_table import open_table
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.schema import DAY
from tests.pipeline.gold.expected_rows import day_of, expected_rows, through
from tests.pipeline.gold.recorded import (
    BROKERS,
    BUNDLES,
    DAY_MS,
    EVERY,
    START,
    append,
    history,
    journal,
    reports,
)
from tests.pipeline.s3_server import bucket

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

Rows = list[dict[str, Any]]


def rolled_up(
    spark: "SparkSession", home: str | Path, tables: Iterable[str] = tuple(GOLD_TABLES)
) -> set[tuple[str, str]]:
    """Bring these gold tables of a history up to date, and give the days that were replaced."""
    location = open_location(home)
    days = days_to_roll_up(location)
    old = {day: names & frozenset(tables) for day, names in days.old.items()}
    replaced = set[tuple[str, str]]()
    for table, day, rows in roll_up(spark, location, replace(days, old=old), START):
        written = open_table(location, table)
        assert rows == len(written.to_pyarrow_table(filters=[(DAY, "=", day)]))
        counted = pa.table(written.get_add_actions(flatten=True)).to_pylist()
        assert rows == sum(each["num_records"] for each in counted if each["partition.day"] == day)
        replaced.add((table, day))
    assert not any(spark.catalog.isCached(table) for table in tables), "memory is given back"
    return replaced


@pytest.fixture(scope="module")
def gold(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Rows]:
    """The rows of each gold table of two days, which are UTC's wherever it is computed."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    home = history(tmp_path_factory.mktemp("gold"))
    assert rolled_up(spark, home) == {(table, day) for table in GOLD_TABLES for day in DAYS}
    return lambda table: DeltaTable(str(home / table)).to_pyarrow_table().to_pylist()


DAYS = ("2026-11-20", "2026-11-21")
REPORTED = reports(0, 288)


ORDER = ("day", "kind", "note", "bundle", "namespace", "broker", "hour", "poll_id", "id", "rule",
         "first_at")  # fmt: skip


def in_order(rows: Rows) -> Rows:
    """Rows of a gold table by what tells them apart, each list in them as columns of its own."""
    flat = [
        {name: each for name, each in row.items() if not isinstance(each, list)}
        | {f"{name} {n}": one for name, each in row.items() if isinstance(each, list)
           for n, one in enumerate(each)}
        for row in rows
    ]  # fmt: skip
    return sorted(flat, key=lambda row: [str(row.get(name)) for name in ORDER])


EXPECTED = expected_rows(REPORTED, journal())


@pytest.mark.parametrize("table", GOLD_TABLES)
def test_every_column_of_a_gold_table_is_what_its_rows_come_to(
    gold: Callable[[str], Rows], table: str
) -> None:
    found, expected = in_order(gold(table)), in_order(EXPECTED[table])
    assert len(found) == len(expected)
    for row, made in zip(found, expected, strict=True):
        assert row.keys() == made.keys()
        numbers = {name: pytest.approx(x) for name, x in made.items() if isinstance(x, float)}
        assert row == made | numbers


def test_a_day_without_rows_any_more_has_none_and_others_keep_theirs(
    spark: "SparkSession", tmp_path: Path
) -> None:
    location, table = open_location(tmp_path), "gold_gaps"

    def rows(*days: str) -> "DataFrame":
        return spark.createDataFrame([(day, 1) for day in days], "day string, polls long")

    replace_days(location, table, rows(*DAYS), dict.fromkeys(DAYS, 1), START)
    none = rows(*DAYS).where("polls > 1")
    assert replace_days(location, table, none, {DAYS[0]: 2}, START) == {DAYS[0]: 0}
    left = open_table(location, table).to_pyarrow_table().to_pylist()
    assert [row["day"] for row in left] == [DAYS[1]]


def test_a_day_is_replaced_when_it_has_news_and_kept_otherwise(
    spark: "SparkSession", tmp_path: Path
) -> None:
    home, table = history(tmp_path / "history", days=1), "gold_imbalance"
    rolled_up(spark, home, [table])
    left = frozenset(GOLD_TABLES) - {table}
    # One that was cut off goes on with the tables that are left.
    assert days_to_roll_up(open_location(home)).old == {DAYS[0]: left}
    assert days_to_roll_up(open_location(home), again=True).old == {DAYS[0]: frozenset(GOLD_TABLES)}
    # Ten minutes after midnight the effect of the first day's last moves is there.
    for number, old in ((144, left), (145, frozenset(GOLD_TABLES))):
        append(home, "reports", reports(number, number + 1))
        assert days_to_roll_up(open_location(home)).old[DAYS[0]] == old
    append(home, "reports", reports(146, 150))
    assert rolled_up(spark, home, [table]) == {(table, day) for day in DAYS}
    append(home, "reports", reports(150, 156))
    # Replaced files go once no reader can need them: at once, where a table says so.
    at_once = {"delta.deletedFileRetentionDuration": "interval 0 days"}
    DeltaTable(str(home / table)).alter.set_table_properties(at_once)
    assert rolled_up(spark, home, [table]) == {(table, DAYS[1])}
    kept = DeltaTable(str(home / table))
    every = kept.to_pyarrow_table()
    assert len([*(home / table).glob("day=*/*.parquet")]) == len(kept.file_uris())
    polls = {row["poll_id"] for row in reports(0, 156) if row["kind"] == BROKER}
    assert sorted(every.column("poll_id").to_pylist()) == sorted(polls)
    # What the history has no more stays in the gold tables.
    DeltaTable(str(home / "reports")).delete(f"day = '{DAYS[0]}'")
    assert rolled_up(spark, home, [table]) == set()
    assert DeltaTable(str(home / table)).to_pyarrow_table().equals(every)


def test_a_week_is_seven_days_each_once_and_a_move_at_midnight_has_a_before(
    spark: "SparkSession", tmp_path: Path
) -> None:
    home, tables = tmp_path / "history", ("gold_bundle_hours", "gold_bundle_features", "gold_moves")
    for first in range(0, 8 * 144, 144):
        append(home, "reports", [*reports(first, first + 1), *reports(first + 143, first + 144)])
    midnight = START + 7 * DAY_MS
    append(home, "journal", [
        {"poll_id": midnight, "at": midnight, "kind": "outcome", "id": "a", "status": "moved",
         "bundle": BUNDLES[1], "source": BROKERS[0], "destination": BROKERS[2], "carried_out": True,
         "started_at_ms": midnight, "started_at": midnight, "ended_at_ms": midnight + 1,
         "ended_at": midnight + 1, "owner": BROKERS[2]}
    ])  # fmt: skip
    # Each day has an hour that begins it and one that ends it; a job is for seven days.
    for hours in ([2, 4, 6, 8, 10, 12, 14, 14], [14]):
        replaced = {day for _, day in rolled_up(spark, home, tables)}
        found = DeltaTable(str(home / "gold_bundle_features")).to_pyarrow_table().to_pylist()
        ours = {row["day"]: row["hours"] for row in found if row["bundle"] == BUNDLES[0]}
        assert [ours[day] for day in sorted(replaced)] == hours
        append(home, "reports", reports(7 * 144 + 1, 7 * 144 + 2))
    [move] = DeltaTable(str(home / "gold_moves")).to_pyarrow_table().to_pylist()
    [before] = [row for row in reports(7 * 144 - 1, 7 * 144)
                if row["kind"] == BROKER and row["broker"] == BROKERS[0]]  # fmt: skip
    assert move["source_before"] == pytest.approx(through(before))


def test_a_table_of_other_columns_is_not_written_to(spark: "SparkSession", tmp_path: Path) -> None:
    home, table = history(tmp_path / "history", days=1), "gold_gaps"
    other = pa.table({"day": [DAYS[0]], "kind": ["poll"]})
    write_deltalake(str(home / table), other, partition_by=["day"])
    with pytest.raises(HistoryFaultError, match=rf"{table} has other columns .*: remove that"):
        rolled_up(spark, home, [table])


def test_limits_of_the_hottest_and_of_silence(spark: "SparkSession") -> None:
    """A hundred bundles, by name where two are alike; more than three usual pauses are silence."""
    bundles = [
        {"day": "d", "bundle": f"t/n/{n:03d}", "namespace": "t/n", "broker": "b",
         "bytes_per_s": 1.0, "bytes_per_s_max": 1.0, "busiest_hour": "h"}
        for n in reversed(range(101))
    ]  # fmt: skip
    spark.createDataFrame(bundles).createOrReplaceTempView("gold_bundle_days")
    hottest = spark.sql(query_of("gold_hot_bundles")).orderBy("rank").collect()
    assert [row["bundle"] for row in hottest] == [f"t/n/{n:03d}" for n in range(100)]
    at = [0, 1, 2, 3, 6, 7, 11]
    minutes = [
        {"day": "d", "poll_id": each, "at": datetime(2026, 11, 20, 0, each, tzinfo=UTC), "note": ""}
        for each in at
    ]
    spark.createDataFrame(minutes).createOrReplaceTempView("polls")
    none = "struct<day:string,broker:string,note:string,at:timestamp>"
    spark.createDataFrame([], none).createOrReplaceTempView("gaps")
    [silence] = spark.sql(query_of("gold_gaps")).toArrow().to_pylist()
    assert (silence["first_at"].minute, silence["last_at"].minute) == (7, 11)


def test_gold_tables_are_rolled_up_on_s3(
    spark: "SparkSession", tmp_path: Path, gold: Callable[[str], Rows]
) -> None:
    tables = ("gold_bundle_hours", "gold_bundle_features")
    with bucket() as s3:
        uri = s3.uri("gold")
        location = open_location(uri)
        copy_files(
            str(history(tmp_path / "history")),
            location.root,
            source_filesystem=LocalFileSystem(),
            destination_filesystem=location.filesystem,
        )
        assert rolled_up(spark, uri, tables) == {(table, day) for table in tables for day in DAYS}
        assert rolled_up(spark, uri, tables) == set()
        for table in tables:
            key = itemgetter("bundle", "hour" if table == "gold_bundle_hours" else "day")
            found = open_table(location, table).to_pyarrow_table().to_pylist()
            assert sorted(found, key=key) == sorted(gold(table), key=key)


def test_the_source_reads_a_view_between_two_times(spark: "SparkSession", tmp_path: Path) -> None:
    home = history(tmp_path / "history")
    spark.dataSource.register(HistorySource)
    first, last = START + 60 * EVERY, START + 200 * EVERY
    reader = spark.read.format("counterpoise").option("table", "bundle_loads")
    found = reader.option("from", first).option("to", last).load(str(home)).toArrow()
    expected = [
        (row["poll_id"], row["bundle"], day_of(row))
        for row in REPORTED
        if row["kind"] == BUNDLE and first <= row["poll_id"] <= last
    ]
    rows = found.select(["poll_id", "bundle", "day"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == sorted(expected)
    with pytest.raises(Exception, match="has no table 'loads'"):
        spark.read.format("counterpoise").option("table", "loads").load(str(home))
