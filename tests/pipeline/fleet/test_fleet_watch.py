"""Several clusters side by side: one that is away, hangs or is damaged is a line of its own."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from counterpoise import Cluster
from counterpoise.app.main import main
from counterpoise.load.report import NamespaceBundleStats
from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.fleet import cluster_state
from counterpoise.pipeline.fleet.cluster_state import (
    FIGURES,
    LATE_AFTER_MS,
    BalancerState,
    ClusterState,
)
from counterpoise.pipeline.fleet.fleet_watch import FleetCluster, StatusReading, watching_fleet
from counterpoise.pipeline.tables.control import Control, Wish, write_control
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import land
from counterpoise.security.client import ClientSecurity
from counterpoise.security.options import ClientOptions
from tests.load.story import START, poll
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.histories import writer_of
from tests.waiting import until


@dataclass(frozen=True)
class Staged:
    """Clusters of every kind."""

    good: Cluster
    hanging: str
    history: Path
    seen_ms: int
    """When it was looked at: a busy machine may come to a test minutes later."""

    def clock_ms(self) -> int:
        return self.seen_ms


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staged]:
    """A cluster with a history, and an address that accepts connections and never answers."""
    history = tmp_path_factory.mktemp("fleet") / "history"
    with Cluster(brokers=2) as good, closing(socket.create_server(("127.0.0.1", 0))) as silent:
        watch = ["watch", "--once", "--admin-url", good.admin_url, "--history", str(history)]
        assert main(watch) == 0
        hanging = f"http://127.0.0.1:{silent.getsockname()[1]}"
        yield Staged(good, hanging, history, wall_clock_ms())


def fleet_of(staged: Staged) -> list[FleetCluster]:
    return [
        FleetCluster("hanging", (staged.hanging,)),
        FleetCluster("east", (staged.good.admin_url,), str(staged.history)),
        FleetCluster("away", ("http://127.0.0.1:1",), str(staged.history / "nowhere")),
        FleetCluster("west", (staged.good.admin_url,), "gopher://x/y"),
    ]


async def test_one_look_at_all_has_a_state_for_each(staged: Staged) -> None:
    async with watching_fleet(fleet_of(staged), staged.clock_ms, 6.0) as watch:
        hanging, east, away, west = await watch.poll()
    assert east.polled is not None
    assert (east.polled.brokers, east.findings) == (2, ())
    assert east.balancer is BalancerState.RUNNING
    assert hanging.polled is None
    assert "no answer within" in hanging.findings[0]
    assert "cannot connect" in away.findings[0]
    assert "is no history" in away.findings[1]
    assert west.polled is not None
    assert west.balancer is BalancerState.UNREADABLE
    assert "gopher" in west.findings[0]
    for state in (hanging, east, away, west):
        assert state.line().startswith(f"{state.name}: ")
        assert "\n" not in state.line()
        json.dumps(state.to_json())


async def test_a_cluster_that_hangs_delays_no_other(staged: Staged) -> None:
    async with watching_fleet(fleet_of(staged), wall_clock_ms, 30.0) as watch:
        running = asyncio.create_task(watch.run(0.01))
        await until(lambda: watch.states[1].polled and watch.states[2].at_ms, "the others are seen")
        assert not watch.states[0].at_ms
        first = watch.states[1].at_ms
        await until(lambda: watch.states[1].at_ms > first, "the next look follows")
        assert not watch.states[0].at_ms
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_history_that_hangs_is_said_and_not_read_twice_at_once(
    staged: Staged, tmp_path: Path
) -> None:
    hanging = tmp_path / "history"
    hanging.mkdir()
    (hanging / "reports").mkdir()
    # Whoever opens it to read waits for a writer.
    os.mkfifo(hanging / "control")
    cluster = FleetCluster("east", (staged.good.admin_url,), str(hanging))
    async with watching_fleet([cluster], wall_clock_ms, 3.0) as watch:
        for _ in range(2):
            [state] = await watch.poll()
            assert state.polled is not None
            assert state.unreadable == "the history does not answer within 3 s"
    # There is one reader: a second would be left when the first is answered.
    (hanging / "control").write_bytes(b"")
    readers = [each for each in threading.enumerate() if isinstance(each, StatusReading)]
    assert len(readers) <= 1
    for each in readers:
        each.join()


async def test_each_look_is_about_now_and_a_broker_that_hangs_is_silent(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    first, second = [await cluster.add_broker() for _ in range(2)]
    cluster.owners[bundle_name(0)] = first.name
    cluster.loads[bundle_name(0)] = NamespaceBundleStats(
        msg_throughput_in=2000.0, msg_throughput_out=1000.0
    )
    writer, at = writer_of(tmp_path / "h"), [START]
    west = FleetCluster("west", (cluster.admin_url,), str(tmp_path / "h"))
    async with watching_fleet([west], lambda: at[0], 6.0) as watch:
        for number in range(2):
            land(writer, poll(number, {}))
            [state] = await watch.poll()
            assert state.polled is not None
            assert (state.polled.bytes_per_s, state.polled.imbalance) == (3000.0, 1.0 - number)
            assert set(state.polled.silent) == {second.name} if number else not state.polled.silent
            assert state.status is not None
            assert state.status.poll is not None
            assert state.status.poll.at == at[0]
            at[0] += 5000
            second.hangs = second.hangs or asyncio.Event()
        await cluster.remove_broker(first)
        (tmp_path / "h").rename(tmp_path / "away")
        [state] = await watch.poll()
        assert (state.polled, state.status) == (None, None)
        assert state.balancer is BalancerState.UNREADABLE
        assert len(state.findings) == 2
        second.hangs.set()


async def test_metrics_name_the_cluster_of_each_figure(staged: Staged) -> None:
    async with watching_fleet(fleet_of(staged), staged.clock_ms, 6.0) as watch:
        before = watch.metrics().decode()
        assert not [s for f in text_string_to_metric_families(before) for s in f.samples]
        await watch.poll()
        families = [*text_string_to_metric_families(watch.metrics().decode())]
    assert {each.name for each in families} == {f"counterpoise_fleet_{name}" for name in FIGURES}
    found = {(s.name, s.labels["cluster"]): s.value for f in families for s in f.samples}
    assert found["counterpoise_fleet_reachable", "east"] == 1
    assert found["counterpoise_fleet_reachable", "hanging"] == 0
    assert found["counterpoise_fleet_brokers", "east"] == 2
    assert ("counterpoise_fleet_brokers", "away") not in found
    assert found["counterpoise_fleet_findings", "away"] == 2
    assert found["counterpoise_fleet_balancer_running", "east"] == 1
    assert found["counterpoise_fleet_balancer_running", "west"] == 0


async def test_the_state_of_a_balancer_is_that_of_its_history(staged: Staged) -> None:
    reading = StatusReading(str(staged.history), staged.seen_ms)
    reading.start()
    status = await reading.result
    assert not isinstance(status, str)
    assert status.poll is not None
    state = ClusterState("east", at_ms=1, status=status)
    assert state.balancer is BalancerState.RUNNING
    late = replace(status, now_ms=status.poll.at + LATE_AFTER_MS + 1)
    assert replace(state, status=late).balancer is BalancerState.LATE
    assert "no look" in replace(state, status=late).findings[0]
    unseen = replace(status, poll=None)
    assert replace(state, status=unseen).balancer is BalancerState.UNSEEN
    assert replace(state, status=None).balancer is BalancerState.UNSEEN
    assert replace(state, status=None, has_history=False).balancer is BalancerState.NONE


def test_status_prints_a_line_for_each_and_succeeds(
    staged: Staged,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_state, "LATE_AFTER_MS", 10**9)  # a busy machine comes here late
    file = tmp_path / "fleet.toml"
    file.write_text(
        f'[[cluster]]\nname = "east"\nadmin-url = "{staged.good.admin_url}"\n'
        f'history = "{staged.history}"\n'
        f'[[cluster]]\nname = "hanging"\nadmin-url = "{staged.hanging}"\n'
    )
    location = open_location(staged.history)
    write_control(location, Control(Wish.PAUSE, wall_clock_ms(), "release\ntoday"))
    try:
        assert main(["status", "--fleet", str(file), "--within", "6s"]) == 0
        east, hanging = capsys.readouterr().out.splitlines()
        assert east.startswith("east: balancer: held, 2 brokers")
        assert "release today" in east
        assert hanging.startswith("hanging: balancer: no history named, 1 to look at: ")
        assert main(["status", "--fleet", str(file), "--within", "6s", "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert [each["reachable"] for each in shown] == [True, False]
        assert shown[0]["status"]["control"]["wish"] == "pause"
    finally:
        write_control(location, Control(Wish.GO, wall_clock_ms(), ""))


async def test_a_poll_that_fails_unexpectedly_ends_the_watch_of_no_cluster(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.add_broker()
    fleet = [FleetCluster(name, (cluster.admin_url,)) for name in ("east", "west")]
    polls, fails, seen = Collector.poll, [True], list[Collector]()

    async def poll_of(collector: Collector) -> ReportRows:
        seen.append(collector)
        if collector is seen[0] and fails:
            raise RecursionError("too deep")
        return await polls(collector)

    monkeypatch.setattr(Collector, "poll", poll_of)
    async with watching_fleet(fleet, wall_clock_ms, 6.0) as watch:
        running = asyncio.create_task(watch.run(0.01))
        await until(lambda: all(each.at_ms for each in watch.states), "both are polled")
        east, west = watch.states
        assert east.polled is None
        assert east.unreachable == "its poll failed unexpectedly: RecursionError: too deep"
        assert west.polled is not None
        assert "the poll of cluster east failed unexpectedly" in caplog.text
        fails.clear()
        await until(lambda: watch.states[0].polled, "the first cluster is polled again")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_token_file_that_is_gone_is_what_the_cluster_is_missing(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    await cluster.add_broker()
    token = tmp_path / "token"
    token.write_text("secret")
    security = ClientSecurity(ClientOptions(plugin="token", parameters=f"file://{token}"))
    fleet = [FleetCluster("east", (cluster.admin_url,), security=security)]
    async with watching_fleet(fleet, wall_clock_ms, 6.0) as watch:
        [state] = await watch.poll()
        assert state.polled is not None
        token.unlink()
        [state] = await watch.poll()
        assert f"cannot read {token}: No such file or directory" in state.unreachable
        assert "no address" not in state.unreachable
        token.write_text("secret")
        [state] = await watch.poll()
        assert state.polled is not None
