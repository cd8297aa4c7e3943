"""The balancer as a Spark application: collect, land, stream, decide, carry out."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING

import aiohttp

from counterpoise.decide.balancing.approval import HOUR_MS, ApprovalRules
from counterpoise.decide.balancing.round import Strategy
from counterpoise.decide.balancing.snapshot import newest_poll as newest_poll_of
from counterpoise.load.fold import FoldState, merged
from counterpoise.pipeline.balancer import Balancer
from counterpoise.pipeline.clock import HTTP_TIMEOUT_S, wall_clock_ms
from counterpoise.pipeline.collect.admin import Admin, AdminOptions
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.poll_log import trouble
from counterpoise.pipeline.collect.shedder import sheds_by_itself
from counterpoise.pipeline.collect.where import web_address
from counterpoise.pipeline.drive.action_trail import ActionTrail
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.history.care import CLOCKS_DIFFER_MS
from counterpoise.pipeline.history.keeping import Keeping, KeepingOptions
from counterpoise.pipeline.history.layout import newest_poll
from counterpoise.pipeline.history.lease import LeaseOptions, lease
from counterpoise.pipeline.history.moved import moved_since
from counterpoise.pipeline.history.store import open_store
from counterpoise.pipeline.history.tables import HistoryTables
from counterpoise.pipeline.history.version import expect_version
from counterpoise.pipeline.policies import RoundPolicies
from counterpoise.pipeline.spark.executors import (
    EXECUTORS_WITHIN_S,
    has_executors,
    no_executor,
)
from counterpoise.pipeline.stream.fold import start_fold
from counterpoise.pipeline.stream.running import Stream, StreamFailedError, jvm_at_hand
from counterpoise.pipeline.stream.session import start_session, stop_query, stop_session
from counterpoise.pipeline.stream.source import FILES_MOST
from counterpoise.pipeline.stream.states import complete, read_state, state_name
from counterpoise.pipeline.tables.control import read_control
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.watch.metrics import Metrics
from counterpoise.pipeline.watch.polling import Polling
from counterpoise.pipeline.watch.serve import serving
from counterpoise.pipeline.watch.watcher import NothingSeenError
from counterpoise.pipeline.watchdog.watchdog import guard
from counterpoise.security.client import ANONYMOUS, ClientSecurity, http_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


BATCH_EVERY_MOST_MS = 10_000


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run of the balancer needs to know besides its strategy."""

    addresses: tuple[str, ...]
    """Admin URLs of the cluster."""
    history: str
    """Where what was seen, decided and done is kept: a path or URI (`history/store.py`)."""
    master: str = "local[*]"
    spark_conf: tuple[tuple[str, str], ...] = ()
    """Settings of Spark's by name, besides ours."""
    poll_every_s: float = 5.0
    executor: ExecutorOptions = field(default_factory=ExecutorOptions)
    shards: int = 2
    """Into how many parts the state is divided, each folded on a core of its own."""
    files_per_batch: int = FILES_MOST
    """Files in a micro-batch at most; only the newest poll can lead to decisions."""
    once: bool = False
    """One poll, one round, and the end."""
    metrics: tuple[str, int] | None = None
    """Where `/metrics` and `/health` are served."""
    watchdog: bool = False
    """Whether each look is judged, too (`decide/watchdog/`)."""
    rules: ApprovalRules = field(default_factory=ApprovalRules)
    """What may be carried out without asking anybody."""
    keeping: KeepingOptions = field(default_factory=KeepingOptions)
    lease: LeaseOptions = field(default_factory=LeaseOptions)
    security: ClientSecurity = ANONYMOUS
    """Who we are to the cluster."""


