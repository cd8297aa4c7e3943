"""The gold tables, held against NumPy over the rows that they were made of."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow.fs import LocalFileSystem, copy_files

from counterpoise.load.rows import BROKER, BUNDLE
from counterpoise.pipeline.gold.rollup import days_to_roll_up, roll_up
from counterpoise.pipeline.gold.tables import GOLD_TABLES, query_of
from counterpoise.pipeline.spark.source import HistorySource
from counterpoise.pipeline.tables.delta_table import open_table
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.schema import DAY
from tests.pipeline.gold.recorded import (
    BROKERS,
    BUNDLES,
    DAY_MS,
    EVERY,
    MOVED_AT,
    START,
    append,
    history,
    reports,
)
from tests.pipeline.s3_server import bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

Rows = list[dict[str, Any]]
HOUR_MS = 3_600_000


def rolled_up(
    spark: "SparkSession", home: str | Path, tables: Iterable[str] = tuple(GOLD_TABLES)
) -> set[tuple[str, str]]:
    """Bring these gold tables of a history up to date, and give the days that were replaced."""
    location = open_location(home)
    days = days_to_roll_up(location)
    old = {day: names & frozenset(tables) for day, names in days.old.items()}
    replaced = set[tuple[str, str]]()
    for table, day, rows in roll_up(spark, location, replace(days, old=old), START):
        assert rows == len(open_table(location, table).to_pyarrow_table(filters=[(DAY, "=", day)]))
        replaced.add((table, day))
    assert not any(spark.catalog.isCached(table) for table in tables), "memory is given back"
    return replaced


@pytest.fixture(scope="module")
def gold(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Rows]:
    """The rows of each gold table of two days."""
    home = history(tmp_path_factory.mktemp("gold"))
    assert rolled_up(spark, home) == {(table, day) for table in GOLD_TABLES for day in DAYS}
    return lambda table: DeltaTable(str(home / table)).to_pyarrow_table().to_pylist()


DAYS = ("2026-11-20", "2026-11-21")
REPORTED = reports(0, 288)


def through(row: dict[str, Any]) -> float:
    return float(row["msg_throughput_in"] + row["msg_throughput_out"])


def sound(kind: str) -> Rows:
    return [row for row in REPORTED if row["kind"] == kind and np.isfinite(through(row))]


def hour_of(row: dict[str, Any]) -> datetime:
    return datetime.fromtimestamp(row["poll_id"] // HOUR_MS * HOUR_MS / 1000, UTC)


def day_of(row: dict[str, Any]) -> str:
    return f"{hour_of(row):%Y-%m-%d}"


def grouped(rows: Rows, *keys: Callable[[dict[str, Any]], Any]) -> dict[Any, Rows]:
    found: dict[Any, Rows] = defaultdict(list)
    for row in rows:
        found[tuple(key(row) for key in keys)].append(row)
    return found


def bundle(row: dict[str, Any]) -> str:
    return str(row["bundle"])


def broker(row: dict[str, Any]) -> str:
    return str(row["broker"])


def test_bundles_by_hour_and_day(gold: Callable[[str], Rows]) -> None:
    for table, when, column in (
        ("gold_bundle_hours", hour_of, "hour"),
        ("gold_bundle_days", day_of, "day"),
    ):
        expected = grouped(sound(BUNDLE), bundle, when)
        found = {(row["bundle"], row[column]): row for row in gold(table)}
        assert found.keys() == expected.keys()
        for key, rows in expected.items():
            row = found[key]
            assert row["measurements"] == len(rows)
            assert row["bytes_per_s"] == pytest.approx(np.mean([through(each) for each in rows]))
            assert row["bytes_per_s_max"] == max(map(through, rows))
            for rate in ("msg_rate_in", "msg_throughput_out"):
                assert row[rate] == pytest.approx(np.mean([each[rate] for each in rows]))
            assert row["broker"] == rows[-1]["broker"]
            assert row["namespace"] == row["bundle"].rpartition("/")[0]
            for most in {"topics", "producers", "consumers"} & row.keys():
                assert row[most] == max(each[most] for each in rows)
    [moved] = [
        row
        for row in gold("gold_bundle_hours")
        if row["bundle"] == BUNDLES[0]
        and row["hour"] == hour_of({"poll_id": MOVED_AT + EVERY})
    ]  # fmt: skip
    assert moved["brokers"] == 2


def test_namespaces_are_the_sums_of_their_bundles(gold: Callable[[str], Rows]) -> None:
    expected: dict[tuple[datetime, str], float] = defaultdict(float)
    topics: dict[tuple[datetime, str], int] = defaultdict(int)
    for (hour, name), rows in grouped(sound(BUNDLE), hour_of, bundle).items():
        key = hour, name.rpartition("/")[0]
        expected[key] += float(np.mean([through(each) for each in rows]))
        topics[key] += max(each["topics"] for each in rows)
    found = {(row["hour"], row["namespace"]): row for row in gold("gold_namespace_hours")}
    assert {key: row["bytes_per_s"] for key, row in found.items()} == pytest.approx(expected)
    assert {key: row["topics"] for key, row in found.items()} == topics
    for row in gold("gold_namespace_days"):
        hours = {
            hour: carried
            for (hour, namespace), carried in expected.items()
            if namespace == row["namespace"] and f"{hour:%Y-%m-%d}" == row["day"]
        }
        assert row["bytes_per_s"] == pytest.approx(np.mean([*hours.values()]))
        assert row["bytes_per_s_max"] == pytest.approx(max(hours.values()))
        assert row["busiest_hour"] == max(hours, key=lambda hour: hours[hour])


def test_imbalance_is_the_most_loaded_by_the_mean_at_each_poll(
    gold: Callable[[str], Rows],
) -> None:
    expected = grouped(sound(BROKER), lambda row: row["poll_id"])
    found = {(row["poll_id"],): row for row in gold("gold_imbalance")}
    assert found.keys() == expected.keys()
    for key, rows in expected.items():
        carried = np.array([through(row) for row in rows])
        assert found[key]["max_over_mean"] == pytest.approx(carried.max() / carried.mean())
        assert found[key]["deviation"] == pytest.approx(carried.std() / carried.mean())
        assert found[key]["hottest"] == rows[int(carried.argmax())]["broker"]
        assert found[key]["brokers"] == len(rows)


def test_brokers_by_hour_and_day(gold: Callable[[str], Rows]) -> None:
    hours = {(row["broker"], row["hour"]): row for row in gold("gold_broker_hours")}
    expected = grouped(sound(BROKER), broker, hour_of)
    assert hours.keys() == expected.keys()
    for key, rows in expected.items():
        assert hours[key]["polls"] == len(rows)
        assert hours[key]["bytes_per_s"] == pytest.approx(np.mean([*map(through, rows)]))
        # The first broker reports no limit of its CPU.
        cpu = [each["cpu_usage"] for each in rows if each["cpu_limit"]]
        assert hours[key]["cpu_percent"] == (pytest.approx(np.mean(cpu)) if cpu else None)
        assert hours[key]["memory_percent"] == 25.0
    polls = grouped(sound(BROKER), lambda row: row["poll_id"])
    for row in gold("gold_broker_days"):
        mine = [
            (through(each), np.array([through(other) for other in polls[each["poll_id"],]]))
            for each in sound(BROKER)
            if each["broker"] == row["broker"] and day_of(each) == row["day"]
        ]
        assert row["bytes_per_s_max"] == max(load for load, _ in mine)
        assert row["polls_hottest"] == sum(load == others.max() for load, others in mine)
        assert row["polls_above_mean"] == sum(load > 1.25 * others.mean() for load, others in mine)


def test_the_hottest_bundles_of_a_day_and_their_part(gold: Callable[[str], Rows]) -> None:
    days = grouped(gold("gold_bundle_days"), lambda row: row["day"])
    for row in gold("gold_hot_bundles"):
        carried = {each["bundle"]: each["bytes_per_s"] for each in days[row["day"],]}
        assert row["part"] == pytest.approx(carried[row["bundle"]] / sum(carried.values()))
        assert (
            row["rank"] == sorted(carried, key=lambda each: -carried[each]).index(row["bundle"]) + 1
        )
    assert len(gold("gold_hot_bundles")) == 2 * len(BUNDLES)


def test_what_moves_brought_is_read_from_the_ten_minutes_around(
    gold: Callable[[str], Rows],
) -> None:
    moves = {row["id"]: row for row in gold("gold_moves")}
    assert {name: row["status"] for name, row in moves.items()} == {
        "a": "moved", "b": "failed", "c": "moved"
    }  # fmt: skip
    assert moves["c"]["reason"] is None, "its decision is gone"
    row = moves["a"]
    # A poll each ten minutes: the round's own is before, and one after.
    at = {
        moment: {
            each["broker"]: through(each) for each in sound(BROKER) if each["poll_id"] == moment
        }
        for moment in (MOVED_AT, MOVED_AT + EVERY)
    }
    for name, moment in (("before", MOVED_AT), ("after", MOVED_AT + EVERY)):
        carried = np.array([*at[moment].values()])
        assert row[f"max_over_mean_{name}"] == pytest.approx(carried.max() / carried.mean())
        assert row[f"source_{name}"] == pytest.approx(at[moment][BROKERS[0]])
        assert row[f"destination_{name}"] == pytest.approx(at[moment][BROKERS[2]])
    assert row["max_over_mean_after"] < row["max_over_mean_before"]
    assert (row["seconds"], row["reason"]) == (2.5, "overloaded")
    assert moves["b"]["error"] == "HTTP 500"


def test_refusals_are_counted_by_rule_with_their_highest_figure(
    gold: Callable[[str], Rows],
) -> None:
    found = {row["rule"]: row for row in gold("gold_rejections")}
    assert {rule: (row["times"], row["rounds"]) for rule, row in found.items()} == {
        "MaxUnloadPercentage": (2, 1),
        "NoDestination": (1, 1),
    }
    assert found["MaxUnloadPercentage"]["sentence"] == "b1 may shed no more"
    assert found["MaxUnloadPercentage"]["highest"] == 0.5


def test_gaps_are_brokers_polls_and_silence(gold: Callable[[str], Rows]) -> None:
    found = grouped(gold("gold_gaps"), lambda row: row["kind"])
    silent = [(row["first_at"], row["last_at"]) for row in found["silence",]]
    assert silent == [
        tuple(datetime.fromtimestamp((START + n * EVERY) / 1000, UTC) for n in (99, 104))
    ]
    [failed] = found["poll",]
    assert (failed["note"], failed["polls"]) == ("no broker answers", 1)
    missed = sum(number % 10 == 3 and not 100 <= number < 104 for number in range(288))
    assert sum(row["polls"] for row in found["broker",]) == missed
    assert {row["broker"] for row in found["broker",]} == {BROKERS[1]}


def test_features_are_level_trend_shape_and_residuals(gold: Callable[[str], Rows]) -> None:
    found = {(row["bundle"], row["day"]): row for row in gold("gold_bundle_features")}
    assert len(found) == 2 * len(BUNDLES)
    for (name, day), row in found.items():
        mine = [each for each in sound(BUNDLE) if each["bundle"] == name and day_of(each) <= day]
        hours = {
            key[0]: np.mean([*map(through, rows)]) for key, rows in grouped(mine, hour_of).items()
        }
        at = np.array([hour.timestamp() / 3600 for hour in hours])
        carried = np.array([*hours.values()])
        today = [each for each in mine if day_of(each) == day]
        level = np.mean([*map(through, today)])
        assert row["level"] == pytest.approx(level)
        assert row["trend"] == pytest.approx(np.polyfit(at - at[0], carried, 1)[0])
        of_day = np.array([hour.hour for hour in hours])
        factors = [carried[of_day == hour].mean() / carried.mean() for hour in range(24)]
        assert row["hour_factors"] == pytest.approx(factors)
        rest = [through(each) / (level * factors[hour_of(each).hour]) - 1 for each in today]
        quantiles = [row[f"residual_p{which}"] for which in ("05", "50", "95", "99")]
        assert quantiles == pytest.approx(np.quantile(rest, [0.05, 0.5, 0.95, 0.99]))


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
