"""The whole cycle of a large cluster: asked, landed, folded on Spark, put together, decided.

A thousand brokers with a thousand bundles each, then two thousand, in a process of their own; of
every fifty one refuses, cuts off, talks nonsense, hangs or is merely slow, and those that are not
just slow are the only gaps. A broker that hangs costs the first cycle ten seconds, and later ones
nothing.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
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
LINEAR = 2.2
"""How much more twice as many brokers may take: twice, and what differs from run to run."""
POLLS = 3


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    del out
    brokers, bundles = (50, 100) if quick else (1000, 1000)
    once, twice = _measured(brokers, bundles), _measured(2 * brokers, bundles)
    note = f"{brokers:,} brokers x {bundles:,} bundles; the last of {POLLS} cycles"
    double = f"{2 * brokers:,} brokers x {bundles:,} bundles; beside it half as many brokers"
    gaps = once.healthy_gaps + twice.healthy_gaps
    figures = [
        *(Figure(name, took, "s", note=note) for name, took in once.stages.items()),
        _at_most("the whole cycle", once.seconds, "s", BAR_S, note),
        _at_most(
            "its memory at most: collector, driver and executors",
            once.memory_mb,
            "MB",
            BAR_MB,
            note,
        ),
        _beside_half(
            "the whole cycle of twice as many brokers", "s", twice.seconds, once.seconds, double
        ),
        _beside_half(
            "its memory at most, of twice as many", "MB", twice.memory_mb, once.memory_mb, double
        ),
    ]
    if quick:
        figures = [replace(each, bar="", holds=None) for each in figures]
    note = f"{once.faulty} and {twice.faulty} do not answer"
    name = "healthy brokers taken for gaps, or gaps for healthy"
    return [*figures, Figure(name, float(gaps), "", bar="none", holds=gaps == 0, note=note)]


def _at_most(name: str, value: float, unit: str, most: float, note: str) -> Figure:
    return Figure(name, value, unit, bar=f"<= {most:g} {unit}", holds=value <= most, note=note)


def _beside_half(name: str, unit: str, twice: float, once: float, note: str) -> Figure:
    """What a cluster takes, beside one of half as many brokers."""
    bar = f"<= {LINEAR:g} times"
    return Figure(name, twice, unit, "half as many", once, bar, twice <= LINEAR * once, note)


@dataclass(frozen=True, slots=True)
class Measured:
    """The last cycle of a cluster of one size."""

    stages: dict[str, float]
    """Seconds that each took."""
    memory_mb: float
    faulty: int
    """How many brokers do not answer as they should."""
    healthy_gaps: int
    """Of how many brokers it was taken wrongly whether they do."""

    @property
    def seconds(self) -> float:
        """What all stages took."""
        return sum(self.stages.values())


def _measured(brokers: int, bundles: int) -> Measured:
    stages: dict[str, list[float]] = {}
    process = subprocess.Popen(
        [sys.executable, "-m", "bench._brokers", str(brokers), str(bundles), "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
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
    return Measured(last, peak.mb, len(faulty), len(gaps ^ faulty))


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
                await asyncio.to_thread(owners.land, writer, [rows.columns])
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
