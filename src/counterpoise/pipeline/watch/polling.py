"""Polls a cluster repeatedly: stores the rows, logs changes, counts polls."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta

from counterpoise.load.rows import ReportRows
from counterpoise.names.callbacks import MillisecondClock, SentenceSink
from counterpoise.pipeline.clock import CLOCKS_DIFFER_MS, wall_clock_ms
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.poll_log import PollLog
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.ownership import BundleOwners
from counterpoise.pipeline.tables.reports import land
from counterpoise.pipeline.watch.changes import Changes
from counterpoise.pipeline.watch.metrics import Metrics
from counterpoise.pipeline.watchdog.watchdog import Watchdog

SLOW_AFTER_S = 10.0
"""After how many seconds the slow writing of a poll is logged."""


class Polling:
    """Stores one cluster's polls in one history, and logs what changed."""

    def __init__(
        self,
        collector: Collector,
        writer: TablesWriter,
        log: SentenceSink,
        metrics: Metrics,
        watchdog: Watchdog | None = None,
        clock_ms: MillisecondClock = wall_clock_ms,
    ) -> None:
        self._clock_ms = clock_ms
        self._log = log
        self._behind = False
        self._watchdog = watchdog
        self._collector = collector
        self._writer = writer
        self._address = writer.location.address
        self._seen = PollLog(log)
        self._changes = Changes(log)
        self._metrics = metrics
        self._owners: BundleOwners | None = None

    async def poll(self) -> ReportRows:
        """Poll the cluster once and store the result; raises `HistoryFaultError`."""
        rows = await self._collector.poll()
        await self._patiently(asyncio.to_thread(self._keep, rows))
        self._mind_the_clock(int(rows["poll_id"][0]))
        self._seen.log_poll(rows)
        await asyncio.to_thread(self._changes.log_poll, rows)
        self._metrics.polled(rows, self._changes)
        if self._watchdog is not None:
            await self._watchdog.judge_poll(rows)
        return rows

    async def _patiently(self, keeping: Coroutine[None, None, None]) -> None:
        """Wait until a poll is stored, and log if that takes longer than `SLOW_AFTER_S`."""
        task = asyncio.create_task(keeping)
        began = asyncio.get_running_loop().time()
        slow = not (await asyncio.wait({task}, timeout=SLOW_AFTER_S))[0]
        if slow:
            self._log(
                f"{self._address} has not taken what was seen for {SLOW_AFTER_S:g} s: it is "
                "tried again for some minutes, and nothing is decided meanwhile"
            )
        await task
        if slow:
            took = asyncio.get_running_loop().time() - began
            self._log(f"{self._address} has taken it after {took:.0f} s")

    def _mind_the_clock(self, poll_id: int) -> None:
        """Log once if this machine's clock is behind the newest poll, and once when it is not.

        No round is made until the clock has passed that poll.
        """
        behind_ms = poll_id - self._clock_ms()
        behind = behind_ms > CLOCKS_DIFFER_MS
        if behind and not self._behind:
            self._log(
                f"this machine's clock is {timedelta(seconds=behind_ms // 1000)} behind the newest "
                f"poll of {self._address}, and no round is made before it has passed that: "
                "set the clock; or, if it was ahead then, stop and `counterpoise history repair "
                f"{self._address}`, which sets aside what is dated in the future"
            )
        elif self._behind and not behind:
            self._log("this machine's clock has passed the newest poll: rounds are made again")
        self._behind = behind

    def _keep(self, rows: ReportRows) -> None:
        if self._owners is None:
            self._owners = BundleOwners.of(self._writer)
        self._owners.land(self._writer, [rows.columns])
        land(self._writer, rows)
