"""On a standalone Spark cluster whose machines share nothing but an object store.

A master and two workers in directories of their own, whose Python has no `counterpoise`; the driver
is the command itself, elsewhere again. Cycle, loss of an executor, and backtest, one after another.
"""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise.app.strategies import strategy_from
from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest.recorded import Recording
from counterpoise.pipeline.backtest.run import joined, replay, tasks_of
from counterpoise.pipeline.backtest.simulate import BacktestCandidate
from counterpoise.pipeline.tables.schema import JournalKind
from counterpoise.pipeline.tables.states import current_states
from tests.pipeline.command import Command
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.histories import kept, reader_of
from tests.pipeline.s3_server import Bucket
from tests.pipeline.spark_cluster import StandaloneSpark, standalone_spark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    with standalone_spark(tmp_path_factory.mktemp("spark")) as made:
        yield made


async def test_a_cluster_is_balanced_though_an_executor_is_lost_and_the_load_is_played_again(
    on: StandaloneSpark, s3: Bucket, cluster: FakeCluster, tmp_path: Path
) -> None:
    first, _ = [await cluster.add_broker() for _ in range(2)]
    for index in range(6):
        cluster.carry(first, bundle_name(index), 20_000.0 + index)
    uri = s3.uri("months/history")
    words = ["balance", "--admin-url", cluster.admin_url, "--history", uri, "--execute"]
    words += ["--interval", "500ms", "--decide-every", "1s", "--grace-period", "1s", *on.arguments]
    words += ["--strategy", "ThresholdShedder"]
    words += ["--set", "loadBalancerBundleUnloadMinThroughputThreshold=0.001"]
    balance = await Command.start(words, cwd=tmp_path / "driver", environment=LOOPBACK)
    try:
        await balance.until(lambda line: " moved " in line)
        assert len(on.packages()) == 2, "both workers folded, with what the driver brought"
        executor = on.executors()[0]
        memory = [word for word in executor.cmdline() if word.startswith("-Xmx")]
        assert memory == ["-Xmx512M"]
        executor.kill()
        # A new load, which is seen and acted upon without anybody's help.
        moved = len(cluster.unloads)
        cluster.report_time += 1
        for index in range(10, 16):
            cluster.carry(first, bundle_name(index), 30_000.0 + index)
        await balance.until(lambda line: " moved " in line and len(cluster.unloads) > moved)
        balance.process.send_signal(signal.SIGTERM)
        assert await balance.end() == 0, balance.text
    finally:
        await balance.kill()
    outcomes = kept(uri, JournalKind.OUTCOME)
    # On a busy machine a decision is too old once its fold has ended, or a lookup takes too long.
    by_status = {
        status: {(row["bundle"], row["destination"]) for row in outcomes if row["status"] == status}
        for status in {row["status"] for row in outcomes}
    }
    may_fail = {MoveStatus.FAILED.value, MoveStatus.STALE.value}
    assert by_status.keys() - may_fail == {MoveStatus.MOVED.value}, outcomes
    asked = set(cluster.unloads)
    tried = by_status[MoveStatus.MOVED.value] | by_status.get(MoveStatus.FAILED.value, set())
    assert by_status[MoveStatus.MOVED.value] <= asked <= tried, outcomes
    sent = [row["id"] for row in outcomes if row["status"] != MoveStatus.STALE.value]
    assert len(cluster.unloads) <= len(set(sent)), outcomes
    assert current_states(reader_of(uri)), "the checkpoint is in the history"
    assert not list((tmp_path / "driver").iterdir()), "and nothing where the driver ran"
    # A user's own strategy, and what it imports, lie where the driver runs and nowhere else.
    mine = tmp_path / "mine"
    (mine / "shared").mkdir(parents=True)
    (mine / "shared" / "__init__.py").write_text("PERCENT = 10.0\n")
    (mine / "own.py").write_text(OWN)
    words = ["backtest", uri, "--step", "1", "--strategies", "ThresholdShedder,own:Own", "--json"]
    words += ["--move-seconds", "1", *on.arguments]
    backtest = await Command.start(words, cwd=mine, environment=LOOPBACK)
    assert await backtest.end() == 0, backtest.text
    [said] = [line for line in backtest.said if line.startswith("[{")]
    expected = await asyncio.to_thread(_backtest_of, uri)
    found = {row.pop("label"): row for row in json.loads(said)}
    assert found["own:Own"] == found["ThresholdShedder"]
    assert {name: found[name] for name in expected} == expected


OWN = """
from counterpoise.decide.shedding.threshold import ThresholdShedder
from shared import PERCENT

assert PERCENT


class Own(ThresholdShedder):
    name = "Own"
"""


def _backtest_of(uri: str) -> dict[str, dict[str, object]]:
    """The same replays in this process."""
    by = strategy_from(Properties({}), shedder="ThresholdShedder", placement="LeastUsage")
    tried = [BacktestCandidate("ThresholdShedder", by), BacktestCandidate("no moves", None)]
    tasks = tasks_of(tried, Recording(uri), parts=1, move_s=1.0, seed=1)
    replayed = [each.to_json() for each in joined([replay(task) for task in tasks])]
    return {str(row.pop("label")): row for row in replayed}