class SparkBalancer:
    """Runs one history's balancer.

    `log` gets a sentence whenever something happens. Without `spark` a session is
    started, and stopped together with its JVM; a session that is given is left running.
    """

    def __init__(
        self,
        settings: RunSettings,
        strategy: Strategy,
        log: Callable[[str], None],
        *,
        spark: "SparkSession | None" = None,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._strategy = strategy
        self._log = log
        self._store = open_store(settings.history)
        self._metrics = Metrics(wall_clock_ms, settings.poll_every_s)
        self._lost = asyncio.Event()
        self._held = ""
        self._reported_alone = False
        self._began_ms = wall_clock_ms()
        self.is_under_way = False
        """Whether anything was kept."""

    async def run(self, stop: asyncio.Event) -> None:
        """Balance until `stop` is set.

        Raises `HistoryInUseError` when another balancer has the history, `StreamFailedError`, and,
        when one look is all there is, `NothingSeenError`.
        """
        self._loop = asyncio.get_running_loop()
        settings, store = self._settings, self._store
        async with contextlib.AsyncExitStack() as stack:
            held = lease(store, self._lost.set, settings.lease)
            store = self._store = await stack.enter_async_context(held)
            self._keeping = Keeping(store, settings.keeping, self._log)
            await asyncio.to_thread(expect_version, store)
            port = await stack.enter_async_context(serving(self._metrics, settings.metrics))
            if port:
                self._log(f"metrics on port {port}")
            timeout = aiohttp.ClientTimeout(total=HTTP_TIMEOUT_S)
            opened = http_session(settings.security, timeout=timeout)
            session = await stack.enter_async_context(opened)
            where = partial(web_address, addresses=settings.addresses)
            executor = Executor(session, wall_clock_ms, settings.executor, self._withheld, where)
            balancer = Balancer(
                self._strategy,
                HistoryTables(store),
                executor,
                self._log,
                rules=settings.rules,
                moved_before=await asyncio.to_thread(moved_since, store, self._began_ms - HOUR_MS),
                metrics=self._metrics,
                policies=RoundPolicies(session, settings.addresses),
                trail=ActionTrail(open_location(settings.history)),
            )
            self._admin = Admin(session, AdminOptions())
            if settings.executor.execute:
                # Said before Spark is there, which takes its time.
                self._holds(await sheds_by_itself(self._admin, settings.addresses))
            last = await asyncio.to_thread(newest_poll, store)
            collector = Collector(session, settings.addresses, wall_clock_ms, after_poll=last)
            stack.callback(collector.close)
            watchdog = None
            if settings.watchdog:
                watchdog = guard(session, settings.addresses, self._log, self._metrics)
            polling = Polling(collector, store, self._log, self._metrics, watchdog)
            # The only poll of a run that makes one is landed, whatever it saw.
            if settings.once and (reason := trouble(await polling.poll())):
                raise NothingSeenError(reason)
            checkpoint = stack.enter_context(TemporaryDirectory(prefix="counterpoise-stream-"))
            # Spark takes seconds to start; the first polls land meanwhile.
            starting = asyncio.create_task(asyncio.to_thread(self._start, balancer, checkpoint))
            try:
                await self._collect(polling, starting, stop)
            finally:
                await asyncio.to_thread(self._stop, *await starting)

    def _start(self, balancer: Balancer, checkpoint: str) -> "tuple[SparkSession, Stream]":
        settings = self._settings
        began = time.monotonic()
        self._log(f"starting Spark on {settings.master}")
        spark = self._spark or start_session(
            settings.master,
            partitions=settings.shards,
            conf=dict(settings.spark_conf),
            strategies=(self._strategy.shedder, self._strategy.placement),
        )

        with jvm_at_hand():
            stream = Stream(lambda: self._fold(spark, balancer, checkpoint), self._log)
            version = spark.version
        took = time.monotonic() - began
        self._log(f"Spark {version} is up after {took:.1f} s; its first micro-batch runs")
        return spark, stream

    def _fold(self, spark: "SparkSession", balancer: Balancer, checkpoint: str) -> "StreamingQuery":
        settings, loop, store = self._settings, self._loop, self._store

        def each(up_to: int, shards: list[str]) -> None:
            # Every shard knows the brokers; the bundles are put together only for a round.
            newest = read_state(store, shards[0])
            # A poll in the future: the clock was wrong then, or is wrong now.
            in_time = newest_poll_of(newest) <= wall_clock_ms() + CLOCKS_DIFFER_MS
            if in_time and balancer.is_due(newest) and self._may_act(loop, newest):
                rest = [read_state(store, name) for name in shards[1:]]
                step = balancer.step(merged([newest, *rest]))
                asyncio.run_coroutine_threadsafe(step, loop).result()
            elif settings.once and (why := balancer.not_yet(newest)):
                self._log(why)
            self._keeping.folded(up_to)

        # A round that was cut off is seen through first: its state is folded already.
        if done := complete(store):
            poll_id, shards = done[-1]
            each(poll_id, [state_name(poll_id, shard, shards) for shard in range(shards)])
        return start_fold(
            spark,
            store.uri,
            each,
            shards=settings.shards,
            checkpoint=mkdtemp(dir=checkpoint),
            files=settings.files_per_batch,
            every_ms=0 if settings.once else self._batch_every_ms(),
        )

    def _mind_executors(self, spark: "SparkSession") -> None:
        """Say once that none has come, which Spark itself does not."""
        late = wall_clock_ms() - self._began_ms > EXECUTORS_WITHIN_S * 1000
        if late and not self._reported_alone and not has_executors(spark):
            self._reported_alone = True
            self._log(no_executor(self._settings.master, "nothing is folded"))

    def _may_act(self, loop: asyncio.AbstractEventLoop, seen: FoldState) -> bool:
        """Whether no other shedder moves bundles; logged once, whenever that changes."""
        if not self._settings.executor.execute:
            return True
        addresses = self._settings.addresses
        brokers = seen.brokers["broker"].tolist()
        known = [web_address(broker, addresses) for broker in brokers]
        asked = sheds_by_itself(self._admin, (*addresses, *known))
        reason = asyncio.run_coroutine_threadsafe(asked, loop).result()
        self._holds(reason)
        return not reason

    def _holds(self, reason: str) -> None:
        if reason != self._held:
            self._log(reason or "the cluster does not shed load by itself any more")
        self._held = reason
        self._metrics.held.set(bool(reason))

    async def _withheld(self) -> str:
        """Why nothing may be moved by the operator's last word; empty when it may.

        Raises `HistoryFaultError` when the history is not ours any more.
        """
        held = (await asyncio.to_thread(read_control, self._store)).withholds(self._began_ms)
        self._metrics.held.set(bool(held))
        await asyncio.to_thread(self._store.guard)
        return held

    async def _is_stopped(self) -> bool:
        return (await asyncio.to_thread(read_control, self._store)).stops(self._began_ms)

    def _unless_taken(self, do: Callable[[], None]) -> None:
        try:
            with jvm_at_hand():
                do()
        except StreamFailedError:
            # Who has the history now takes states away that this one went on from.
            self._store.guard()
            raise

    def _batch_every_ms(self) -> int:
        """Often enough that no round is late by more than a quarter of the time between two."""
        return min(BATCH_EVERY_MOST_MS, self._strategy.balance.decide_every_ms // 4)

    def _stop(self, spark: "SparkSession", stream: Stream) -> None:
        stop_query(stream.query)
        if not self._spark:
            stop_session(spark)

    async def _collect(
        self,
        polling: Polling,
        starting: "asyncio.Task[tuple[SparkSession, Stream]]",
        stop: asyncio.Event,
    ) -> None:
        """Poll and land until `stop` is set, or until the stream ends by itself."""
        if self._settings.once:
            _, stream = await starting
            await asyncio.to_thread(self._unless_taken, stream.finish)
            return
        while not stop.is_set():
            await polling.poll()
            self.is_under_way = True
            if starting.done():
                spark, stream = starting.result()
                await asyncio.to_thread(self._unless_taken, stream.mind)
                with jvm_at_hand():
                    self._mind_executors(spark)
            if self._lost.is_set():
                raise HistoryFaultError(
                    f"another balancer has taken {self._store.address} over: this one stops here"
                )
            if await self._is_stopped():
                self._log("stopped by `counterpoise control`")
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self._settings.poll_every_s)
