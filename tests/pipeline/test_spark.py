"""The same on Spark: number for number, decision for decision, and again after a restart."""

import asyncio
import os
import re
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import numpy as np
import pyarrow as pa
import pytest

from counterpoise.decide.balancing.moves import MoveStatus, Round
from counterpoise.load.fold import Batch, FoldOptions, FoldState, fold, merged
from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.balancer import Balancer
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.runner import RunSettings, SparkBalancer
from counterpoise.pipeline.spark.job import JobWatch
from counterpoise.pipeline.stream.fold import ReportFold, SparkTasks
from counterpoise.pipeline.stream.running import PatientFold
from counterpoise.pipeline.tables.data_files import read_file, write_file
from counterpoise.pipeline.tables.faults import DamagedError, HistoryInUseError
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.keeping import KeepingOptions
from counterpoise.pipeline.tables.reports import ROWS_MOST, land
from counterpoise.pipeline.tables.schema import REPORTS, JournalKind
from counterpoise.pipeline.tables.states import read_state
from tests.decide.balancing.test_round import strategy
from tests.load.story import START, Loads, poll
from tests.load.test_fold import assert_same, average
from tests.pipeline.command import Command
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.histories import journal_of, kept, writer_of
from tests.pipeline.short_history import ShortHistory

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


def stream(
    spark: "SparkSession",
    home: Path,
    *,
    most_rows: int = 1,
    shards: int = 3,
    options: FoldOptions | None = None,
) -> list[Folded]:
    """Fold all that has landed and is not folded yet, and give each batch's poll and states."""
    folded: list[Folded] = []
    writer = writer_of(home)
    with JobWatch(spark, "test") as job:
        running = ReportFold(
            writer,
            SparkTasks(spark, job),
            shards=shards,
            most_rows=most_rows,
            options=options or FoldOptions(),
        )
        while states := running.next():
            parts = [read_state(writer.location, file) for file in states.files]
            folded.append((states.up_to, parts))
    return folded


def in_process(polls: Sequence[ReportRows], options: FoldOptions | None = None) -> list[FoldState]:
    states, state = [], FoldState.empty()
    for rows in polls:
        state = fold(state, Batch.of(rows), options or FoldOptions())
        states.append(merged([state]))
    return states


def landed(home: Path, polls: Sequence[ReportRows]) -> None:
    writer = writer_of(home)
    for rows in polls:
        land(writer, rows)


@pytest.fixture(scope="module")
def streamed(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> list[Folded]:
    """The story through Spark, a poll to a batch."""
    home = tmp_path_factory.mktemp("streamed")
    landed(home, story())
    return stream(spark, home)


def test_spark_folds_number_for_number_what_the_process_folds(streamed: list[Folded]) -> None:
    assert [up_to for up_to, _ in streamed] == [START + 5000 * number for number in range(6)]
    for (_, shards), expected in zip(streamed, in_process(story()), strict=True):
        assert len(shards) == 3
        assert_same(merged(shards), expected)


def test_a_stream_that_is_started_again_elsewhere_goes_on_behind_its_states(
    spark: "SparkSession", tmp_path: Path
) -> None:
    polls = story()
    landed(tmp_path / "here", polls[:3])
    stream(spark, tmp_path / "here", most_rows=ROWS_MOST)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    shutil.rmtree(tmp_path / "here")
    landed(tmp_path / "there", polls[3:])
    batches = stream(spark, tmp_path / "there", most_rows=ROWS_MOST)
    assert len(batches) == 1, "the first three polls are not taken in again"
    assert_same(merged(batches[-1][1]), in_process(polls)[-1])


def test_a_compacted_file_is_folded_from_where_the_fold_is(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """It begins before what is folded already, and ends behind it."""
    polls = story()
    landed(tmp_path, polls[:2])
    stream(spark, tmp_path)
    landed(tmp_path, polls[2:])
    writer = writer_of(tmp_path)
    small = writer.files(REPORTS)[:5]
    rows = pa.concat_tables([read_file(writer.location, file) for file in small])
    large = write_file(writer.location, REPORTS, rows)
    writer.commit(REPORTS, [large], removed=small)
    batches = stream(spark, tmp_path)
    assert [up_to for up_to, _ in batches] == [START + 5000 * 4, START + 5000 * 5]
    assert_same(merged(batches[-1][1]), in_process(polls)[-1])


def test_a_damaged_poll_ends_the_fold_with_a_sentence(
    spark: "SparkSession", tmp_path: Path
) -> None:
    landed(tmp_path, story()[:2])
    writer = writer_of(tmp_path)
    damaged = writer.files(REPORTS)[1].name
    (tmp_path / damaged).write_bytes(b"PAR1")
    logged: list[str] = []
    with JobWatch(spark, "test") as job:
        fold = ReportFold(writer, SparkTasks(spark, job), shards=2)
        with pytest.raises(DamagedError) as error:
            PatientFold(fold, writer, logged.append).next()
    assert damaged in str(error.value)
    assert "counterpoise history" in str(error.value)
    assert logged == [], "it is not tried again"


def test_the_worked_example_on_spark(spark: "SparkSession", tmp_path: Path) -> None:
    """Rates 1 to 5 with at most 3 samples: 1, 3/2, 2, 8/3, 31/9."""
    bundle, options = bundle_name(0), FoldOptions(short_samples=3)
    landed(tmp_path, [poll(n, {"b1:80": {bundle: 100.0 * n}}) for n in range(1, 6)])
    batches = stream(spark, tmp_path, most_rows=9, options=options)
    rates = [average(merged(shards), bundle, "short_msg_rate_in") for _, shards in batches]
    assert rates == pytest.approx([2, 31 / 9], rel=1e-15)


async def test_keystone_one_story_gives_the_same_decisions_inline_and_on_spark(
    streamed: list[Folded], tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    dry, by = ExecutorOptions(execute=False), strategy(interval_ms=5000, grace_ms=12_000)

    def balancer(history: JournalWriter | ShortHistory) -> Balancer:
        return Balancer(by, history, Executor(http, lambda: START, dry), lambda sentence: None)

    inline, on_spark = ShortHistory(), journal_of(tmp_path)
    rounds: list[Round | None] = [await balancer(inline).step(s) for s in in_process(story())]
    same = [await balancer(on_spark).step(merged(shards)) for _, shards in streamed]
    assert same == rounds
    moves = [move for made in rounds if made for move in made.moves]
    assert len(moves) >= 4, "the story must decide something, or this test says nothing"
    assert len({move.poll_id for move in moves}) >= 2
    # What is read back from the tables is what was decided, and so is the memory.
    assert [on_spark.round(made.poll_id) for made in rounds if made] == [m for m in rounds if m]
    assert on_spark.memory_before(START * 2) == inline.memory_before(START * 2)


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
        SparkBalancer(settings, strategy(interval_ms=1), log, spark=spark).run(stop)
    )
    done, _ = await asyncio.wait(
        [running, asyncio.create_task(enough.wait())], return_when=asyncio.FIRST_COMPLETED
    )
    if running in done:
        await running
    with pytest.raises(HistoryInUseError, match="another balancer"):
        await SparkBalancer(settings, strategy(), log, spark=spark).run(stop)
    stop.set()
    await running
    loads = cluster.throughputs().values()
    assert max(loads) / (sum(loads) / 3) - 1 < 0.4
    outcomes = kept(tmp_path, JournalKind.OUTCOME)
    assert {row["status"] for row in outcomes} == {MoveStatus.MOVED.value}
    assert len(cluster.unloads) == len({row["id"] for row in outcomes})


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
