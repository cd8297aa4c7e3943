"""The balancer as a Spark application: collects, folds, decides, carries out."""

import asyncio
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from counterpoise.decide.balancing.approval import HOUR_MS, ApprovalRules
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.decide.balancing.snapshot import newest_poll as newest_poll_of
from counterpoise.load.fold import FoldState, merged
from counterpoise.names.callbacks import SentenceSink
from counterpoise.pipeline.balancer import Balancer
from counterpoise.pipeline.clock import CLOCKS_DIFFER_MS, wall_clock_ms
from counterpoise.pipeline.collect.admin import Admin, AdminOptions
from counterpoise.pipeline.collect.poll_log import trouble
from counterpoise.pipeline.collect.settings import sheds_by_itself
from counterpoise.pipeline.collect.where import web_address
from counterpoise.pipeline.drive.action_trail import ActionTrail
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.policies import RoundPolicies
from counterpoise.pipeline.spark.job import EXECUTORS_WITHIN_S, JobWatch, has_executors, no_executor
from counterpoise.pipeline.stream.fold import ReportFold, SparkTasks
from counterpoise.pipeline.stream.running import PatientFold
from counterpoise.pipeline.stream.session import start_context, stop_spark
from counterpoise.pipeline.tables.control import read_control
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.states import FoldedStates, read_state
from counterpoise.pipeline.watch import history_keeper
from counterpoise.pipeline.watch.polling import Polling

if TYPE_CHECKING:
    from pyspark import SparkContext


BATCH_EVERY_MOST_MS = 10_000
FINISH_WITHIN_S = 5.0
"""How many seconds the current batch and its round may take when the balancer is stopped."""
_SHEDS = "the cluster's own shedding"
_ORDERS = "orders of an operator"


@dataclass(frozen=True, slots=True)
class RunSettings(history_keeper.WatchSettings):
    """A watcher's settings, and a balancer's: Spark, executor, limits on moves."""

    master: str = "local[*]"
    spark_conf: tuple[tuple[str, str], ...] = ()
    """Additional Spark settings, by name."""
    executor: ExecutorOptions = field(default_factory=ExecutorOptions)
    shards: int = 2
    """The number of parts into which the state is divided, each folded on its own core."""
    rules: ApprovalRules = field(default_factory=ApprovalRules)
    """The operator's limits on the moves that a round carries out."""


@dataclass(frozen=True, slots=True)
class _Spark:
    """A running Spark context, and the fold that uses it."""

    context: "SparkContext"
    job: JobWatch
    fold: PatientFold


