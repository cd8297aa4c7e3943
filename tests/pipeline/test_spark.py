"""The same on Spark: number for number; and the balancer on it, by itself and as a command."""

import asyncio
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.load.fold import Batch, FoldState, fold, merged
from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.executor import ExecutorOptions
from counterpoise.pipeline.runner import RunSettings, SparkBalancer
from counterpoise.pipeline.spark.job import JobWatch
from counterpoise.pipeline.stream import fold as fold_module
from counterpoise.pipeline.stream.fold import ReportFold, SparkTasks
from counterpoise.pipeline.stream.running import PatientFold
from counterpoise.pipeline.tables.control import Control, Wish, write_control
from counterpoise.pipeline.tables.faults import DamagedError, HistoryInUseError
from counterpoise.pipeline.tables.keeping import KeepingOptions
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import land
from counterpoise.pipeline.tables.schema import REPORTS, JournalKind
from counterpoise.pipeline.tables.states import read_state
from tests.decide.balancing.test_round import strategy
from tests.load.story import START, Loads, poll
from tests.load.test_fold import assert_same
from tests.pipeline.command import Command
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.histories import kept, writer_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

Folded = tuple[int, list[FoldState]]


def story(polls: int = 6) -> list[ReportRows]:
    """Three brokers: one hot, one silent for a while, one that joins late; bundles come and go."""
    rng = np.random.default_rng(7)
    logged = []
    for number in range(polls):
        noise = rng.random(12).tolist()
        hot = {bundle_name(i): 8000.0 + 900 * noise[i] for i in range(10) if i != number}
        brokers: dict[str, Loads | None] = {
            "b1:80": hot,
            "b2:80": None if number == 2 else {bundle_name(20): 5000.0 * noise[10]},
        }
        if number > 0:
            brokers["b3:80"] = {bundle_name(number): 3000.0} if number > 2 else {}
        logged.append(poll(number, brokers))
    return logged


def stream(spark: "SparkSession", home: Path) -> list[Folded]:
    """Fold all that has landed, a poll to a batch, and give each batch's poll and states."""
    folded: list[Folded] = []
    writer = writer_of(home)
    with JobWatch(spark.sparkContext, "test") as job:
        running = ReportFold(writer, SparkTasks(spark.sparkContext, job), shards=3, most_rows=1)
        while states := running.next():
            parts = [read_state(writer.location, file) for file in states.files]
            folded.append((states.up_to, parts))
    return folded


def landed(home: Path, polls: Sequence[ReportRows]) -> None:
    writer = writer_of(home)
    for rows in polls:
        land(writer, rows)


def tasks_of_jobs(spark: "SparkSession") -> dict[int, int]:
    """How many tasks each job has that Spark knows of."""
    tracker = spark.sparkContext.statusTracker()
    jobs = {job: tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup()}
    stages = {job: tracker.getStageInfo(info.stageIds[0]) for job, info in jobs.items() if info}
    return {job: stage.numTasks for job, stage in stages.items() if stage}


@pytest.mark.parametrize(("rows_of_a_task", "tasks"), [(8, 2), (1, 3), (20_000, 1)])
def test_spark_folds_number_for_number_what_the_process_folds(
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows_of_a_task: int,
    tasks: int,
) -> None:
    """A task has a shard of its own, unless so few rows are worth no second Python worker."""
    monkeypatch.setattr(fold_module, "ROWS_OF_A_TASK", rows_of_a_task)
    before = tasks_of_jobs(spark)
    polls, state = story(), FoldState.empty()
    landed(tmp_path, polls)
    streamed = stream(spark, tmp_path)
    assert {n for job, n in tasks_of_jobs(spark).items() if job not in before} == {tasks}
    assert [up_to for up_to, _ in streamed] == [START + 5000 * number for number in range(6)]
    for (_, shards), rows in zip(streamed, polls, strict=True):
        state = fold(state, Batch.of(rows))
        assert len(shards) == 3
        assert_same(merged(shards), merged([state]))


def test_a_damaged_poll_ends_the_fold_with_a_sentence(
    spark: "SparkSession", tmp_path: Path
) -> None:
    landed(tmp_path, story()[:2])
    writer = writer_of(tmp_path)
    damaged = writer.files(REPORTS)[1].name
    (tmp_path / damaged).write_bytes(b"PAR1")
    logged: list[str] = []
    with JobWatch(spark.sparkContext, "test") as job:
        fold = ReportFold(writer, SparkTasks(spark.sparkContext, job), shards=2)
        with pytest.raises(DamagedError) as error:
            PatientFold(fold, writer, logged.append).next()
    assert damaged in str(error.value)
    assert "counterpoise history" in str(error.value)
    assert logged == [], "it is not tried again"


