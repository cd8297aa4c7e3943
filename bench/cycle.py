"""The whole cycle of a large cluster: asked, landed, folded on Spark, put together, decided.

A thousand brokers with a thousand bundles each, in a process of their own; of every fifty one
refuses, cuts off, talks nonsense, hangs or is merely slow, and those that are not just slow are the
only gaps. A broker that hangs costs the first cycle ten seconds, and the later ones nothing.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp

from bench._brokers import way_of
from bench._processes import peak_memory
from bench.figures import Figure
from counterpoise.app.strategies import strategy_from
from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.decide.balancing.round import decide
from counterpoise.load.fold import merged
from counterpoise.names.properties import Properties
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.spark.job import JobWatch
from counterpoise.pipeline.stream.fold import ReportFold, SparkTasks
from counterpoise.pipeline.stream.session import start_context, stop_spark
from counterpoise.pipeline.tables.history import take_over
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.ownership import BundleOwners
from counterpoise.pipeline.tables.reports import land
from counterpoise.pipeline.tables.states import read_state

BAR_S = 15.0
BAR_MB = 6_000.0
POLLS = 3


def run(*, quick: bool, out: Path) -> list[Figure]:
    del out
    brokers, bundles = (100, 100) if quick else (1000, 1000)
    stages: dict[str, list[float]] = {}
    gaps: set[int] = set()
    process = subprocess.Popen(
        [sys.executable, "-m", "bench._brokers", str(brokers), str(bundles), "1"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        ports = json.loads(process.stdout.readline())
        with (
            TemporaryDirectory(prefix="counterpoise-bench-") as home,
            peak_memory(os.getpid(), without=process.pid) as peak,
        ):
            gaps = asyncio.run(_cycles(home, ports, stages))
    finally:
        process.communicate()
    faulty = {ports[n] for n in range(brokers) if way_of(n) not in ("", "is slow")}
    last = {name: took[-1] for name, took in stages.items()}
    total = sum(last.values())
    note = f"{brokers:,} brokers x {bundles:,} bundles; the last of {POLLS} cycles"
    return [
        *(Figure(name, took, "s", note=note) for name, took in last.items()),
        Figure("the whole cycle", total, "s", bar="" if quick else f"<= {BAR_S:g} s",
               holds=None if quick else total <= BAR_S, note=note),
        Figure("its memory at most: collector, driver and executors", peak.mb, "MB",
               bar="" if quick else f"<= {BAR_MB:g} MB",
               holds=None if quick else peak.mb <= BAR_MB, note=note),
        Figure("healthy brokers taken for gaps", float(len(gaps - faulty)), "",
               bar="none", holds=gaps == faulty, note=f"{len(faulty)} do not answer"),
    ]  # fmt: skip


async def _cycles(home: str, ports: list[int], stages: dict[str, list[float]]) -> set[int]:
    writer, owners = take_over(open_location(home)), BundleOwners()

    def timed(name: str, began: float) -> float:
        stages.setdefault(name, []).append(time.perf_counter() - began)
        return time.perf_counter()

    strategy = strategy_from(Properties({}), shedder="ThresholdShedder", placement="LeastUsage")
    spark = await asyncio.to_thread(start_context, "local[2]")
    job = JobWatch(spark, "fold")
    fold = ReportFold(writer, SparkTasks(spark, job), shards=2)
    found: set[int] = set()
    try:
        async with aiohttp.ClientSession() as session:
            collector = Collector(session, [f"http://127.0.0.1:{ports[0]}"], wall_clock_ms)
            for _ in range(POLLS):
                now = time.perf_counter()
                rows = await collector.poll()
                now = timed("asked", now)
                await asyncio.to_thread(owners.land, writer, rows)
                await asyncio.to_thread(land, writer, rows)
                now = timed("landed", now)
                states = await asyncio.to_thread(fold.next)
                assert states is not None
                now = timed("folded on Spark", now)
                whole = merged([read_state(writer.location, file) for file in states.files])
                now = timed("put together", now)
                decide(whole, RoundMemory(), strategy)
                timed("decided", now)
                gap = rows.take(rows["kind"] == "gap")
                found |= {int(name.rpartition(":")[2]) for name in gap["broker"]}
    finally:
        job.close()
        await asyncio.to_thread(stop_spark, spark)
    return found
