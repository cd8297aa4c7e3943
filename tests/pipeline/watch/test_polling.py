"""What polling logs of a history that is slow, and of a clock that is wrong."""

import asyncio
import re
import threading
from pathlib import Path

import aiohttp
import pytest

from counterpoise.pipeline.clock import CLOCKS_DIFFER_MS
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.ownership import BundleOwners
from counterpoise.pipeline.tables.reports import land, newest_poll
from counterpoise.pipeline.watch import polling as polling_module
from counterpoise.pipeline.watch.metrics import Metrics
from counterpoise.pipeline.watch.polling import Polling
from tests.load.story import START, poll
from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.histories import writer_of
from tests.pipeline.rounds import LogLines


async def test_a_store_that_is_slow_is_reported(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged, answers, said = LogLines(), threading.Event(), asyncio.Event()
    writer = writer_of(tmp_path)

    def log(sentence: str) -> None:
        logged.append(sentence)
        if "has not taken what was seen" in sentence:
            said.set()

    def clock() -> int:
        return START

    def landing(*given: object) -> None:
        answers.wait(100)
        land(*given)  # type: ignore[arg-type]

    looks = Collector(http, [uneven.admin_url], clock)
    polling = Polling(looks, writer, log, Metrics(clock, 5.0), clock_ms=clock)
    monkeypatch.setattr(polling_module, "land", landing)
    monkeypatch.setattr(polling_module, "SLOW_AFTER_S", 0.05)
    task = asyncio.create_task(polling.poll())
    await said.wait()
    assert newest_poll(writer) == 0
    loop = asyncio.get_running_loop()
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + 40)
    answers.set()
    await task
    looks.close()
    assert newest_poll(writer) == START
    # A busy machine adds its own seconds.
    taken = rf"{re.escape(str(tmp_path))} has taken it after 4\d s"
    assert any(re.fullmatch(taken, each) for each in logged)


@pytest.mark.parametrize(("behind_ms", "said"), [(CLOCKS_DIFFER_MS, 0), (CLOCKS_DIFFER_MS + 1, 1)])
async def test_a_clock_that_differs_as_clocks_do_is_not_reported(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path, behind_ms: int, said: int
) -> None:
    writer, logged = writer_of(tmp_path), LogLines()
    looks = Collector(http, [uneven.admin_url], lambda: START + behind_ms)
    metrics = Metrics(lambda: START, 5.0)
    await Polling(looks, writer, logged.append, metrics, None, lambda: START).poll()
    looks.close()
    assert len([each for each in logged if "this machine's clock" in each]) == said


async def test_a_poll_whose_owners_cannot_be_kept_is_not_kept_either(
    uneven: FakeCluster,
    http: aiohttp.ClientSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else no later poll would find the changes of owners between the two."""
    writer = writer_of(tmp_path)

    def full(*_: object) -> None:
        raise HistoryFaultError("no space left")

    monkeypatch.setattr(BundleOwners, "land", full)
    looks = Collector(http, [uneven.admin_url], lambda: START)
    polling = Polling(looks, writer, LogLines().append, Metrics(lambda: START, 5.0))
    with pytest.raises(HistoryFaultError, match="no space left"):
        await polling.poll()
    looks.close()
    assert newest_poll(writer) == 0


async def test_a_clock_that_was_ahead_is_reported_once_by_each_that_polls(
    uneven: FakeCluster, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    writer = writer_of(tmp_path)
    land(writer, poll(2, {"b1:80": {}}))
    last = newest_poll(writer)
    logged, now = LogLines(), [last - 3_600_000]
    for _ in range(2):
        looks = Collector(http, [uneven.admin_url], lambda: now[0], after_poll=newest_poll(writer))
        metrics = Metrics(lambda: now[0], 5.0)
        polling = Polling(looks, writer, logged.append, metrics, None, lambda: now[0])
        await polling.poll()
        await polling.poll()
    said = [sentence for sentence in logged if "clock" in sentence]
    assert len(said) == 2
    assert "is 1:00:00 behind the newest poll" in said[0]
    assert f"history repair {tmp_path}" in said[0]
    now[0] += 3_700_000
    await polling.poll()
    await polling.poll()
    looks.close()
    passed = [said for said in logged if said.startswith("this machine's clock has passed")]
    assert passed == logged[-1:]
