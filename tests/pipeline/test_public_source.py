"""`pulsar-load`: histories and live clusters as Spark tables, and landed polls as a stream."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from counterpoise.load.rows import COLUMNS
from counterpoise.pipeline.backtest.run import joined, play, run_tasks, tasks_of
from counterpoise.pipeline.backtest.simulate import Candidate
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from counterpoise.pipeline.history.compaction import compact
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import open_store
from tests.load.story import START, poll
from tests.pipeline.backtest.test_simulate import strategy
from tests.pipeline.fake_cluster import FakeCluster, bundle_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def recorded(home: Path, polls: int = 4) -> None:
    for number in range(polls):
        land(open_store(home), poll(number, {"b1:80": {bundle_name(0): 10.0 * number}}))


def test_a_history_is_a_table_and_a_stream(spark: "SparkSession", tmp_path: Path) -> None:
    history = tmp_path / "history"
    recorded(history)
    compact(open_store(history), "reports", up_to_poll=START + 5000, at_least=1)
    table = spark.read.format("pulsar-load").load(str(history))
    assert set(COLUMNS) | {"at", "report_at"} == set(table.columns)
    rows = table.where("kind = 'bundle'").orderBy("poll_id").collect()
    assert [row["msg_throughput_in"] for row in rows] == [0.0, 10.0, 20.0, 30.0]
    assert [round(row["at"].timestamp() * 1000) for row in rows] == [
        START + 5000 * number for number in range(4)
    ]
    seen: list[tuple[int, ...]] = []
    query = (
        spark.readStream.format("pulsar-load")
        .option("after", START)
        .option("files", 1)
        .load(str(history))
        .where("kind = 'bundle'")
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(lambda batch, number: seen.append(tuple(r[0] for r in batch.collect())))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    assert seen == [(START + 5000,), (START + 10_000,), (START + 15_000,)], (
        "of a compacted file only what lies behind where the stream begins"
    )


def test_a_history_in_which_nothing_landed_is_an_empty_table(
    spark: "SparkSession", tmp_path: Path
) -> None:
    table = spark.read.format("pulsar-load").load(str(tmp_path))
    assert set(COLUMNS) <= set(table.columns)
    assert table.count() == 0


async def test_a_live_cluster_is_a_table_with_a_partition_for_each_broker(
    spark: "SparkSession", cluster: FakeCluster
) -> None:
    import asyncio

    one, two = await cluster.add_broker(), await cluster.add_broker()
    cluster.carry(one, bundle_name(1), 500.0)
    two.silent = True

    def looked() -> list[tuple[str, str]]:
        table = spark.read.format("pulsar-load").load(cluster.admin_url)
        assert table.rdd.getNumPartitions() == 2
        return sorted((row["broker"], row["kind"]) for row in table.collect())

    rows = await asyncio.to_thread(looked)
    assert rows == sorted([(one.name, "broker"), (one.name, "bundle"), (two.name, "gap")])


def test_plays_on_spark_are_plays(spark: "SparkSession") -> None:
    trace = SyntheticTrace("bursty", count_of_brokers=6, count_of_bundles=60, hours=1.0)
    candidates = [Candidate("nobody", None), Candidate("threshold", strategy())]
    tasks = tasks_of(candidates, trace, parts=2, move_s=1.0, seed=1)
    heard: list[int] = []
    results = run_tasks(spark, tasks, lambda done, result: heard.append(done))
    assert results == [play(task) for task in tasks]
    assert heard == [1, 2, 3, 4]
    assert [result.steps for result in joined(results)] == [60, 60]
