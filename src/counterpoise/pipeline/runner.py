"""The balancer as a Spark application: collect, land, stream, decide, carry out."""

import asyncio
import contextlib
import fcntl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from counterpoise.decide.balancing.round import Strategy, newest_poll
from counterpoise.load.fold import merged
from counterpoise.load.rows import ReportRows
from counterpoise.pipeline.balancer import Balancer
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.told import Seen, trouble
from counterpoise.pipeline.compaction import KEYED_BY_POLL, compact
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.inline import HTTP_TIMEOUT_S, wall_clock_ms
from counterpoise.pipeline.landing import land, landed_polls
from counterpoise.pipeline.session import start_session, stop_query, stop_session
from counterpoise.pipeline.states import read_state
from counterpoise.pipeline.stream import start_fold
from counterpoise.pipeline.tables import HistoryTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class HistoryInUseError(RuntimeError):
    """Another balancer writes this history."""


class NothingSeenError(RuntimeError):
    """The only look at the cluster showed no broker's load; the message says why."""


class StreamFailedError(RuntimeError):
    """The streaming query ended by itself; the message is Spark's."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run of the balancer needs to know besides its strategy."""

    addresses: tuple[str, ...]
    """Admin URLs of the cluster."""
    history: Path
    master: str = "local[*]"
    poll_every_s: float = 5.0
    executor: ExecutorOptions = field(default_factory=ExecutorOptions)
    shards: int = 2
    """Into how many parts the state is divided, each folded on a core of its own."""
    files_per_batch: int = 100
    """Polls in a micro-batch at most; only the newest of them can lead to decisions."""
    once: bool = False
    """One poll, one round, and the end."""
    compact_from: int = 720
    """How many small files of a table are made one."""
    wait_for_history_s: float = 0.0
    """How long to wait for another balancer to let go of the history."""


class SparkBalancer:
    """Runs one history's balancer.

    `tell` gets a sentence for a person whenever something happens. Without `spark` a session is
    started, and stopped together with its JVM; a session that is given is left running.
    """

    def __init__(
        self,
        settings: RunSettings,
        strategy: Strategy,
        tell: Callable[[str], None],
        *,
        spark: "SparkSession | None" = None,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._strategy = strategy
        self._tell = tell
        self._reports = settings.history / "reports"
        self._seen = Seen(tell)
        self._taken_in = 0
        self._folded = False

    async def run(self, stop: asyncio.Event) -> None:
        """Balance until `stop` is set.

        Raises `HistoryInUseError` when another balancer has the history, `StreamFailedError`, and,
        when one look is all there is, `NothingSeenError`.
        """
        self._loop = asyncio.get_running_loop()
        self._reports.mkdir(parents=True, exist_ok=True)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(exclusive(self._settings))
            timeout = aiohttp.ClientTimeout(total=HTTP_TIMEOUT_S)
            session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
            history = HistoryTables(self._settings.history)
            executor = Executor(session, wall_clock_ms, self._settings.executor)
            balancer = Balancer(self._strategy, history, executor, self._tell)
            last = max(landed_polls(self._reports), default=0)
            collector = Collector(session, self._settings.addresses, wall_clock_ms, after_poll=last)
            if self._settings.once:
                await self._first(collector)
            # Spark takes seconds to start; the first polls land meanwhile.
            starting = asyncio.create_task(asyncio.to_thread(self._start, balancer))
            try:
                await self._collect(collector, starting, stop)
            finally:
                spark, query = await starting
                await asyncio.to_thread(self._stop, spark, query)

    def _start(self, balancer: Balancer) -> "tuple[SparkSession, StreamingQuery]":
        settings, loop = self._settings, self._loop
        began = time.monotonic()
        self._tell(f"starting Spark on {settings.master}")
        spark = self._spark or start_session(settings.master, partitions=settings.shards)

        def each(number: int, shards: list[Path]) -> None:
            if not self._folded:
                self._tell(f"micro-batch {number} is folded")
            self._folded = True
            # Every shard knows the brokers; the bundles are put together only for a round.
            newest = read_state(shards[0])
            if balancer.is_due(newest):
                state = merged([newest, *map(read_state, shards[1:])])
                asyncio.run_coroutine_threadsafe(balancer.step(state), loop).result()
            self._compact(self._taken_in)
            self._taken_in = newest_poll(newest)

        query = start_fold(
            spark,
            self._reports,
            settings.history / "stream",
            each,
            shards=settings.shards,
            files=settings.files_per_batch,
        )
        took = time.monotonic() - began
        self._tell(f"Spark {spark.version} is up after {took:.1f} s; its first micro-batch runs")
        return spark, query

    def _stop(self, spark: "SparkSession", query: "StreamingQuery") -> None:
        stop_query(query)
        if not self._spark:
            stop_session(spark)

    async def _poll(self, collector: Collector) -> ReportRows:
        rows = await collector.poll()
        await asyncio.to_thread(land, self._reports, rows)
        self._seen.take(rows)
        return rows

    async def _first(self, collector: Collector) -> None:
        """The only poll of a run that makes one; it is landed, whatever it saw."""
        if reason := trouble(await self._poll(collector)):
            raise NothingSeenError(reason)

    async def _collect(
        self,
        collector: Collector,
        starting: "asyncio.Task[tuple[SparkSession, StreamingQuery]]",
        stop: asyncio.Event,
    ) -> None:
        """Poll and land until told to stop, or until the stream ends by itself."""
        if self._settings.once:
            _, query = await starting
            await asyncio.to_thread(query.processAllAvailable)
            return
        while not stop.is_set():
            await self._poll(collector)
            if starting.done():
                _raise_if_ended(starting.result()[1])
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self._settings.poll_every_s)

    def _compact(self, up_to_poll: int) -> None:
        """Archive what the stream has committed; the last rounds stay at hand for a replay."""
        for table in KEYED_BY_POLL:
            compact(
                self._settings.history,
                table,
                up_to_poll=up_to_poll,
                at_least=self._settings.compact_from,
                keep_newest=0 if table == "reports" else 20,
            )


def _raise_if_ended(query: "StreamingQuery") -> None:
    if not query.isActive:
        raise StreamFailedError(f"the stream ended by itself: {query.exception()}")


@contextlib.asynccontextmanager
async def exclusive(settings: RunSettings) -> AsyncIterator[None]:
    """Hold the history for ourselves; a process that ends, however it ends, lets go of it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + settings.wait_for_history_s
    with (settings.history / "lock").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if loop.time() >= deadline:
                    raise HistoryInUseError(
                        f"another balancer writes {settings.history}: stop it, or name another "
                        "directory"
                    ) from None
                await asyncio.sleep(0.1)
        yield