class SparkBalancer(history_keeper.HistoryKeeper):
    """The balancer of one history: collects reports, folds them on Spark, decides, moves bundles.

    Without `spark` it starts Spark, and stops it together with its JVM; one passed in is left
    running.
    """

    _settings: RunSettings

    def __init__(
        self,
        settings: RunSettings,
        strategy: BalancingStrategy,
        log: SentenceSink,
        *,
        spark: "SparkContext | None" = None,
    ) -> None:
        super().__init__(settings, log)
        self._spark = spark
        self._strategy = strategy
        self._landed = asyncio.Event()
        """Set when a poll was stored that is to be folded, or when folding is to end."""
        self._is_ending = False
        self._reasons = {_SHEDS: "", _ORDERS: ""}
        """Why no bundle is moved, by what prevents it; empty if nothing does."""
        self._reported_alone = False

    async def run(self, stop: asyncio.Event) -> None:
        """Balance until `stop` is set.

        Raises `HistoryInUseError` when another balancer has the history, `HistoryFaultError`,
        `StreamFailedError`, and, with the setting `once`, `NothingSeenError`.
        """
        settings = self._settings
        async with self._opened() as history:
            writer, session, polling = history.writer, history.session, history.polling
            self._writer, self._keeping = writer, history.keeping
            where = partial(web_address, addresses=settings.addresses)
            executor = Executor(session, wall_clock_ms, settings.executor, self._withheld, where)
            journal = JournalWriter(writer)
            self._balancer = Balancer(
                self._strategy,
                journal,
                executor,
                self._log,
                rules=settings.rules,
                moved_before=await asyncio.to_thread(journal.moved_since, self._began_ms - HOUR_MS),
                metrics=self.metrics,
                policies=RoundPolicies(session, settings.addresses),
                trail=ActionTrail(self._location),
                notices=self.notices,
                watchdog=history.watchdog,
            )
            self._admin = Admin(session, AdminOptions())
            if settings.executor.execute:
                # Logged before Spark is started, which takes seconds.
                self._sheds(await sheds_by_itself(self._admin, settings.addresses))
            # With `once` this is the only poll; it is committed even if no broker answered.
            if settings.once and (reason := trouble(await polling.poll())):
                raise history_keeper.NothingSeenError(reason)
            # Spark takes seconds to start; the first polls land meanwhile.
            starting = asyncio.create_task(asyncio.to_thread(self._start))
            folding = asyncio.create_task(self._fold(starting))
            try:
                await (folding if settings.once else self._collect(polling, folding, stop))
            finally:
                await self._end(folding)
                await asyncio.to_thread(self._stop, await starting)

    def _start(self) -> _Spark:
        settings = self._settings
        began = time.monotonic()
        self._log(f"starting Spark on {settings.master}")
        context = self._spark or start_context(
            settings.master,
            conf=dict(settings.spark_conf),
            strategies=(self._strategy.shedder, self._strategy.placement),
        )
        job = JobWatch(context, "fold")
        fold = ReportFold(
            self._writer,
            SparkTasks(context, job),
            shards=settings.shards,
            every_ms=0 if settings.once else self._batch_every_ms(),
        )
        took = time.monotonic() - began
        self._log(f"Spark {context.version} is up after {took:.1f} s; its first batch runs")
        return _Spark(context, job, PatientFold(fold, self._writer, self._log))

    def _batch_every_ms(self) -> int:
        """The interval of batches: no round is late by more than a quarter of its interval."""
        return min(BATCH_EVERY_MOST_MS, self._strategy.balance.decide_every_ms // 4)

    def _stop(self, spark: _Spark) -> None:
        spark.job.close()
        if not self._spark:
            stop_spark(spark.context)

    async def _collect(
        self, polling: Polling, folding: "asyncio.Task[None]", stop: asyncio.Event
    ) -> None:
        """Poll and commit until `stop` is set; raises the error that ends the fold."""
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                await polling.poll()
                self.is_under_way = True
                self._landed.set()
                if await self._has_ended():
                    return
                await asyncio.wait(
                    [stopping, folding],
                    timeout=self._settings.poll_every_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if folding.done():
                    folding.result()
                    return
        finally:
            stopping.cancel()

    async def _fold(self, starting: "asyncio.Task[_Spark]") -> None:
        """Fold committed polls and make rounds of them, until stopped."""
        spark = await asyncio.shield(starting)
        # An interrupted round is completed first: the reports it was made of are folded already.
        if spark.fold.states:
            await self._round(spark.fold.states)
        while not self._is_ending:
            self._landed.clear()
            while not self._is_ending and (folded := await self._next(spark)):
                await self._round(folded)
            if self._settings.once:
                return
            await self._landed.wait()

    async def _next(self, spark: _Spark) -> FoldedStates | None:
        """Fold the next batch and return the states; logs once if no executor has registered for
        it.
        """
        batch = asyncio.create_task(asyncio.to_thread(spark.fold.next))
        try:
            late = not (await asyncio.wait([batch], timeout=EXECUTORS_WITHIN_S))[0]
            if late and not self._reported_alone and not has_executors(spark.context):
                self._reported_alone = True
                self._log(no_executor(self._settings.master, "nothing is folded"))
            return await batch
        finally:
            batch.cancel()

    async def _end(self, folding: "asyncio.Task[None]") -> None:
        """Wait a while for the running batch and round to end.

        Errors are ignored: a signal to the process group ends the JVM as well, and interrupted work
        continues from what was committed.
        """
        self._is_ending = True
        self._landed.set()
        await asyncio.wait([folding], timeout=FINISH_WITHIN_S)
        folding.cancel()
        await asyncio.gather(folding, return_exceptions=True)

    async def _round(self, states: FoldedStates) -> None:
        """Make a round of the state after a batch, if one is due."""
        # One shard's state is enough to know if a round is due: it has all brokers.
        newest = await asyncio.to_thread(read_state, self._location, states.files[0])
        # If the poll is in the future, the clock was wrong then or is wrong now: no round.
        in_time = newest_poll_of(newest) <= wall_clock_ms() + CLOCKS_DIFFER_MS
        due = in_time and await asyncio.to_thread(self._balancer.is_due, newest)
        if due and await self._may_act(newest):
            rest = [
                await asyncio.to_thread(read_state, self._location, file)
                for file in states.files[1:]
            ]
            await self._balancer.step(await asyncio.to_thread(merged, [newest, *rest]))
        elif self._settings.once and (
            why := await asyncio.to_thread(self._balancer.not_yet, newest)
        ):
            self._log(why)
        self._keeping.folded(states.up_to)

    async def _may_act(self, seen: FoldState) -> bool:
        """Whether rounds may be made: no other shedder moves bundles. Logs when that changes."""
        if not self._settings.executor.execute:
            return True
        addresses = self._settings.addresses
        brokers = seen.brokers["broker"].tolist()
        known = [web_address(broker, addresses) for broker in brokers]
        reason = await sheds_by_itself(self._admin, (*addresses, *known))
        self._sheds(reason)
        await self._ordered()
        return not reason

    def _sheds(self, reason: str) -> None:
        if reason != self._reasons[_SHEDS]:
            self._log(reason or "the cluster does not shed load by itself any more")
        self._set_reason(_SHEDS, reason)

    def _set_reason(self, what: str, reason: str) -> None:
        self._reasons[what] = reason
        self.notices.withheld(what, reason)
        self.metrics.held.set(any(self._reasons.values()))

    async def _ordered(self) -> str:
        """Why the operator's last order forbids moves; empty if it does not."""
        control = await asyncio.to_thread(read_control, self._location)
        reason = control.withholds(self._began_ms)
        self._set_reason(_ORDERS, reason)
        return reason

    async def _withheld(self) -> str:
        """Why the operator's last order forbids moves; empty if it does not.

        Raises `SupersededError` if another balancer has taken the history over.
        """
        reason = await self._ordered()
        await asyncio.to_thread(self._writer.expect_held)
        return reason
