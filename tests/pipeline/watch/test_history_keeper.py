"""What a watcher and a balancer have in common: whatever ends one is reported, nothing is left."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpoise.decide.watchdog.observation import WatchdogMemory
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.notify.webhook import NotifyOptions
from counterpoise.pipeline.tables.control import Control, Wish, write_control
from counterpoise.pipeline.tables.faults import SupersededError
from counterpoise.pipeline.tables.heartbeat import HeartbeatOptions
from counterpoise.pipeline.tables.history import TablesWriter, take_over
from counterpoise.pipeline.tables.keeping import KeepingOptions
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.plain_files import read_plain, write_plain
from counterpoise.pipeline.tables.reports import land, newest_poll
from counterpoise.pipeline.tables.schema import REPORTS
from counterpoise.pipeline.watch.history_keeper import (
    ClusterWatcher,
    NothingSeenError,
    WatchSettings,
)
from counterpoise.pipeline.watchdog import watchdog as watchdog_module
from counterpoise.security.client import ClientSecurity
from counterpoise.security.options import ClientOptions
from tests.load.story import START, poll
from tests.pipeline.fake_cluster import FakeBroker, FakeCluster
from tests.pipeline.histories import reader_of, writer_of
from tests.pipeline.notify.hook_server import HookServer, hooked
from tests.pipeline.watchdog.test_alerts import unowned
from tests.waiting import found, until

LONG_S = 3600.0
Then = Callable[[int], Any]


class Watch:
    """A watcher of one broker with all that a keeper has: what it says, serves and reports."""

    def __init__(self, broker: FakeBroker, folder: Path, hook: HookServer) -> None:
        self.broker, self.location, self.hook = broker, open_location(folder), hook
        self.settings = WatchSettings(
            (f"http://{broker.name}",),
            str(folder),
            LONG_S,
            metrics=("127.0.0.1", 0),
            notify=NotifyOptions(hook.url),
            heartbeat=HeartbeatOptions(renew_every_s=0.01),
        )
        self.said: list[str] = []
        self.stop = asyncio.Event()
        self.polls: list[int] = []

    async def run(self, then: Then, **changed: Any) -> ClusterWatcher:
        """Watch until what comes `then`, after each poll, ends it."""

        async def after(rows: Any) -> None:
            self.polls.append(int(rows["poll_id"][0]))
            if asyncio.iscoroutine(waits := then(len(self.polls))):
                await waits

        settings = replace(self.settings, **changed)
        watcher = ClusterWatcher(settings, self.said.append, after)
        try:
            await watcher.run(self.stop)
        finally:
            self.figures = watcher.metrics.text().decode()
        return watcher

    def until_two(self, polls: int) -> None:
        """Ends it after its second poll."""
        if polls == 2:
            self.stop.set()

    def notices(self) -> list[tuple[str, str]]:
        """The severity and the sentence of each."""
        bodies = map(json.loads, self.hook.bodies)
        return [(each["severity"], each["sentence"]) for each in bodies]


@pytest.fixture
async def watch(cluster: FakeCluster, tmp_path: Path) -> AsyncIterator[Watch]:
    async with hooked() as server:
        yield Watch(await cluster.add_broker(), tmp_path, server)


async def followed(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer takes the history over, and the first one's heart notices."""
    noticed, loop, held = asyncio.Event(), asyncio.get_running_loop(), TablesWriter.expect_held

    def expect_held(writer: TablesWriter) -> None:
        try:
            held(writer)
        except SupersededError:
            loop.call_soon_threadsafe(noticed.set)
            raise

    monkeypatch.setattr(TablesWriter, "expect_held", expect_held)
    take_over(watch.location)
    heartbeat = json.loads(read_plain(watch.location, "writer") or b"")
    others = json.dumps({**heartbeat, "writer": "another"}).encode()

    async def beats() -> bool:
        write_plain(watch.location, "writer", others)
        return noticed.is_set()

    await found(beats, "the first one notices")
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("end", ["asked", "ordered", "followed", "fault", "nameless fault"])
async def test_whatever_ends_it_is_reported_at_once_and_leaves_nothing_behind(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    async def then(_: int) -> None:
        match end:
            case "asked":
                watch.stop.set()
            case "ordered":
                write_control(watch.location, Control(Wish.STOP, wall_clock_ms() + 1))
            case "followed":
                await followed(watch, monkeypatch)
            case _:
                raise ZeroDivisionError("half a reason" if end == "fault" else "")

    by_itself = {
        "followed": (SupersededError, "another balancer has taken .* over"),
        "fault": (ZeroDivisionError, "half a reason"),
        "nameless fault": (ZeroDivisionError, "^$"),
    }
    async with asyncio.timeout(100):
        if kind := by_itself.get(end):
            with pytest.raises(kind[0], match=kind[1]) as raised:
                await watch.run(then)
            expected = ("critical", str(raised.value) or "ZeroDivisionError")
        else:
            await watch.run(then)
            expected = ("info", "it was asked to")
    assert watch.notices() == [(expected[0], f"the balancer has ended: {expected[1]}")]
    assert 'notices_total{fate="sent"} 1.0' in watch.figures
    assert ("stopped by `counterpoise control`" in watch.said) == (end == "ordered")
    heartbeat = read_plain(watch.location, "writer")
    assert (b"another" in heartbeat) if heartbeat else end != "followed"
    [port] = [int(each.rpartition(" ")[2]) for each in watch.said if "metrics on port" in each]
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    server = watch.broker.runner.server
    assert server is not None
    await until(lambda: not server.connections, "the cluster's connections end")


async def test_a_single_look_ends_without_a_notice_and_shows_its_credentials(watch: Watch) -> None:
    token = ClientOptions(plugin="token", parameters="token:s3cret")
    one_look = {"once": True, "security": ClientSecurity(token)}
    assert (await watch.run(lambda _: None, **one_look)).is_under_way
    assert watch.notices() == []
    assert watch.broker.shown == {"Bearer s3cret"}
    watch.broker.silent = True
    with pytest.raises(NothingSeenError, match="HTTP 503"):
        await watch.run(lambda _: None, **one_look)
    assert [severity for severity, _ in watch.notices()] == ["critical"]
    assert newest_poll(reader_of(watch.location.root)) == watch.polls[-1], "it is kept"


async def test_it_goes_on_behind_the_newest_poll_and_heeds_no_order_from_before_its_start(
    watch: Watch,
) -> None:
    """The clock was ahead when that poll was kept: none is landed twice, and none before it."""
    ahead = (wall_clock_ms() - START) // 5000 + 1000
    land(writer_of(watch.location.root), poll(ahead, {"b1:80": {}}))
    newest = newest_poll(reader_of(watch.location.root))
    write_control(watch.location, Control(Wish.STOP, wall_clock_ms() - 1))
    await watch.run(watch.until_two, poll_every_s=0.01)
    assert watch.polls == [newest + 1, newest + 2]


async def test_brokers_are_asked_for_the_loads_of_their_topics(
    watch: Watch, cluster: FakeCluster
) -> None:
    def then(polls: int) -> None:
        cluster.carry(watch.broker, "public/default/0x00000000_0x40000000", 100.0 * polls)
        if "/admin/v2/broker-stats/topics" in watch.broker.asked:
            watch.stop.set()

    async with asyncio.timeout(100):
        await watch.run(then, poll_every_s=0.01)


async def test_files_are_compacted_as_the_settings_say(watch: Watch) -> None:
    reader = reader_of(watch.location.root)

    def then(polls: int) -> None:
        if len(reader.files(REPORTS)) < polls:
            watch.stop.set()

    options = KeepingOptions(look_every=2, compact_from=2)
    async with asyncio.timeout(100):
        await watch.run(then, poll_every_s=0.01, keeping=options)


async def test_what_a_watchdog_beside_it_finds_is_counted_and_notified_of(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = unowned("t/n/0x0_0x1")
    monkeypatch.setattr(watchdog_module, "judge", lambda *_: ((finding,), WatchdogMemory()))
    await watch.run(watch.until_two, poll_every_s=0.01, watchdog=True)
    assert watch.notices()[:-1] == [("critical", finding.sentence)], "once, for both looks"
    assert 'watchdog_findings{kind="no-owner"} 1.0' in watch.figures