async def test_the_balancer_evens_a_cluster_out_and_releases_its_lease(
    spark: "SparkSession", cluster: FakeCluster, tmp_path: Path
) -> None:
    first, _, _ = [await cluster.add_broker() for _ in range(3)]
    for index in range(12):
        cluster.carry(first, bundle_name(index), 7000.0 + index)
    logged: list[str] = []
    stop, enough = asyncio.Event(), asyncio.Event()

    def log(sentence: str) -> None:
        logged.append(sentence)
        cluster.report_time += 1
        if sentence.startswith("nothing to move"):
            enough.set()

    settings = RunSettings(
        addresses=(cluster.admin_url,),
        history=str(tmp_path),
        poll_every_s=0.3,
        executor=ExecutorOptions(execute=True),
        shards=2,
        keeping=KeepingOptions(compact_from=3, look_every=1),
    )
    running = asyncio.create_task(
        SparkBalancer(settings, strategy(interval_ms=1), log, spark=spark.sparkContext).run(stop)
    )
    done, _ = await asyncio.wait(
        [running, asyncio.create_task(enough.wait())], return_when=asyncio.FIRST_COMPLETED
    )
    if running in done:
        await running
    with pytest.raises(HistoryInUseError, match="another balancer"):
        await SparkBalancer(settings, strategy(), log, spark=spark.sparkContext).run(stop)
    stop.set()
    await running
    loads = cluster.throughputs().values()
    assert max(loads) / (sum(loads) / 3) - 1 < 0.4
    outcomes = kept(tmp_path, JournalKind.OUTCOME)
    assert {row["status"] for row in outcomes} == {MoveStatus.MOVED.value}
    assert len(cluster.unloads) == len({row["id"] for row in outcomes})


async def test_a_pause_shows_in_the_figure_for_as_long_as_it_lasts(
    spark: "SparkSession", cluster: FakeCluster, tmp_path: Path
) -> None:
    """Also while no round decides to move anything, which would be asked whether it may."""
    for index in range(2):
        cluster.carry(await cluster.add_broker(), bundle_name(index), 1000.0)
    place = open_location(tmp_path)
    write_control(place, Control(Wish.PAUSE, 1, "an incident"))

    def log(_: str) -> None:
        cluster.report_time += 1

    settings = RunSettings(
        (cluster.admin_url,), str(tmp_path), 0.3, executor=ExecutorOptions(execute=True)
    )
    stop = asyncio.Event()
    balancer = SparkBalancer(settings, strategy(interval_ms=1), log, spark=spark.sparkContext)
    running = asyncio.create_task(balancer.run(stop))

    async def becomes(held: float) -> None:
        async with asyncio.timeout(120):
            while balancer.metrics.registry.get_sample_value("counterpoise_balancer_held") != held:
                cluster.report_time += 1
                await asyncio.sleep(0.05)

    await becomes(1.0)
    write_control(place, Control(Wish.GO, 2))
    await becomes(0.0)
    stop.set()
    await running
    assert kept(tmp_path, JournalKind.OUTCOME) == []


async def test_the_command_ends_with_its_process_group_and_leaves_no_process_and_no_traceback(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """As a terminal or a service manager ends it: the JVM hears the signal, too."""
    import psutil

    first, _ = [await cluster.add_broker() for _ in range(2)]
    for index in range(4):
        cluster.carry(first, bundle_name(index), 20_000.0)
    words = f"balance --admin-url {cluster.admin_url} --history {tmp_path} --interval 1s"
    words += " --strategy ThresholdShedder"
    words += " --set loadBalancerBundleUnloadMinThroughputThreshold=0.001"
    run = await Command.start(words.split(), cwd=tmp_path / "here", group=True)
    try:
        await run.until(lambda line: "dry run public" in line)
        children = psutil.Process(run.process.pid).children(recursive=True)
        assert any("java" in child.name() for child in children), run.text
        os.killpg(run.process.pid, signal.SIGTERM)
        assert await run.end() == 0, run.text
    finally:
        await run.kill()
    assert run.said[-1].endswith("stopped")
    foreign = [line for line in run.said if not re.match(r"\d\d:\d\d:\d\d ", line)]
    assert not foreign, "nothing but our own sentences"
    assert [c for c in children if c.is_running() and c.status() != "zombie"] == []
    assert cluster.unloads == []
