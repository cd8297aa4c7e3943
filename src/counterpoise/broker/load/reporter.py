"""Measures load regularly, and publishes the report when it has changed enough."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.load.change import needs_update
from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.broker.load.counters import BundleRates, TopicCount
from counterpoise.broker.load.host import HostUsage
from counterpoise.load.report import LocalBrokerData
from counterpoise.metadata import MetadataError

log = logging.getLogger(__name__)

RETRY_S: Final = 0.5
"""Seconds before the next attempt to write a report that could not be written."""


class LoadReporter:
    """Measures one broker's load at intervals, and publishes the report; `last` returns it."""

    def __init__(
        self,
        blank: LocalBrokerData,
        *,
        rates: BundleRates,
        counts: Callable[[], Iterable[TopicCount]],
        bundles: Callable[[], Iterable[str]],
        host: HostUsage,
        publish: Callable[[LocalBrokerData], Awaitable[None]],
        config: Callable[[], LoadReportConfig],
        background: BackgroundTasks,
        publishes: bool = True,
    ) -> None:
        """``blank``: a report with this broker's addresses, without measurements. ``counts`` reads
        the counters of every loaded topic, ``bundles`` names the owned bundles; ``publish`` writes
        a report to where brokers read it.

        ``publishes``: whether changes are published. Otherwise only the registration is published,
        and measurements serve the broker's own admin API and metrics.
        """
        self._publishes = publishes
        self._counts = counts
        self._bundles = bundles
        self._host = host
        self._publish = publish
        self._config = config
        self._background = background
        self._rates = rates
        self._written: LocalBrokerData | None = None
        self._wanted = asyncio.Event()
        self._measuring = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.report = blank

    async def start(self) -> None:
        """Publish a first report, which registers the broker; then continue at intervals."""
        await self.measure()
        await self.publish()
        self._task = self._background.keep("the load report", self._run)

    async def stop(self) -> None:
        """Stop measuring and publishing."""
        task = self.kill()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    def kill(self) -> asyncio.Task[None] | None:
        """Stop at once, without waiting for the report under way."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task

    async def measure(self) -> LocalBrokerData:
        """Measure the load now; other tasks run meanwhile, however many topics there are."""
        async with self._measuring:
            now = time.monotonic()
            taking = self._rates.taking(self._counts(), self._bundles(), now)
            while True:
                try:
                    next(taking)
                except StopIteration as end:
                    stats = end.value
                    break
                await asyncio.sleep(0)
            self.report = self.report.updated(self._host.measure(now), stats, _now_ms())
            return self.report

    def last(self) -> LocalBrokerData:
        """The report of the last measurement, published or not."""
        return self.report

    async def publish(self) -> None:
        """Publish the last measurement; raises `StoreUnavailable`."""
        report = self.report
        await self._publish(report)
        self._written = report
        if self.report is report:
            self.report = report.without_deltas()

    async def refresh(self, *, force: bool = False) -> None:
        """Measure, and publish the measurement if it changed enough or if ``force``."""
        report = await self.measure()
        written = self._written
        if not force and written is not None:
            changed = needs_update(written, report, _now_ms(), self._config())
            if not (self._publishes and changed):
                return
        await self.publish()

    def write_soon(self) -> None:
        """Publish the report in the background now, since its node may be gone."""
        self._wanted.set()

    async def _run(self) -> None:
        owed = failed = False
        while True:
            pause_s = RETRY_S if failed else self._config().min_interval_ms / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wanted.wait()
            owed = owed or self._wanted.is_set()
            # Cleared before the write: a session that begins meanwhile needs a report of its own.
            self._wanted.clear()
            try:
                await self.refresh(force=owed)
            except MetadataError as error:
                log.warning("the load report was not written: %s", error)
                failed = True
            else:
                owed = failed = False


def _now_ms() -> int:
    return int(time.time() * 1000)
