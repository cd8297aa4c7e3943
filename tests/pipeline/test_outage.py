"""The service that holds a history goes away, and comes back."""

import asyncio
from collections.abc import Iterator

import pytest

from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.history.layout import files
from counterpoise.pipeline.history.lease import LeaseOptions
from counterpoise.pipeline.history.store import open_store
from counterpoise.pipeline.tables.faults import HistoryFaultError, OutageError, fault_from_spark
from counterpoise.pipeline.tables.outage import through_outages
from counterpoise.pipeline.watch.watcher import ClusterWatcher, WatchSettings
from tests.pipeline.fake_cluster import FakeCluster, bundle_name
from tests.pipeline.s3_server import Bucket, bucket

NO_PAUSE = (0.01,)
SHORT = LeaseOptions(lasts_s=3.0, holds_s=2.0, renew_every_s=0.5)


class Keeper:
    """One that ends as it is told to."""

    def __init__(self, end: Exception | None, *, under_way: bool) -> None:
        self.end = end
        self.is_under_way = under_way
        self.runs = 0

    async def run(self, stop: asyncio.Event) -> None:
        assert not stop.is_set()
        self.runs += 1
        if self.end is not None:
            raise self.end


async def played(first: Keeper, *others: Keeper) -> list[str]:
    told: list[str] = []
    makes = iter(others)
    await through_outages(first, lambda: next(makes), asyncio.Event(), told.append, NO_PAUSE)
    assert {one.runs for one in (first, *others)} == {1}
    return told


async def test_who_was_under_way_is_begun_anew_until_the_outage_is_over() -> None:
    away = OutageError("the store is away")
    told = await played(
        Keeper(away, under_way=True), Keeper(away, under_way=False), Keeper(None, under_way=True)
    )
    assert told == ["an outage: the store is away (by itself it is tried again in 0.01 s)"] * 2


async def test_what_never_was_there_may_be_a_wrong_address() -> None:
    with pytest.raises(OutageError):
        await played(Keeper(OutageError("away"), under_way=False))


async def test_what_is_no_outage_is_not_waited_for() -> None:
    with pytest.raises(HistoryFaultError, match="taken"):
        await played(Keeper(HistoryFaultError("another has taken it over"), under_way=True))


async def test_who_is_told_to_stop_waits_for_no_outage() -> None:
    stop, told = asyncio.Event(), asyncio.Event()
    first = Keeper(OutageError("away"), under_way=True)

    def tell(_: str) -> None:
        told.set()

    never = through_outages(first, lambda: first, stop, tell, (3600.0,))
    going = asyncio.create_task(never)
    async with asyncio.timeout(10):
        await told.wait()
        stop.set()
        await going
    assert first.runs == 1


def test_an_outage_that_spark_tells_of_is_one() -> None:
    told = "Traceback:\n counterpoise.pipeline.tables.faults.OutageError: s3://b is away\n at x"
    fault = fault_from_spark(told)
    assert type(fault) is OutageError
    assert str(fault) == "s3://b is away"
    other = fault_from_spark(told.replace("OutageError", "HistoryFaultError"))
    assert type(other) is HistoryFaultError


@pytest.fixture
def endpoint() -> Iterator[Bucket]:
    with bucket() as made:
        yield made


async def test_a_watch_goes_on_when_its_store_is_back(
    cluster: FakeCluster, endpoint: Bucket
) -> None:
    cluster.carry(await cluster.add_broker(), bundle_name(0), 1000.0)
    uri, stop = endpoint.uri("watched"), asyncio.Event()
    kept: asyncio.Queue[int] = asyncio.Queue()
    said: asyncio.Queue[str] = asyncio.Queue()

    async def after(rows: ReportRows) -> None:
        cluster.report_time += 1
        kept.put_nowait(int(rows["poll_id"][0]))

    def made(lease: LeaseOptions) -> ClusterWatcher:
        settings = WatchSettings((cluster.admin_url,), uri, poll_every_s=0.05, lease=lease)
        return ClusterWatcher(settings, said.put_nowait, after)

    again = SHORT.after_an_outage()
    watching = asyncio.create_task(
        through_outages(made(SHORT), lambda: made(again), stop, said.put_nowait, NO_PAUSE)
    )
    async with asyncio.timeout(90):
        before = [await kept.get() for _ in range(3)]
        endpoint.away = True
        while not (await said.get()).startswith("an outage: "):
            pass
        endpoint.away = False
        while not kept.empty():
            before.append(kept.get_nowait())
        later = await kept.get()
        stop.set()
        await watching
    landed = files(open_store(uri), "reports")
    assert later > max(before)
    assert [name for name in landed if str(later) in name]
    assert all(any(str(poll) in name for name in landed) for poll in before), "nothing is lost"
