"""A second writer does not start by mistake; one whose heartbeat is old is taken over from."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.tables import heartbeat
from counterpoise.pipeline.tables.faults import (
    HistoryFaultError,
    HistoryInUseError,
    SupersededError,
)
from counterpoise.pipeline.tables.heartbeat import HeartbeatOptions, writing
from counterpoise.pipeline.tables.history import take_over
from counterpoise.pipeline.tables.location import Location, open_location
from counterpoise.pipeline.tables.plain_files import read_plain, write_plain
from counterpoise.pipeline.tables.reports import land
from tests.load.story import poll

QUICK = HeartbeatOptions(lasts_s=20.0, renew_every_s=0.1)


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return open_location(tmp_path)


def left(location: Location, **other: object) -> None:
    """What a writer of another machine left."""
    said = {
        "writer": "w", "host": "elsewhere", "machine": "elsewhere", "process": 1, "started": 1.0,
        "at_ms": wall_clock_ms(), "lasts_s": 0.3,
    }  # fmt: skip
    Path(location.where("writer")).write_text(json.dumps({**said, **other}))


async def test_a_second_writer_is_refused_while_one_is_alive(location: Location) -> None:
    async with writing(location, QUICK) as writer:
        with pytest.raises(HistoryInUseError, match=rf"process {os.getpid()}.*writes .*stop it"):
            async with writing(location, QUICK):
                pass
        writer.expect_held()
    async with writing(location, QUICK):
        pass


async def test_one_that_waits_gets_it_when_the_other_ends(location: Location) -> None:
    waits = HeartbeatOptions(lasts_s=5.0, renew_every_s=0.2, wait_s=30.0)
    async with writing(location, QUICK):
        second = asyncio.create_task(_epoch(location, waits))
        assert not (await asyncio.wait({second}, timeout=0.5))[0]
    assert await second == 2


async def _epoch(location: Location, options: HeartbeatOptions) -> int:
    async with writing(location, options) as writer:
        return writer.epoch


async def test_a_writer_that_ends_leaves_the_heartbeat_of_the_one_that_followed_it(
    location: Location,
) -> None:
    async with writing(location):
        left(location, writer="the next one")
    found = read_plain(location, "writer")
    assert found is not None
    assert json.loads(found)["writer"] == "the next one"


async def test_a_process_of_this_machine_that_is_gone_is_not_waited_for(location: Location) -> None:
    script = (
        "import asyncio, os, sys\n"
        "from counterpoise.pipeline.tables.heartbeat import HeartbeatOptions, writing\n"
        "from counterpoise.pipeline.tables.location import open_location\n"
        "async def run():\n"
        "    options = HeartbeatOptions(lasts_s=3600.0)\n"
        "    async with writing(open_location(sys.argv[1]), options):\n"
        "        os.kill(os.getpid(), 9)\n"
        "asyncio.run(run())\n"
    )
    command = [sys.executable, "-c", script, location.address]
    assert (await asyncio.to_thread(subprocess.run, command, check=False)).returncode == -9
    assert await _epoch(location, QUICK) == 2


@pytest.mark.parametrize(
    ("change", "is_alive"),
    [
        ({}, True),
        ({"at_ms": wall_clock_ms() - 3_000_000, "lasts_s": 6000.0}, True),
        ({"at_ms": wall_clock_ms() - 3_000_000, "lasts_s": 60.0}, False),
        # The number of a process that ended is another's by now.
        ({"started": 1.0}, False),
    ],
)
async def test_a_heartbeat_of_this_machine_counts_for_as_long_as_it_says_while_its_process_lives(
    location: Location, change: dict[str, float], is_alive: bool
) -> None:
    async with writing(location, QUICK):
        said = json.loads(read_plain(location, "writer") or b"")
    assert read_plain(location, "writer") is None, "one that ended is not waited for"
    left(location, **{**said, "at_ms": wall_clock_ms(), **change})
    if not is_alive:
        assert await _epoch(location, QUICK) == 2
        return
    with pytest.raises(HistoryInUseError, match=f"process {os.getpid()}"):
        await _epoch(location, QUICK)


async def test_a_heartbeat_is_renewed_after_its_store_was_away(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried ten times as often until then, and no longer."""
    beats, back, pauses = 0, asyncio.Event(), list[float]()
    loop, sleep = asyncio.get_running_loop(), asyncio.sleep

    def beat(*of: object) -> None:
        nonlocal beats
        beats += 1
        if 1 < beats < 4:
            raise HistoryFaultError("away")
        write_plain(*of)  # type: ignore[arg-type]
        if beats > 4:
            loop.call_soon_threadsafe(back.set)

    async def pausing(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(heartbeat, "write_plain", beat)
    monkeypatch.setattr(asyncio, "sleep", pausing)
    async with asyncio.timeout(60), writing(location, QUICK):
        await back.wait()
    assert pauses[:4] == pytest.approx([0.1, 0.01, 0.01, 0.1])


def test_after_an_outage_a_writer_waits_longer_than_its_own_heartbeat_counts() -> None:
    again = HeartbeatOptions(lasts_s=20.0, wait_s=5.0).after_an_outage()
    assert again.wait_s > again.lasts_s
    assert HeartbeatOptions(lasts_s=20.0, wait_s=90.0).after_an_outage().wait_s == 90.0


async def test_a_heartbeat_of_another_machine_counts_until_it_stays_the_same(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(location)
    assert await _epoch(location, QUICK) == 1
    number, read = 0, heartbeat.read_plain

    def renewed(*of: object) -> bytes | None:
        nonlocal number
        number += 1
        left(location, at_ms=number)
        return read(*of)  # type: ignore[arg-type]

    monkeypatch.setattr(heartbeat, "read_plain", renewed)
    with pytest.raises(HistoryInUseError, match="elsewhere, process 1"):
        await _epoch(location, QUICK)


@pytest.mark.parametrize("here", [True, False])
async def test_one_that_stood_still_while_it_waited_looks_whether_the_other_did_not(
    location: Location, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    """It would take a history over from a balancer that is alive."""
    async with writing(location, QUICK):
        mine = json.loads(read_plain(location, "writer") or b"")
    other = {**mine, "writer": "w"} if here else {}
    loop, ahead_s, sleep, wall_ms = asyncio.get_running_loop(), 0.0, asyncio.sleep, wall_clock_ms()
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + ahead_s)
    monkeypatch.setattr(heartbeat, "wall_clock_ms", lambda: wall_ms + round(1000 * ahead_s))

    def renew() -> None:
        left(location, **{**other, "at_ms": wall_ms + round(1000 * ahead_s)})

    async def standing_still(_: float) -> None:
        nonlocal ahead_s
        ahead_s += 3600.0
        renew()
        await sleep(0)

    renew()
    monkeypatch.setattr(asyncio, "sleep", standing_still)
    with pytest.raises(HistoryInUseError, match="process"):
        await _epoch(location, replace(QUICK, wait_s=7200.0))


async def test_each_renewal_of_another_machine_begins_its_time_again(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is renewed once a second for longer than it counts, and than is waited."""
    loop, ahead = asyncio.get_running_loop(), 0.0
    now, read = loop.time, heartbeat.read_plain
    monkeypatch.setattr(loop, "time", lambda: now() + ahead)

    def renewed(*of: object) -> bytes | None:
        nonlocal ahead
        ahead += 1.0
        left(location, at_ms=round(ahead), lasts_s=5.0)
        return read(*of)  # type: ignore[arg-type]

    monkeypatch.setattr(heartbeat, "read_plain", renewed)
    waits = HeartbeatOptions(lasts_s=5.0, renew_every_s=0.1, wait_s=7.0)
    with pytest.raises(HistoryInUseError, match="elsewhere, process 1"):
        await _epoch(location, waits)


@pytest.mark.parametrize("said", [b"", b"{", b"[1]", b'{"writer": 3}'])
def test_a_heartbeat_that_cannot_be_read_keeps_no_writer_away(
    location: Location, said: bytes
) -> None:
    Path(location.where("writer")).write_bytes(said)
    assert asyncio.run(_epoch(location, QUICK)) == 1


async def test_a_writer_that_stood_still_is_notified_and_refused(location: Location) -> None:
    lost = asyncio.Event()
    async with writing(location, QUICK, lost.set) as first:
        second = take_over(location)  # as if the first had stood still for long
        left(location, at_ms=0)
        async with asyncio.timeout(60):
            await lost.wait()
        with pytest.raises(SupersededError):
            land(first, poll(1, {"a:1": {}}))
        land(second, poll(1, {"a:1": {}}))


async def test_a_heartbeat_that_an_earlier_writer_wrote_late_ends_no_other(
    location: Location,
) -> None:
    """It stood still between reading and writing the file."""
    lost = asyncio.Event()
    async with writing(location, QUICK, lost.set) as writer:
        left(location)
        async with asyncio.timeout(60):
            while b'"w"' in (await asyncio.to_thread(read_plain, location, "writer") or b""):
                assert not lost.is_set()
        writer.expect_held()
    assert not lost.is_set()


@pytest.mark.parametrize("fault", [False, True])
@pytest.mark.parametrize("stands", ["wall_clock_ms", "write_plain"])
async def test_a_heartbeat_is_withdrawn_though_it_is_renewed_while_the_writer_ends(
    location: Location, monkeypatch: pytest.MonkeyPatch, stands: str, fault: bool
) -> None:
    """Its thread stands before it writes, or in it; whether a fault ends the writer or not."""
    calls, late, go_on = 0, asyncio.Event(), threading.Event()
    loop, real = asyncio.get_running_loop(), getattr(heartbeat, stands)

    def standing(*of: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            loop.call_soon_threadsafe(late.set)
            go_on.wait(60)
        return real(*of)

    monkeypatch.setattr(heartbeat, stands, standing)
    with contextlib.suppress(ZeroDivisionError):
        async with asyncio.timeout(60), writing(location, QUICK):
            await late.wait()
            if stands == "write_plain":
                loop.call_later(0.1, go_on.set)
            if fault:
                raise ZeroDivisionError
    go_on.set()
    await loop.shutdown_default_executor()
    assert read_plain(location, "writer") is None


@pytest.mark.parametrize("fault", [HistoryFaultError("an older layout"), SupersededError("gone")])
async def test_a_writer_that_cannot_take_a_history_over_leaves_no_heartbeat(
    location: Location, monkeypatch: pytest.MonkeyPatch, fault: HistoryFaultError
) -> None:
    def fails(_: Location) -> None:
        raise fault

    monkeypatch.setattr(heartbeat, "take_over", fails)
    with pytest.raises((HistoryFaultError, HistoryInUseError)):
        await _epoch(location, QUICK)
    assert read_plain(location, "writer") is None
