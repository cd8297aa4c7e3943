"""When a broker's load report is written: it is what makes the broker known to the others."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.load import BundleRates
from counterpoise.broker.load import reporter as module
from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.broker.load.registry import read_report, write_report
from counterpoise.broker.load.reporter import LoadReporter
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats, SystemResourceUsage
from counterpoise.metadata import VALUE_BYTES_MAX, StoreUnavailable
from tests.quota.jumping import on_jumping_loop, pass_time
from tests.waiting import WITHIN_S


class Host:
    def measure(self, now_s: float) -> SystemResourceUsage:
        del now_s
        return SystemResourceUsage()


class Registrations:
    """Where reports are written; each write waits until the test says how it ends."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()

    async def publish(self, report: LocalBrokerData) -> None:
        del report
        end = asyncio.get_running_loop().create_future()
        self.begun.put_nowait(end)
        await end

    async def next(self) -> asyncio.Future[None]:
        async with asyncio.timeout(WITHIN_S):
            return await self.begun.get()


@pytest.fixture
async def written() -> Registrations:
    return Registrations()


@pytest.fixture
async def reporter(written: Registrations) -> AsyncIterator[LoadReporter]:
    background = BackgroundTasks()
    made = LoadReporter(
        LocalBrokerData(),
        rates=BundleRates(),
        counts=lambda: (),
        bundles=lambda: (),
        host=Host(),
        publish=written.publish,
        # Nothing is written because of what it says, nor because of its age.
        config=lambda: LoadReportConfig(min_interval_ms=3_600_000),
        background=background,
    )
    starting = asyncio.create_task(made.start())
    (await written.next()).set_result(None)
    await starting
    yield made
    await background.stop()


async def test_a_session_that_begins_during_a_write_has_a_registration_of_its_own(
    reporter: LoadReporter, written: Registrations
) -> None:
    reporter.write_soon()
    first = await written.next()
    reporter.write_soon()
    first.set_result(None)
    (await written.next()).set_result(None)


async def test_a_session_that_begins_after_a_failed_write_is_not_kept_waiting(
    reporter: LoadReporter, written: Registrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 3600.0)
    reporter.write_soon()
    failing = await written.next()
    failing.set_exception(StoreUnavailable("put", "SessionExpiredError"))
    # It has failed before it hears of the new session.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    reporter.write_soon()
    (await written.next()).set_result(None)


async def test_what_was_asked_for_is_written_when_the_store_is_back(
    reporter: LoadReporter, written: Registrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    reporter.write_soon()
    (await written.next()).set_exception(StoreUnavailable("put", "ConnectionLoss"))
    (await written.next()).set_result(None)


@on_jumping_loop
async def test_after_failed_writes_the_load_is_measured_at_its_interval_again() -> None:
    measured: list[float] = []
    failures = [False, True, True, False, True, False]
    now, background = asyncio.get_running_loop().time, BackgroundTasks()

    class Clocked(Host):
        def measure(self, now_s: float) -> SystemResourceUsage:
            measured.append(now())
            return super().measure(now_s)

    async def publish(report: LocalBrokerData) -> None:
        del report
        if failures.pop(0):
            raise StoreUnavailable("put", "ConnectionLoss")

    reporter = LoadReporter(
        LocalBrokerData(),
        rates=BundleRates(),
        counts=lambda: (),
        bundles=lambda: (),
        host=Clocked(),
        publish=publish,
        config=lambda: LoadReportConfig(min_interval_ms=10_000),
        background=background,
    )
    await reporter.start()
    reporter.write_soon()
    await pass_time(32)
    reporter.write_soon()
    await pass_time(12)
    await reporter.stop()
    assert measured == pytest.approx([0, 0, 0.5, 1, 11, 21, 31, 32, 32.5, 42.5])
    assert failures == []
    await background.stop()


async def test_what_was_measured_during_a_write_is_not_lost(
    reporter: LoadReporter, written: Registrations
) -> None:
    writing = asyncio.create_task(reporter.refresh(force=True))
    end = await written.next()
    newer = await reporter.measure()
    end.set_result(None)
    await writing
    assert reporter.last() is newer


def test_a_report_of_more_bundles_than_the_store_takes_has_the_busiest() -> None:
    """ZooKeeper hangs up on who sends more, and the broker's session would end over it."""
    rates = [number * 7 % 9_000 for number in range(9_000)]
    # The busiest have the longest names, so that there is room for fewer than the mean says.
    names = [
        f"public/{'long' * 90 if rate > 8_000 else 'short'}/0x{number:08x}_0x{number + 1:08x}"
        for number, rate in enumerate(rates)
    ]
    loads = {
        name: NamespaceBundleStats(msg_throughput_in=rate, msg_throughput_out=1.5)
        for name, rate in zip(names, rates, strict=True)
    }
    whole = LocalBrokerData().updated(SystemResourceUsage(), loads, 1)
    written = write_report(whole)
    assert 0.8 * VALUE_BYTES_MAX < len(written) <= VALUE_BYTES_MAX
    read = read_report(written)
    kept = {*read.last_stats}
    assert {*read.bundles} == kept
    assert min(loads[name].msg_throughput_in for name in kept) > max(
        loads[name].msg_throughput_in for name in names if name not in kept
    )
    assert all(read.last_stats[name] == loads[name] for name in kept)
    assert (read.num_bundles, read.msg_throughput_in) == (9_000, whole.msg_throughput_in)


def test_a_report_that_the_store_takes_is_written_whole() -> None:
    loads = {f"public/default/0x{n:08x}_0x{n + 1:08x}": NamespaceBundleStats() for n in range(900)}
    whole = LocalBrokerData().updated(SystemResourceUsage(), loads, 1)
    assert read_report(write_report(whole)) == whole
