"""`pulsar-load`: histories and live clusters as Spark tables, and landed polls as a stream."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from pyspark.sql.datasource import CaseInsensitiveDict

from counterpoise.load.rows import COLUMNS
from counterpoise.pipeline.history.compaction import compact
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import open_store
from counterpoise.pipeline.stream.public_source import BrokerPartition, FilePartition, PulsarLoad
from tests.load.story import START, poll
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
    one, two = await cluster.add_broker(), await cluster.add_broker()
    cluster.carry(one, bundle_name(1), 500.0)
    two.silent = True

    def looked() -> list[tuple[str, str]]:
        table = spark.read.format("pulsar-load").load(cluster.admin_url)
        assert table.rdd.getNumPartitions() == 2
        return sorted((row["broker"], row["kind"]) for row in table.collect())

    rows = await asyncio.to_thread(looked)
    assert rows == sorted([(one.name, "broker"), (one.name, "bundle"), (two.name, "gap")])


def source(path: str, **options: str) -> PulsarLoad:
    return PulsarLoad({"path": path, **options})


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: PulsarLoad({}).reader(None), "give load\\(\\) a history's URI or an admin URL"),
        (
            lambda: source("./h", after="5").reader(None),
            "./h is 'after': there are none",
        ),
        (lambda: source("./h", aftr="5").streamReader(None), "'aftr': there are after, files"),
        (
            lambda: source("./h", after="x").streamReader(None),
            "after=x: expected a whole number",
        ),
        (
            lambda: source("./h", files="0").streamReader(None),
            "files=0: expected .* from 1",
        ),
        (lambda: source("http://b:1", after="1").reader(None), "'after': there are authPlugin"),
        (lambda: source("http://b:1").streamReader(None), "counterpoise watch --history"),
        (lambda: source("http://b:1", authPlugin="token").reader(None), "authParams"),
        (lambda: source("http://b:1", tlsAllowInsecureConnection="maybe").reader(None), "maybe"),
        (lambda: source("/no/such/h").reader(None).partitions(), "no such directory"),
        (lambda: source("s3:b/h").reader(None).partitions(), "expected s3://"),
    ],
)
def test_a_slip_is_a_sentence(ask: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ask()


def test_many_small_files_are_a_few_partitions_and_a_large_one_is_its_own(tmp_path: Path) -> None:
    recorded(tmp_path, 70)
    compact(open_store(tmp_path), "reports", up_to_poll=START + 5000, at_least=1)
    parts = source(str(tmp_path)).reader(None).partitions()
    assert [len(part.names) for part in parts if isinstance(part, FilePartition)] == [1, 64, 4]
    stream = source(str(tmp_path)).streamReader(None)
    parts = stream.partitions({"poll": START + 10_000}, {"poll": START + 25_000})
    assert [len(part.names) for part in parts if isinstance(part, FilePartition)] == [3]


async def test_a_cluster_that_asks_who_one_is_is_read_by_any_of_its_addresses() -> None:
    """With the options of Pulsar's own clients, whatever case they are written in."""
    asked: list[str | None] = []

    async def brokers(request: web.Request) -> web.Response:
        asked.append(request.headers.get("Authorization"))
        return web.json_response(["b1:80"])

    app = web.Application()
    app.router.add_get("/admin/v2/brokers", brokers)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    _, port = runner.addresses[0]
    try:
        urls = f"http://127.0.0.1:1, http://127.0.0.1:{port}"
        options = {"authplugin": "token", "authparams": "token:abc"}
        reader = PulsarLoad(CaseInsensitiveDict({"path": urls, **options})).reader(None)
        parts = await asyncio.to_thread(reader.partitions)
    finally:
        await runner.cleanup()
    assert [part.name for part in parts if isinstance(part, BrokerPartition)] == ["b1:80"]
    assert asked == ["Bearer abc"]
