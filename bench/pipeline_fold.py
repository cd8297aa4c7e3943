"""How fast the pipeline folds load reports: real Spark, real files, 100,000 bundles a poll.

On this machine's cores, and on a standalone cluster of one worker and of two, each of one core.
"""

import statistics
import time
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tests.pipeline.spark_cluster import standalone_spark

from bench.figures import Figure
from counterpoise.load.fold import Batch, FoldState, fold, merged
from counterpoise.load.rows import BROKER, BUNDLE, COLUMNS, POLL, RATES, TEXT, ReportRows
from counterpoise.pipeline.spark.job import JobWatch
from counterpoise.pipeline.stream.fold import ReportFold, SparkTasks
from counterpoise.pipeline.stream.session import start_context, stop_spark
from counterpoise.pipeline.tables.history import take_over
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import land
from counterpoise.pipeline.tables.states import read_state

BUNDLES = 100_000
BROKERS = 100
BAR_S = 0.5
WARM_UP = 3


def poll(number: int, rng: np.random.Generator, all_bundles: int, brokers: int) -> ReportRows:
    """One poll: every broker with its part of the bundles."""
    each = all_bundles // brokers
    count = 1 + brokers * (1 + each)
    columns = {
        name: np.full(count, "", TEXT) if dtype == TEXT else np.zeros(count, dtype)
        for name, dtype in COLUMNS.items()
    }
    kind = np.full(count, BUNDLE, TEXT)
    kind[0] = POLL
    kind[1 :: each + 1] = BROKER
    bundles = kind == BUNDLE
    columns["kind"] = kind
    columns["seq"] = np.arange(count)
    columns["poll_id"] += number
    columns["fetched_at_ms"] += number
    columns["fresh"] |= kind == BROKER
    columns["broker"][1:] = np.repeat([f"broker-{b:03d}:8080" for b in range(brokers)], each + 1)
    columns["bundle"][bundles] = [
        f"tenant/ns-{i % 500}/0x{i:08x}_0x{i + 1:08x}" for i in range(all_bundles)
    ]
    columns["digest"][bundles] = [zlib.crc32(b.encode()) for b in columns["bundle"][bundles]]
    for name in RATES:
        columns[name][bundles] = rng.random(all_bundles) * 1e6
    return ReportRows(columns)


def run(*, quick: bool, out: Path) -> list[Figure]:
    rng = np.random.default_rng(1)
    bundles = BUNDLES // 20 if quick else BUNDLES
    count = WARM_UP + (2 if quick else 7)
    polls = [poll(1000 * n, rng, bundles, BROKERS) for n in range(1, 1 + count)]
    inline_s, expected = _in_process(polls)
    stream_s, round_s, streamed = _on_spark(polls, "local[2]", shards=2)
    alone_s = None if quick else _on_spark(polls, "local[1]", shards=1)[0]
    for name, column in expected.averages.items():
        np.testing.assert_array_equal(streamed.averages[name], column, err_msg=name)
    note = f"{bundles:,} bundle reports of {BROKERS} brokers"
    return [
        Figure("fold in the process", inline_s, "s", note=note),
        Figure(
            "fold on Spark, a batch",
            stream_s,
            "s",
            anchor="the same fold in the process",
            anchor_value=inline_s,
            bar=f"<= {BAR_S:g} s",
            holds=stream_s <= BAR_S,
            note=f"{note}; median, the numbers equal those of the process",
        ),
        Figure(
            "the same on two cores, beside one",
            stream_s,
            "s",
            anchor="local[1]",
            anchor_value=alone_s,
            note=f"{note}; one shard for each core",
        ),
        *([] if quick else [_beside_each_other(polls, out)]),
        Figure("the shards' states put together for a round", round_s, "s", note=note),
    ]


def _in_process(polls: list[ReportRows]) -> tuple[float, FoldState]:
    state, took = FoldState.empty(), []
    for rows in polls:
        began = time.perf_counter()
        state = fold(state, Batch.of(rows))
        took.append(time.perf_counter() - began)
    return statistics.median(took), merged([state])


def _beside_each_other(polls: list[ReportRows], out: Path) -> Figure:
    one, two = (_on_workers(polls, count, out) for count in (1, 2))
    note = f"{BUNDLES:,} bundle reports of {BROKERS} brokers; two shards on either"
    return Figure(
        "fold on a cluster, two workers of one core",
        two,
        "s",
        anchor="one worker",
        anchor_value=one,
        note=note,
    )


def _on_workers(polls: list[ReportRows], workers: int, out: Path) -> float:
    """The median batch of two shards on a standalone cluster of so many workers of one core."""
    with standalone_spark((out / f"fold-on-{workers}").resolve(), workers) as on:
        conf = {"spark.pyspark.python": str(on.python), "spark.executor.memory": "512m"}
        took_s, _, _ = _on_spark(polls, on.master, shards=2, conf=conf)
    print(f"   on a cluster of {workers}: {took_s:.2f} s", flush=True)
    return took_s


def _on_spark(
    polls: list[ReportRows], master: str, *, shards: int, conf: dict[str, str] | None = None
) -> tuple[float, float, FoldState]:
    """The median batch with its commit, what a round needs besides, and the state at the end."""
    spark = start_context(master, conf=conf)
    took = []
    try:
        with TemporaryDirectory(prefix="bench-") as home, JobWatch(spark, "fold") as job:
            writer = take_over(open_location(home))
            fold = ReportFold(writer, SparkTasks(spark, job), shards=shards)
            for rows in polls:
                land(writer, rows)
                began = time.perf_counter()
                states = fold.next()
                took.append(time.perf_counter() - began)
            began = time.perf_counter()
            assert states is not None
            state = merged([read_state(writer.location, file) for file in states.files])
            round_s = time.perf_counter() - began
    finally:
        stop_spark(spark)
    return statistics.median(took[WARM_UP:]), round_s, state
