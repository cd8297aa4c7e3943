"""A watcher keeps what it sees, says what changes and no more, and serves Prometheus."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.tables.control import Control, Wish, write_control
from counterpoise.pipeline.tables.data_files import read_file
from counterpoise.pipeline.tables.faults import HistoryInUseError
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.schema import OWNERSHIP_CHANGES, REPORTS
from counterpoise.pipeline.watch.changes import Changes
from counterpoise.pipeline.watch.history_keeper import ClusterWatcher, WatchSettings
from counterpoise.pipeline.watch.metrics import Metrics
from counterpoise.pipeline.watch.serve import CannotListenError, serving
from tests.load.story import Loads, poll
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.histories import reader_of

A, B, C, D = (bundle_name(number) for number in range(4))


def logged(*polls: dict[str, Loads | None], repeated: tuple[str, ...] = ()) -> list[list[str]]:
    """What is said at each of these polls."""
    said: list[str] = []
    changes, found = Changes(said.append), []
    for number, brokers in enumerate(polls):
        changes.log_poll(poll(number, brokers, repeated=repeated if number else ()))
        found.append(list(said))
        said.clear()
    return found


def test_what_stays_as_it_is_is_not_said() -> None:
    calm: dict[str, Loads | None] = {"b1:80": {A: 5.0}, "b2:80": {B: 5.0}}
    first, second = logged(calm, calm)
    assert first == ["imbalance 0.00: b2:80 carries 15 B/s, the mean is 15 B/s"]
    assert second == []


def test_a_move_is_said_once_with_where_from_and_where_to() -> None:
    before: dict[str, Loads | None] = {"b1:80": {A: 5.0, B: 5.0}, "b2:80": {C: 5.0}}
    after: dict[str, Loads | None] = {"b1:80": {A: 5.0}, "b2:80": {C: 5.0, B: 5.0}}
    _, moved, again = logged(before, after, after)
    assert f"bundles moved: 1 b1:80 -> b2:80 ({B})" in moved
    assert again == []


def test_a_split_shows_as_bundles_that_come_and_one_that_goes() -> None:
    _, said = logged({"b1:80": {A: 5.0}}, {"b1:80": {C: 3.0, D: 2.0}})
    assert f"2 bundles are newly reported: {C}, {D}" in said
    assert f"one bundle is reported by no broker any more: {A}" in said


def test_a_broker_that_does_not_answer_keeps_its_bundles() -> None:
    _, silent, back = logged(
        {"b1:80": {A: 5.0}, "b2:80": {B: 5.0}},
        {"b1:80": None, "b2:80": {B: 5.0}},
        {"b1:80": {A: 5.0}, "b2:80": {B: 5.0}},
    )
    assert silent == back == []


def test_a_report_that_was_read_before_says_nothing_of_bundles() -> None:
    _, said = logged({"b1:80": {A: 5.0}}, {"b1:80": {}}, repeated=("b1:80",))
    assert not [each for each in said if "reported" in each]


def test_the_imbalance_is_said_when_it_is_another() -> None:
    _, little, much = logged(
        {"b1:80": {A: 100.0}, "b2:80": {B: 100.0}},
        {"b1:80": {A: 105.0}, "b2:80": {B: 100.0}},
        {"b1:80": {A: 300.0}, "b2:80": {B: 100.0}},
    )
    assert little == []
    assert much == ["imbalance 0.50 (it was 0.00): b1:80 carries 900 B/s, the mean is 600 B/s"]


@asynccontextmanager
async def watching(
    cluster: FakeCluster, folder: Path, said: list[str], port: int | None = None
) -> AsyncIterator[Callable[[], asyncio.Future[None]]]:
    """A watcher at work; what it yields is what awaits its next poll."""
    polled: list[asyncio.Future[None]] = []

    async def after_poll(_: object) -> None:
        for each in polled:
            each.set_result(None)
        polled.clear()

    def next_poll() -> asyncio.Future[None]:
        polled.append(asyncio.get_running_loop().create_future())
        return polled[-1]

    address = None if port is None else ("127.0.0.1", port)
    settings = WatchSettings((cluster.admin_url,), str(folder), 0.01, metrics=address)
    stop = asyncio.Event()
    running = asyncio.create_task(ClusterWatcher(settings, said.append, after_poll).run(stop))
    try:
        yield next_poll
    finally:
        stop.set()
        await running


async def test_polls_are_kept_and_figures_served(
    cluster: FakeCluster, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    first, second = [await cluster.add_broker() for _ in range(2)]
    cluster.carry(first, A, 3000.0)
    cluster.carry(second, B, 1000.0)
    said: list[str] = []
    async with watching(cluster, tmp_path, said, port=0) as next_poll:
        await next_poll()
        [port] = [each.rpartition(" ")[2] for each in said if each.startswith("metrics on port")]
        second.silent = True
        cluster.owners[A] = second.name
        cluster.report_time += 1
        await next_poll()
        await next_poll()
        async with http.get(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.content_type == "text/plain"
            figures = dict(
                line.rsplit(" ", 1) for line in (await answer.text()).splitlines() if line[0] != "#"
            )
        async with http.get(f"http://127.0.0.1:{port}/health") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")
    assert float(figures["counterpoise_balancer_polls_total"]) >= 3
    assert float(figures["counterpoise_balancer_silent_brokers"]) == 1
    assert float(figures["counterpoise_balancer_gaps_total"]) >= 1
    load = f'counterpoise_balancer_broker_bytes_per_second{{broker="{second.name}"}}'
    assert float(figures[load]) == 1000.0, "the last that is known of it"
    reader = reader_of(tmp_path)
    assert len(reader.files(REPORTS)) >= float(figures["counterpoise_balancer_polls_total"])
    changes = [read_file(reader.location, each) for each in reader.files(OWNERSHIP_CHANGES)]
    owned = {(r["bundle"], r["destination"]) for each in changes for r in each.to_pylist()}
    assert owned == {(A, first.name), (B, second.name)}
    assert any(f"no load report from {second.name}" in each for each in said)


async def test_a_second_writer_is_refused(cluster: FakeCluster, tmp_path: Path) -> None:
    await cluster.add_broker()
    settings = WatchSettings((cluster.admin_url,), str(tmp_path), once=True)
    async with watching(cluster, tmp_path, []) as next_poll:
        await next_poll()
        with pytest.raises(HistoryInUseError, match=str(tmp_path)):
            await ClusterWatcher(settings, lambda _: None).run(asyncio.Event())


async def test_a_word_of_the_operator_ends_it(cluster: FakeCluster, tmp_path: Path) -> None:
    await cluster.add_broker()
    said: list[str] = []
    settings = WatchSettings((cluster.admin_url,), str(tmp_path), 0.01)
    location = open_location(tmp_path)

    async def after_poll(_: object) -> None:
        write_control(location, Control(Wish.STOP, wall_clock_ms() + 1))

    await ClusterWatcher(settings, said.append, after_poll).run(asyncio.Event())
    assert said[-1] == "stopped by `counterpoise control`"


def test_health_says_since_when_nothing_was_seen() -> None:
    now = 1_000_000
    metrics = Metrics(lambda: now, poll_every_s=5.0)
    assert metrics.health() == "no look at the cluster was kept in 0 s since the start"
    now += 3_600_000
    assert metrics.health() == "no look at the cluster was kept in 3600 s since the start"
    metrics.polled(poll(0, {"b1:80": {A: 1.0}}), Changes(lambda _: None))
    assert metrics.health() == ""
    now += 7_200_000
    assert metrics.health() == "the last look at the cluster was kept 7200 s ago"


async def test_a_port_that_is_taken_is_a_sentence(http: aiohttp.ClientSession) -> None:
    metrics = Metrics(wall_clock_ms, 5.0)
    async with serving(metrics, ("127.0.0.1", 0)) as port:
        async with http.get(f"http://127.0.0.1:{port}/health") as answer:
            assert (answer.status, await answer.text()) == (503, f"{metrics.health()}\n")
        with pytest.raises(CannotListenError, match=f"--metrics 127.0.0.1:{port}: "):
            async with serving(metrics, ("127.0.0.1", port)):
                pass


async def test_a_watchdog_beside_it_counts_what_it_finds(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    broker = await cluster.add_broker()
    broker.answers["/admin/v2/brokers/leaderBroker"] = (404, b"none")
    settings = WatchSettings((cluster.admin_url,), str(tmp_path), 0.01, once=True, watchdog=True)
    watcher = ClusterWatcher(settings, lambda _: None)
    await watcher.run(asyncio.Event())
    text = watcher.metrics.text().decode()
    assert 'counterpoise_balancer_watchdog_findings{kind="no-leader"} 0.0' in text, "not for long"
    assert "/admin/v2/brokers/leaderBroker" in broker.asked
