"""Looks at a cluster again and again: keeps what was seen, says what is new, counts it."""

import asyncio
from collections.abc import Callable

from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.told import Seen
from counterpoise.pipeline.history.ownership import Owners
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.watch.changes import Changes
from counterpoise.pipeline.watch.metrics import Metrics
from counterpoise.pipeline.watchdog.watchdog import Watchdog


class Polling:
    """One cluster's polls into one history; `tell` gets a sentence whenever something is new."""

    def __init__(
        self,
        collector: Collector,
        store: Store,
        tell: Callable[[str], None],
        metrics: Metrics,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._watchdog = watchdog
        self._collector = collector
        self._store = store
        self._seen = Seen(tell)
        self._changes = Changes(tell)
        self._metrics = metrics
        self._owners: Owners | None = None

    async def poll(self) -> ReportRows:
        """Look once, and keep what was seen; raises `HistoryFaultError`."""
        rows = await self._collector.poll()
        await asyncio.to_thread(self._keep, rows)
        self._seen.take(rows)
        await asyncio.to_thread(self._changes.take, rows)
        self._metrics.polled(rows, self._changes)
        if self._watchdog is not None:
            await self._watchdog.take(rows)
        return rows

    def _keep(self, rows: ReportRows) -> None:
        if self._owners is None:
            self._owners = Owners.of(self._store)
        self._owners.land(self._store, rows)
        land(self._store, rows)
