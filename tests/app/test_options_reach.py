"""Every option of the verbs that move bundles reaches what it is for."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpoise.app.errors import UserError
from counterpoise.app.main import main
from counterpoise.app.verbs import advise, balance, drain, refill, roll, split
from counterpoise.decide.advice.planned import AdviceOptions
from counterpoise.decide.balancing.approval import ApprovalRules
from counterpoise.decide.balancing.publish_latency import LatencyLimit
from counterpoise.pipeline.drive.action_trail import ActionKind
from counterpoise.pipeline.drive.approved import ApprovedOptions
from counterpoise.pipeline.drive.drain import DrainOptions
from counterpoise.pipeline.drive.roll import RollOptions
from counterpoise.pipeline.executor import ExecutorOptions
from counterpoise.pipeline.notify.webhook import NotifyOptions
from counterpoise.pipeline.publish_latencies import LatencyWatchOptions
from counterpoise.pipeline.tables.heartbeat import HeartbeatOptions
from counterpoise.pipeline.tables.keeping import KeepingOptions
from tests.pipeline.drive.drains import sheds_not
from tests.pipeline.fake_cluster import FakeCluster, bundle_name, wide_bundle

SLOW = LatencyWatchOptions(LatencyLimit(times=3.0))
PACE = ["--at-once", "3", "--warm-up", "2s", "--stop-at-latency", "x3"]
RULES = [
    "--max-moves-a-round",
    "5",
    "--max-load-a-round",
    "60%",
    "--max-moves-an-hour",
    "7",
    "--max-load-an-hour",
    "80%",
    "--max-unavailable-an-hour",
    "9s",
    "--window",
    "22:00-06:00",
    "--leave-alone",
    "t/n,t/m",
]
LIMITS = ApprovalRules(
    moves_a_round=5, part_a_round=0.6, moves_an_hour=7, part_an_hour=0.8,
    unavailable_an_hour_s=9.0, window=(1320, 360), leave_alone=frozenset({"t/n", "t/m"}),
)  # fmt: skip


class Caught(list[tuple[tuple[Any, ...], dict[str, Any]]]):
    """Stands in for what a verb makes: keeps what it is given, and ends the verb."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        super().__init__()
        monkeypatch.setattr(module, name, self)

    def __call__(self, *given: Any, **named: Any) -> None:
        self.append((given, named))
        raise UserError("this is enough")


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster() as made:
        first, second, _ = [await made.add_broker() for _ in range(3)]
        for index in range(6):
            made.carry(first if index % 2 else second, bundle_name(index), 1000.0)
        sheds_not(made)
        yield made


async def run(cluster: FakeCluster, verb: str, *words: str) -> int:
    return await asyncio.to_thread(main, [verb, *words, "--admin-url", cluster.admin_url])


