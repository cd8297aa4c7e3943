"""`pulsar-load`: a live cluster as a Spark table."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition

from counterpoise.pipeline.stream.public_source import BrokerPartition, PulsarLoad
from counterpoise.pipeline.stream.session import register_sources
from tests.pipeline.fake_cluster import FakeCluster, bundle_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


async def test_a_live_cluster_is_a_table_with_a_partition_for_each_broker(
    spark: "SparkSession", cluster: FakeCluster
) -> None:
    one, two = await cluster.add_broker(), await cluster.add_broker()
    cluster.carry(one, bundle_name(1), 500.0)
    two.silent = True
    register_sources(spark)

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
        (lambda: PulsarLoad({}).reader(None), "is no admin URL"),
        (lambda: source("s3://b/h").reader(None), "Delta tables"),
        (lambda: source("http://b:1", after="1").reader(None), "'after': there are authPlugin"),
        (lambda: source("http://b:1", authPlugin="token").reader(None), "authParams"),
        (lambda: source("http://b:1", tlsAllowInsecureConnection="maybe").reader(None), "maybe"),
    ],
)
def test_a_slip_is_a_sentence(ask: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ask()


def test_a_cluster_without_brokers_has_no_rows() -> None:
    """Spark reads one partition all the same, of its own making."""
    assert [*source("http://b:1").reader(None).read(InputPartition(0))] == []


async def test_a_cluster_that_asks_who_one_is_is_read_by_any_of_its_addresses() -> None:
    """With the options of Pulsar's own clients, whatever case they are written in."""
    asked: list[str | None] = []

    async def brokers(request: web.Request) -> web.Response:
        asked.append(request.headers.get("Authorization"))
        return web.json_response(["b1:80"])

    app = web.Application()
    app.router.add_get("/admin/v2/brokers", brokers)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
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
