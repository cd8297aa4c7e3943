"""A grid and a rollup on two workers whose Python has no `counterpoise`, by the command itself."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from counterpoise.app.strategies import strategy_from
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest.run import joined, replay, tasks_of
from counterpoise.pipeline.backtest.simulate import BacktestCandidate
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from counterpoise.pipeline.gold.tables import GOLD_TABLES
from tests.pipeline.command import Command
from tests.pipeline.gold.recorded import append, reports
from tests.pipeline.spark_cluster import StandaloneSpark, standalone_spark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
CORES = 2


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    with standalone_spark(tmp_path_factory.mktemp("spark"), cores=CORES) as made:
        yield made


async def test_as_many_plays_run_at_once_as_executors_have_cores(
    on: StandaloneSpark, tmp_path: Path
) -> None:
    """Each replay of its own strategy waits until four have begun; two at a time never end."""
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "meets.py").write_text(MEETS.format(meeting=meeting, replays=2 * CORES))
    names = [f"meets:Meets{number}" for number in range(2 * CORES)]
    words = ["backtest", "synthetic:bursty,brokers=4,bundles=20,hours=0.2", "--json"]
    words += ["--strategies", ",".join(names), *on.arguments]
    backtest = await Command.start(words, cwd=mine, environment={"SPARK_LOCAL_IP": "127.0.0.1"})
    assert await backtest.end() == 0, backtest.text
    [said] = [line for line in backtest.said if line.startswith("[{")]
    found = {row["label"]: row for row in json.loads(said)}
    trace = SyntheticTrace(
        "bursty", count_of_brokers=4, count_of_bundles=20, hours=0.2, step_ms=60_000, seed=1
    )
    by = strategy_from(Properties({}), shedder="ThresholdShedder", placement="LeastUsage")
    [task] = tasks_of([BacktestCandidate("", by)], trace, parts=1, move_s=1.0, seed=1)
    for name in names:
        assert {**found[name], "label": "", "why_not": ""} == {
            **joined([replay(task)])[0].to_json(),
            "why_not": "",
        }
    assert any("5 of 5 replays are done" in line for line in backtest.said), backtest.text


MEETS = """
from pathlib import Path
from threading import Event

from counterpoise.decide.shedding.threshold import ThresholdShedder

HERE = Path("{meeting}")


class Meets(ThresholdShedder):
    def plan(self, *args):
        (HERE / self.name).touch()
        for _ in range(1200):
            if len(list(HERE.iterdir())) >= {replays}:
                return super().plan(*args)
            Event().wait(0.05)
        raise RuntimeError("the other replays have not begun within a minute")


for number in range({replays}):
    name = f"Meets{{number}}"
    globals()[name] = type(name, (Meets,), {{"name": name}})
"""


async def test_plays_that_no_executor_can_take_are_said_to_wait(
    on: StandaloneSpark, tmp_path: Path
) -> None:
    words = ["backtest", "synthetic:bursty,brokers=4,bundles=20,hours=0.2", *on.arguments]
    words += ["--spark-conf", "spark.executor.cores=64"]
    backtest = await Command.start(
        words, cwd=tmp_path / "driver", environment={"SPARK_LOCAL_IP": "127.0.0.1"}, group=True
    )
    try:
        line = await backtest.until(lambda line: "no executor has come" in line)
    finally:
        os.killpg(backtest.process.pid, signal.SIGKILL)
        await backtest.end()
    assert f"from {on.master} yet, no replay runs until one does; spark.executor" in line


async def test_a_history_is_rolled_up(on: StandaloneSpark, tmp_path: Path) -> None:
    home = tmp_path / "history"
    rows = reports(0, 12)
    append(home, "reports", rows)
    words = ["rollup", str(home), *on.arguments]
    rollup = await Command.start(
        words, cwd=tmp_path / "driver", environment={"SPARK_LOCAL_IP": "127.0.0.1"}
    )
    assert await rollup.end() == 0, rollup.text
    assert {table for table in GOLD_TABLES if (home / table).is_dir()} == GOLD_TABLES.keys()
    polls = DeltaTable(str(home / "gold_imbalance")).to_pyarrow_table().column("poll_id")
    assert sorted(polls.to_pylist()) == sorted({row["poll_id"] for row in rows})
    assert on.packages(), "the driver shipped the package"