async def test_of_a_rolling_restart(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, guarded = Caught(monkeypatch, roll, "RollingRestart"), []
    monkeypatch.setattr(roll, "guard", lambda *_, options: guarded.append(options))
    words = ["--to-version", "4.1", "--back-within", "7s", "--settle", "8s", "--patience", "9s"]
    words += ["--window", "22:00-06:00", "--partial", "--history", str(tmp_path), *PACE]
    await run(cluster, "roll", *words)
    [(given, _)] = made
    moves = DrainOptions(
        partial=True, moves=ExecutorOptions(at_once=3, warm_up_s=2.0, latency=SLOW)
    )
    assert given[-1] == RollOptions(
        "4.1", back_within_s=7.0, healthy_for_s=8.0, patience_s=9.0, window=(1320, 360), drain=moves
    )
    assert [each.patience_ms for each in guarded] == [8000]


async def test_of_a_drain(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Caught(monkeypatch, drain, "BrokerDrain")
    kept = ["--history", str(tmp_path), "--who", "ann", "--why", "new disks"]
    await run(cluster, "drain", "b:1", "--attempts", "5", "--partial", *kept, *PACE)
    [(given, _)] = made
    options, action = given[-2:]
    moves = ExecutorOptions(at_once=3, warm_up_s=2.0, latency=SLOW)
    assert options == DrainOptions(5, partial=True, moves=moves)
    assert (action.kind, action.who, action.why) == (ActionKind.DRAIN, "ann", "new disks")
    assert given[2] == "b:1"


async def test_of_a_refill(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Caught(monkeypatch, refill, "ApprovedPlan")
    empty = cluster.names[2]
    rules = RULES[:-4]  # now, and every bundle
    words = ["--history", str(tmp_path), "--execute", "--partial", *rules, *PACE[2:]]
    await run(cluster, "refill", empty, *words)
    [(given, _)] = made
    limits = replace(LIMITS, window=None, leave_alone=frozenset())
    assert given[-1] == ApprovedOptions(
        execute=True, valid_for_s=refill.VALID_FOR_S, partial=True, fills=[empty],
        rules=limits, moves=ExecutorOptions(latency=SLOW, warm_up_s=2.0),
    )  # fmt: skip


async def test_of_advice(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Caught(monkeypatch, advise, "advise")
    words = ["--rounds", "5", "--at-once", "3", "--every-move", "--move-seconds", "1.5"]
    words += ["--set", "loadBalancerSheddingIntervalMinutes=7", "--strategy", "cluster"]
    await run(cluster, "advise", *words, "--set", "loadBalancerLoadSheddingStrategy=AvgShedder")
    [(given, _)] = made
    assert given[6] == AdviceOptions(5, 3, 7 * 60_000, every_move=True)
    assert given[1].shedder.name == "AvgShedder"
    assert given[2].seconds == 1.5
    assert not [each for each in given[7] if "no strategy is named" in each]
    made.clear()
    await run(cluster, "advise")
    [(given, _)] = made
    assert [each for each in given[7] if "no strategy is named: Counterpoise decides" in each]


async def test_of_a_balancer(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Caught(monkeypatch, balance, "SparkBalancer")
    words = ["--history", str(tmp_path), "--execute", "--timeout", "4s", "--master", "local[1]"]
    words += ["--spark-conf", "spark.x=1", "--shards", "3", "--interval", "5s", *RULES, *PACE[2:]]
    words += ["--decide-every", "11s", "--grace-period", "12s", "--thrash-span", "13s"]
    words += ["--costly-span", "14s", "--metrics", "0.0.0.0:9", "--watchdog", "--once"]
    words += ["--wait-for-history", "15s", "--retain-days", "16", "--time-travel-days", "17"]
    words += ["--notify", "http://hook/", "--notify-cluster", "east", "--placement", "LeastUsage"]
    await run(cluster, "balance", *words)
    [((settings, strategy, _), _)] = made
    assert (settings.addresses, settings.history) == ((cluster.admin_url,), str(tmp_path))
    assert (settings.answer_within_s, settings.poll_every_s, settings.shards) == (4.0, 5.0, 3)
    assert (settings.master, settings.once, settings.watchdog) == ("local[1]", True, True)
    assert dict(settings.spark_conf)["spark.x"] == "1"
    assert settings.metrics == ("0.0.0.0", 9)
    assert settings.executor == ExecutorOptions(execute=True, latency=SLOW, warm_up_s=2.0)
    assert settings.rules == LIMITS
    assert settings.heartbeat == HeartbeatOptions(wait_s=15.0)
    assert settings.keeping == KeepingOptions(retain_days=16, time_travel_days=17)
    assert isinstance(settings.notify, NotifyOptions)
    assert (settings.notify.url, settings.notify.context.cluster) == ("http://hook/", "east")
    spans = strategy.balance
    assert (spans.interval_ms, spans.grace_ms) == (11_000, 12_000)
    assert (spans.thrash_span_ms, spans.costly_span_ms) == (13_000, 14_000)


@pytest.mark.parametrize(
    ("words", "query"),
    [
        ([], "unload=false"),
        (["--unload"], "unload=true"),
        (["--at", "0x18000000"], "unload=false&splitAlgorithmName=specified_positions_divide"),
        (
            ["--algorithm", "topic_count_equally_divide"],
            "unload=false&splitAlgorithmName=topic_count_equally_divide",
        ),
    ],
)
async def test_of_a_split(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, words: list[str], query: str
) -> None:
    monkeypatch.setattr(split, "HEARD_WITHIN_S", -1.0)
    cluster.carry(cluster.brokers[0], wide_bundle(1), 1.0)
    await run(cluster, "split", wide_bundle(1), *words)
    asked = [path for each in cluster.brokers for method, path in each.requests if method == "PUT"]
    assert asked == [f"/admin/v2/namespaces/{wide_bundle(1)}/split?{query}"]
