"""The whole balancer on real Spark against real brokers: evened out, verified, nothing lost."""

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.strategies import strategy_from
from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.names.properties import Properties
from counterpoise.pipeline.executor import ExecutorOptions
from counterpoise.pipeline.runner import RunSettings, SparkBalancer
from counterpoise.pipeline.tables.schema import JournalKind
from tests.pipeline.histories import kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.client, pytest.mark.timeout(300)]

CONFIG = {
    "loadBalancerReportUpdateMinIntervalMillis": 200,
    "minUnloadMessage": 1,
    "minUnloadMessageThroughput": 1,
    "maxUnloadPercentage": 0.5,
    "defaultNumberOfNamespaceBundles": 8,
}
TOPICS = [f"t{number}" for number in range(10)]


class Load(threading.Thread):
    """Sends to every topic in turn, and counts what was acknowledged."""

    def __init__(self, client: pulsar.Client) -> None:
        super().__init__()
        self._producers = [client.create_producer(topic) for topic in TOPICS]
        self.enough = threading.Event()
        self.acknowledged: list[bytes] = []

    def run(self) -> None:
        while not self.enough.is_set():
            for number, producer in enumerate(self._producers):
                message = b"%d-%d" % (number, len(self.acknowledged))
                producer.send(message)
                self.acknowledged.append(message)


async def test_the_balancer_on_spark_evens_out_brokers_and_loses_nothing(
    spark: "SparkSession", tmp_path: Path
) -> None:
    by = strategy_from(
        Properties({name: str(value) for name, value in CONFIG.items()}),
        shedder="UniformLoadShedder",
        decide_every_s=0.5,
    )
    moved = asyncio.Event()

    def log(sentence: str) -> None:
        if sentence.startswith("moved "):
            loop.call_soon_threadsafe(moved.set)

    loop = asyncio.get_running_loop()
    with Cluster(2, config=CONFIG) as cluster:
        client = pulsar.Client(cluster.service_url)
        first, second = cluster.brokers
        consumer = client.subscribe(
            [f"persistent://public/default/{topic}" for topic in TOPICS], "all"
        )
        for topic in TOPICS:
            if cluster.owner(topic) is second:
                cluster.unload(topic, first)
        load = Load(client)
        load.start()
        try:
            settings = RunSettings(
                addresses=(cluster.admin_url,),
                history=str(tmp_path),
                poll_every_s=0.3,
                executor=ExecutorOptions(execute=True),
            )
            stop = asyncio.Event()
            balancing = asyncio.create_task(
                SparkBalancer(settings, by, log, spark=spark.sparkContext).run(stop)
            )
            waiting = asyncio.create_task(moved.wait())
            await asyncio.wait([balancing, waiting], return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            await balancing
            assert moved.is_set()
            owners = {bundle: broker.id for broker in cluster.brokers for bundle in broker.bundles}
        finally:
            load.enough.set()
            await asyncio.to_thread(load.join)
        rows = kept(tmp_path, JournalKind.OUTCOME)
        done = [row for row in rows if row["status"] == MoveStatus.MOVED.value]
        assert done, rows
        last = {row["bundle"]: row["destination"] for row in done}
        assert {bundle: owners.get(bundle) for bundle in last} == last, "as the brokers see it"
        assert second.bundles
        missing = set(load.acknowledged)
        while missing:
            message = await asyncio.to_thread(consumer.receive, 60_000)
            consumer.acknowledge(message)
            missing.discard(message.data())
        client.close()
