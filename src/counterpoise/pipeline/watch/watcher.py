"""Watch a cluster: collect and keep, decide nothing, move nothing. It needs no Spark."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from counterpoise.load.rows import ReportRows
from counterpoise.names.callbacks import SentenceSink
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.poll_log import trouble
from counterpoise.pipeline.tables.control import read_control
from counterpoise.pipeline.tables.faults import superseded
from counterpoise.pipeline.tables.heartbeat import HeartbeatOptions, writing
from counterpoise.pipeline.tables.keeping import Keeping, KeepingOptions
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import newest_poll
from counterpoise.pipeline.watch.metrics import Metrics
from counterpoise.pipeline.watch.polling import Polling
from counterpoise.pipeline.watch.serve import serving
from counterpoise.pipeline.watchdog.watchdog import guard
from counterpoise.security.client import ANONYMOUS, ClientSecurity, http_session


class NothingSeenError(RuntimeError):
    """The only look at the cluster showed no broker's load; the message says why."""


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """What a watcher needs to know."""

    addresses: tuple[str, ...]
    """Admin URLs of the cluster."""
    history: str
    poll_every_s: float = 5.0
    once: bool = False
    metrics: tuple[str, int] | None = None
    """Where `/metrics` and `/health` are served."""
    watchdog: bool = False
    """Whether each look is judged, too (`decide/watchdog/`)."""
    keeping: KeepingOptions = field(default_factory=KeepingOptions)
    heartbeat: HeartbeatOptions = field(default_factory=HeartbeatOptions)
    security: ClientSecurity = ANONYMOUS
    """Who we are to the cluster."""


class ClusterWatcher:
    """Keeps one history; `log` gets a sentence whenever something changed."""

    def __init__(
        self,
        settings: WatchSettings,
        log: SentenceSink,
        after_poll: Callable[[ReportRows], Awaitable[None]] | None = None,
    ) -> None:
        """`after_poll` hears of each poll that was kept."""
        self._settings = settings
        self._log = log
        self._after_poll = after_poll
        self._location = open_location(settings.history)
        self._lost = asyncio.Event()
        self._began_ms = wall_clock_ms()
        self.is_under_way = False
        """Whether anything was kept."""
        self.metrics = Metrics(wall_clock_ms, settings.poll_every_s)

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set.

        Raises `HistoryInUseError`, `HistoryFaultError`, `CannotListenError`, and `NothingSeenError`
        when one look is all there is and it saw nothing.
        """
        settings = self._settings
        async with contextlib.AsyncExitStack() as stack:
            held = writing(self._location, self._lost.set, settings.heartbeat)
            writer = await stack.enter_async_context(held)
            self._keeping = Keeping(writer, settings.keeping, self._log)
            port = await stack.enter_async_context(serving(self.metrics, settings.metrics))
            if port:
                self._log(f"metrics on port {port}")
            session = await stack.enter_async_context(http_session(settings.security))
            last = await asyncio.to_thread(newest_poll, writer)
            collector = Collector(session, settings.addresses, wall_clock_ms, after_poll=last)
            stack.callback(collector.close)
            watchdog = None
            if settings.watchdog:
                watchdog = guard(session, settings.addresses, self._log, self.metrics)
            polling = Polling(collector, writer, self._log, self.metrics, watchdog)
            await self._watch(polling, stop)

    async def _watch(self, polling: Polling, stop: asyncio.Event) -> None:
        while not stop.is_set():
            rows = await polling.poll()
            if self._after_poll is not None:
                await self._after_poll(rows)
            self.is_under_way = True
            self._keeping.folded(int(rows["poll_id"][0]))
            if self._settings.once:
                if reason := trouble(rows):
                    raise NothingSeenError(reason)
                return
            if self._lost.is_set():
                raise superseded(self._location.address)
            if (await asyncio.to_thread(read_control, self._location)).stops(self._began_ms):
                self._log("stopped by `counterpoise control`")
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self._settings.poll_every_s)
