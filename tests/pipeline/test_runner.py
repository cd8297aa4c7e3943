"""The balancer's run from its start to its end, with its tasks in this process instead of a JVM."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from counterpoise.decide.balancing.approval import ApprovalRules
from counterpoise.pipeline import runner
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.executor import ExecutorOptions
from counterpoise.pipeline.runner import RunSettings, SparkBalancer
from counterpoise.pipeline.stream.fold import FoldBatch
from counterpoise.pipeline.tables.data_files import DataFile
from counterpoise.pipeline.tables.journal import Journal, JournalWriter
from counterpoise.pipeline.tables.keeping import KeepingOptions
from counterpoise.pipeline.tables.reports import land, newest_poll
from counterpoise.pipeline.tables.schema import REPORTS, JournalKind
from counterpoise.pipeline.tables.states import current_states
from tests.decide.balancing.test_round import strategy
from tests.load.story import START, poll
from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.histories import kept, reader_of, writer_of
from tests.pipeline.kills.without_spark import LocalTasks, NoJob
from tests.waiting import until

CONTEXT: Any = SimpleNamespace(version="none", master="local")


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Without Spark; the contexts that were stopped."""
    found: list[object] = []
    monkeypatch.setattr(runner, "start_context", lambda *_, **__: CONTEXT)
    monkeypatch.setattr(runner, "stop_spark", found.append)
    monkeypatch.setattr(runner, "SparkTasks", LocalTasks)
    monkeypatch.setattr(runner, "JobWatch", NoJob)
    return found


def settings_of(cluster: FakeCluster, home: Path) -> RunSettings:
    """One look, with which all is done that there is to do."""
    return RunSettings(
        (cluster.admin_url,),
        str(home),
        0.05,
        once=True,
        executor=ExecutorOptions(execute=True, failed_most=0),
    )


async def ran(settings: RunSettings, interval_ms: int = 1, **more: Any) -> list[str]:
    """What is logged of one run."""
    logged: list[str] = []
    by = strategy(interval_ms=interval_ms, stats_s=0)
    await SparkBalancer(settings, by, logged.append, **more).run(asyncio.Event())
    return logged


async def test_moves_of_the_last_hour_count_after_a_restart_and_a_round_too_early_is_said(
    uneven: FakeCluster, tmp_path: Path, stopped: list[object]
) -> None:
    settings = replace(settings_of(uneven, tmp_path), rules=ApprovalRules(moves_an_hour=1))
    await ran(settings)
    assert len(uneven.unloads) == 1
    uneven.report_time += 1
    assert any(
        each.startswith("no round: the last one was") for each in await ran(settings, 60_000)
    )
    logged = await ran(settings)
    assert any("withheld" in each and "--max-moves-an-hour" in each for each in logged)
    assert len(uneven.unloads) == 1
    assert stopped == [CONTEXT] * 3
    await ran(settings, spark=CONTEXT)
    assert stopped == [CONTEXT] * 3, "the context is its owner's"


async def test_no_round_is_made_of_a_poll_in_the_future(
    uneven: FakeCluster, tmp_path: Path, stopped: list[object]
) -> None:
    """The clock was wrong then, or is wrong now."""
    ahead = (wall_clock_ms() + 86_400_000 - START) // 5000
    land(writer_of(tmp_path), poll(ahead, {}))
    await ran(settings_of(uneven, tmp_path))
    assert newest_poll(reader_of(tmp_path)) > wall_clock_ms()
    assert kept(tmp_path, JournalKind.ROUND) == []
    assert stopped


async def test_nothing_is_moved_beside_the_clusters_own_shedder_which_is_said_once(
    uneven: FakeCluster, tmp_path: Path, stopped: list[object]
) -> None:
    base, sheds = "/admin/v2/brokers/configuration", b'{"loadBalancerSheddingEnabled": "true"}'
    for each in uneven.brokers:
        each.answers |= {f"{base}/runtime": (200, b"{}"), f"{base}/values": (200, sheds)}
    logged = await ran(settings_of(uneven, tmp_path))
    assert len([each for each in logged if "sheds load by itself" in each]) == 1
    assert (uneven.unloads, kept(tmp_path, JournalKind.ROUND)) == ([], [])
    dry = replace(settings_of(uneven, tmp_path), executor=ExecutorOptions())
    await ran(dry)
    assert kept(tmp_path, JournalKind.ROUND), "a dry run moves nothing"
    assert uneven.unloads == []
    assert len(stopped) == 2


async def test_a_round_that_was_cut_off_is_seen_through_before_anything_more_is_folded(
    uneven: FakeCluster, tmp_path: Path, stopped: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state is folded already: no batch, which may wait for an executor, delays its moves."""

    def dies(*_: object) -> None:
        raise ConnectionError("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(JournalWriter, "record_memory", dies)
        with pytest.raises(ConnectionError):
            await ran(settings_of(uneven, tmp_path))
    journal = Journal(reader_of(tmp_path))
    assert journal.interrupted() is not None
    left = list[object]()

    class Looking(LocalTasks):
        def run(self, batch: FoldBatch) -> Sequence[DataFile]:
            left.append(journal.interrupted())
            return super().run(batch)

    monkeypatch.setattr(runner, "SparkTasks", Looking)
    uneven.report_time += 1
    await ran(settings_of(uneven, tmp_path))
    assert left == [None]
    assert len(stopped) == 2


async def test_what_is_folded_is_compacted_beside_a_balancer(
    uneven: FakeCluster, tmp_path: Path, stopped: list[object]
) -> None:
    keeping = KeepingOptions(look_every=1, compact_from=2)
    settings = replace(settings_of(uneven, tmp_path), once=False, keeping=keeping)
    stop, reader = asyncio.Event(), reader_of(tmp_path)
    balancer = SparkBalancer(settings, strategy(interval_ms=1), cast("list[str]", []).append)
    running = asyncio.create_task(balancer.run(stop))
    await until(lambda: running.done() or any(file.level for file in reader.files(REPORTS)))
    stop.set()
    await running
    assert len(stopped) == 1


async def test_a_stop_waits_for_the_batch_that_is_on_its_way(
    uneven: FakeCluster, tmp_path: Path, stopped: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = threading.Event(), threading.Event()

    class Held(LocalTasks):
        def run(self, batch: FoldBatch) -> Sequence[DataFile]:
            begun.set()
            released.wait(60)
            return super().run(batch)

    monkeypatch.setattr(runner, "SparkTasks", Held)
    stop, settings = asyncio.Event(), replace(settings_of(uneven, tmp_path), once=False)
    balancer = SparkBalancer(settings, strategy(), cast("list[str]", []).append)
    running = asyncio.create_task(balancer.run(stop))
    try:
        await until(begun.is_set)
        stop.set()
        asyncio.get_running_loop().call_later(0.2, released.set)
        await running
        assert current_states(reader_of(tmp_path)) is not None
        assert len(stopped) == 1
    finally:
        released.set()
