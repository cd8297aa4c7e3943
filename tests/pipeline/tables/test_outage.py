"""The service that holds a history goes away, and comes back."""

import asyncio
import errno

import pytest

from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.tables.faults import (
    HistoryFaultError,
    OutageError,
    OutOfReachError,
    fault_from_spark,
    unreadable,
    unwritable,
)
from counterpoise.pipeline.tables.heartbeat import HeartbeatOptions
from counterpoise.pipeline.tables.outage import through_outages
from counterpoise.pipeline.tables.schema import REPORTS
from counterpoise.pipeline.watch.history_keeper import ClusterWatcher, WatchSettings
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.histories import reader_of
from tests.pipeline.s3_server import Bucket

NO_PAUSE = (0.01,)
SHORT = HeartbeatOptions(lasts_s=3.0, renew_every_s=0.5)


class Keeper:
    """A keeper whose run ends in a given way."""

    def __init__(self, end: Exception | None, *, under_way: bool) -> None:
        self.end = end
        self.is_under_way = under_way
        self.runs = 0

    async def run(self, stop: asyncio.Event) -> None:
        assert not stop.is_set()
        self.runs += 1
        if self.end is not None:
            raise self.end


async def played(
    first: Keeper, *others: Keeper, pauses_s: tuple[float, ...] = NO_PAUSE
) -> list[str]:
    logged: list[str] = []
    makes = iter(others)
    await through_outages(first, lambda: next(makes), asyncio.Event(), logged.append, pauses_s)
    assert {one.runs for one in (first, *others)} == {1}
    return logged


async def test_a_keeper_that_was_under_way_is_begun_again_until_the_outage_is_over() -> None:
    away = OutageError("the store is away")
    logged = await played(
        Keeper(away, under_way=True), Keeper(away, under_way=False), Keeper(None, under_way=True)
    )
    assert logged == ["an outage: the store is away (by itself it is tried again in 0.01 s)"] * 2


async def test_pauses_grow_to_the_longest_until_something_was_kept_again() -> None:
    away = OutageError("away")
    kept = [True, False, False, False, True, False]
    keepers = [Keeper(away, under_way=each) for each in kept]
    logged = await played(*keepers, Keeper(None, under_way=True), pauses_s=(0.01, 0.02, 0.03))
    assert [each.rpartition("again in ")[2] for each in logged] == [
        "0.01 s)", "0.02 s)", "0.03 s)", "0.03 s)", "0.01 s)", "0.02 s)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "the disk is full: make room"),
        (errno.EDQUOT, "the quota is used up"),
        (errno.EROFS, "it is read-only"),
        (errno.EACCES, "permission denied"),
        (errno.EFBIG, "a limit on the size of files (ulimit -f)"),
    ],
)
def test_what_cannot_be_written_says_what_would_help(number: int, remedy: str) -> None:
    """Told by the operating system, or by delta-rs in its text."""
    of_delta = OSError(f"Generic LocalFileSystem error: x (os error {number})")
    for error in (OSError(number, "x"), of_delta):
        assert f"u cannot be written, {remedy}" in str(unwritable("u", error))


async def test_what_never_was_there_may_be_a_wrong_address() -> None:
    with pytest.raises(OutageError):
        await played(Keeper(OutageError("away"), under_way=False))


async def test_what_is_no_outage_is_not_waited_for() -> None:
    with pytest.raises(HistoryFaultError, match="taken"):
        await played(Keeper(HistoryFaultError("another has taken it over"), under_way=True))


async def test_a_keeper_that_is_stopped_waits_for_no_outage() -> None:
    stop, logged = asyncio.Event(), asyncio.Event()
    first = Keeper(OutageError("away"), under_way=True)

    def log(_: str) -> None:
        logged.set()

    never = through_outages(first, lambda: first, stop, log, (3600.0,))
    going = asyncio.create_task(never)
    async with asyncio.timeout(60):
        await logged.wait()
        stop.set()
        await going
    assert first.runs == 1


def test_an_outage_in_a_message_of_spark_is_one() -> None:
    logged = "Traceback:\n counterpoise.pipeline.tables.faults.OutageError: s3://b is away\n at x"
    fault = fault_from_spark(logged)
    assert type(fault) is OutageError
    assert str(fault) == "s3://b is away"
    other = fault_from_spark(logged.replace("OutageError", "HistoryFaultError"))
    assert type(other) is HistoryFaultError


def test_an_answer_that_stops_halfway_is_an_outage() -> None:
    """What delta-rs says when the body of an answer does not come, without any retry.

    It colours its causes, of which an operator is given the innermost.
    """
    said = "Kernel error -> Generic S3 error\n ↳ HTTP error\n  {} operation timed out"
    for mark in ("↳", "\x1b[31m↳\x1b[0m"):
        fault = unreadable("s3://b/reports", OSError(said.format(mark)))
        assert type(fault) is OutageError
        assert "(Kernel error -> Generic S3 error: operation timed out): see" in str(fault)
    refused = OSError("Kernel error -> Generic S3 error\n ↳ HTTP error\n ↳ 403 Forbidden")
    assert type(unreadable("s3://b/reports", refused)) is OutOfReachError


async def test_a_watch_goes_on_when_its_store_is_back(cluster: FakeCluster, s3: Bucket) -> None:
    cluster.carry(await cluster.add_broker(), bundle_name(0), 1000.0)
    uri, stop = s3.uri("watched"), asyncio.Event()
    kept: asyncio.Queue[int] = asyncio.Queue()
    said: asyncio.Queue[str] = asyncio.Queue()

    async def after(rows: ReportRows) -> None:
        cluster.report_time += 1
        kept.put_nowait(int(rows["poll_id"][0]))

    def made(heartbeat: HeartbeatOptions) -> ClusterWatcher:
        settings = WatchSettings((cluster.admin_url,), uri, poll_every_s=0.05, heartbeat=heartbeat)
        return ClusterWatcher(settings, said.put_nowait, after)

    again = SHORT.after_an_outage()
    watching = asyncio.create_task(
        through_outages(made(SHORT), lambda: made(again), stop, said.put_nowait, NO_PAUSE)
    )
    async with asyncio.timeout(200):
        before = [await kept.get() for _ in range(3)]
        s3.away = True
        while not (await said.get()).startswith("an outage: "):
            pass
        s3.away = False
        while not kept.empty():
            before.append(kept.get_nowait())
        later = await kept.get()
        stop.set()
        await watching
    landed = [each.last_poll for each in reader_of(uri).files(REPORTS)]
    assert later > max(before)
    assert {later, *before} <= {*landed}, "nothing is lost"
    assert len(landed) == len(set(landed)), "and nothing is there twice"
