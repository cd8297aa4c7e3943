"""A watcher, and what it shares with a balancer: each is the only writer of its history."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp

from counterpoise.load.rows import ReportRows
from counterpoise.names.callbacks import SentenceSink
from counterpoise.names.errors import ExplainedError
from counterpoise.pipeline.clock import HTTP_TIMEOUT_S, wall_clock_ms
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.poll_log import trouble
from counterpoise.pipeline.notify.notice import BalancerNotices, discard
from counterpoise.pipeline.notify.webhook import NotifyOptions, notifying
from counterpoise.pipeline.tables.control import read_control
from counterpoise.pipeline.tables.faults import superseded
from counterpoise.pipeline.tables.heartbeat import HeartbeatOptions, writing
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.keeping import Keeping, KeepingOptions
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.old_layout import has_tables
from counterpoise.pipeline.tables.plain_files import names_below
from counterpoise.pipeline.tables.reports import newest_poll
from counterpoise.pipeline.watch.metrics import Metrics
from counterpoise.pipeline.watch.polling import Polling
from counterpoise.pipeline.watch.serve import serving
from counterpoise.pipeline.watchdog.watchdog import Watchdog, guard
from counterpoise.security.client import ANONYMOUS, ClientSecurity, http_session


class NothingSeenError(ExplainedError):
    """The only poll found no broker that reports its load; the message says why."""


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """The settings of a watcher: the cluster, the history, and how both are accessed."""

    addresses: tuple[str, ...]
    """Admin URLs of the cluster."""
    history: str
    """The history's path or URI (`tables/location.py`); it records load, decisions and actions."""
    poll_every_s: float = 5.0
    once: bool = False
    """Whether to end after one poll and, in a balancer, one round."""
    metrics: tuple[str, int] | None = None
    """The host and port at which `/metrics` and `/health` are served; None: nowhere."""
    notify: NotifyOptions | None = None
    """Where and how notices for the operator are sent; None: nowhere."""
    watchdog: bool = False
    """Whether each poll is also checked by the watchdog (`decide/watchdog/`)."""
    keeping: KeepingOptions = field(default_factory=KeepingOptions)
    heartbeat: HeartbeatOptions = field(default_factory=HeartbeatOptions)
    security: ClientSecurity = ANONYMOUS
    """The credentials and TLS for the cluster's admin API."""
    answer_within_s: float = HTTP_TIMEOUT_S
    """How long a broker may take for one answer."""


@dataclass(frozen=True, slots=True)
class OpenedHistory:
    """What a history's only writer works with while the history is open."""

    writer: TablesWriter
    keeping: Keeping
    session: aiohttp.ClientSession
    polling: Polling
    watchdog: Watchdog | None


class HistoryKeeper:
    """Base of the watcher and the balancer, which poll a cluster and write a history.

    `log` is called with each sentence to be logged.
    """

    def __init__(self, settings: WatchSettings, log: SentenceSink) -> None:
        self._settings = settings
        self._log = log
        self._location = open_location(settings.history)
        self._lost = asyncio.Event()
        self._began_ms = wall_clock_ms()
        self.is_under_way = False
        """Whether a poll has been stored in the history."""
        self.metrics = Metrics(wall_clock_ms, settings.poll_every_s)
        self.notices = BalancerNotices(discard, wall_clock_ms)

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[OpenedHistory]:
        """Be the history's writer while the block runs.

        Raises `HistoryInUseError`, `HistoryFaultError` and `CannotListenError`.
        """
        settings = self._settings
        if settings.once and not has_tables(await asyncio.to_thread(names_below, self._location)):
            await self._look_before()
        async with contextlib.AsyncExitStack() as stack:
            if settings.notify is not None:
                webhook = notifying(settings.notify, self._log, self.metrics.notified)
                sink = await stack.enter_async_context(webhook)
                self.notices = BalancerNotices(sink, wall_clock_ms)
            held = writing(self._location, settings.heartbeat, self._lost.set)
            writer = await stack.enter_async_context(held)
            port = await stack.enter_async_context(serving(self.metrics, settings.metrics))
            if port:
                self._log(f"metrics on port {port}")
            session = await stack.enter_async_context(self._session())
            last = await asyncio.to_thread(newest_poll, writer)
            collector = Collector(
                session, settings.addresses, wall_clock_ms, after_poll=last, keeps_topic_loads=True
            )
            stack.callback(collector.close)
            watchdog = None
            if settings.watchdog:
                watchdog = guard(
                    session, settings.addresses, self._log, self.metrics, notices=self.notices
                )
            keeping = Keeping(writer, settings.keeping, self._log)
            polling = Polling(collector, writer, self._log, self.metrics, watchdog)
            try:
                yield OpenedHistory(writer, keeping, session, polling, watchdog)
            except Exception as error:
                self.notices.stopped(str(error) or type(error).__name__, by_itself=True)
                raise
            if not settings.once:
                self.notices.stopped("it was asked to", by_itself=False)

    async def _look_before(self) -> None:
        """Poll once, without storing it; raise `NothingSeenError` if no broker reports its load.

        So a run with `once` creates no history that would have nothing in it.
        """
        async with self._session() as session:
            addresses = self._settings.addresses
            with contextlib.closing(Collector(session, addresses, wall_clock_ms)) as collector:
                reason = trouble(await collector.poll())
        if reason:
            raise NothingSeenError(reason)

    def _session(self) -> aiohttp.ClientSession:
        return http_session(self._settings.security, self._settings.answer_within_s)

    async def _has_ended(self) -> bool:
        """Whether an operator has ordered this process to stop; raises `SupersededError`."""
        if self._lost.is_set():
            raise superseded(self._location.address)
        stops = (await asyncio.to_thread(read_control, self._location)).stops(self._began_ms)
        if stops:
            self._log("stopped by `counterpoise control`")
        return stops


class ClusterWatcher(HistoryKeeper):
    """Polls a cluster into one history; decides and moves nothing. It needs no Spark."""

    def __init__(
        self,
        settings: WatchSettings,
        log: SentenceSink,
        after_poll: Callable[[ReportRows], Awaitable[None]] | None = None,
    ) -> None:
        """`after_poll` is called with each stored poll."""
        super().__init__(settings, log)
        self._after_poll = after_poll

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set.

        Raises `HistoryInUseError`, `HistoryFaultError`, `CannotListenError`, and, with the setting
        `once`, `NothingSeenError` if the poll found nothing.
        """
        async with self._opened() as history:
            while not stop.is_set():
                rows = await history.polling.poll()
                if self._after_poll is not None:
                    await self._after_poll(rows)
                self.is_under_way = True
                history.keeping.folded(int(rows["poll_id"][0]))
                if self._settings.once:
                    if reason := trouble(rows):
                        raise NothingSeenError(reason)
                    return
                if await self._has_ended():
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), self._settings.poll_every_s)
