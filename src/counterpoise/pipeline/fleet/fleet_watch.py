"""Polls all clusters of a fleet concurrently; one that does not respond delays no other."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

import aiohttp
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from counterpoise.decide.balancing.moves import imbalance
from counterpoise.load.rows import BROKER, ReportRows
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.names.errors import ExplainedError
from counterpoise.pipeline.collect.admin import AdminOptions
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.poll_log import trouble
from counterpoise.pipeline.collect.words import line
from counterpoise.pipeline.fleet.cluster_state import FIGURES, ClusterState, PolledCluster
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.plain_files import names_below
from counterpoise.pipeline.tables.status import BalancerStatus, read_status
from counterpoise.security.client import ANONYMOUS, ClientSecurity, http_session

log = logging.getLogger(__name__)

PREFIX = "counterpoise_fleet"


@dataclass(frozen=True, slots=True)
class FleetCluster:
    """The configuration of one cluster of a fleet: its address, history and credentials."""

    name: str
    addresses: Sequence[str]
    """Admin URLs, tried in turn."""
    history: str = ""
    """The URI of its balancer's history; empty for none."""
    service_url: str = ""
    console: str = ""
    security: ClientSecurity = field(default=ANONYMOUS)


class StatusReading(threading.Thread):
    """Reads a balancer's status from its history in a daemon thread.

    A file system that hangs cannot be interrupted: an executor would block the process's exit.
    """

    def __init__(self, history: str, now_ms: int) -> None:
        super().__init__(name="fleet-history", daemon=True)
        self._history, self._now_ms = history, now_ms
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[BalancerStatus | str] = self._loop.create_future()
        """The status, or the reason why it could not be read."""

    def run(self) -> None:
        """Read the balancer's status from its history."""
        found: BalancerStatus | str
        try:
            location = open_location(self._history)
            if names_below(location):
                found = read_status(TablesReader(location), self._now_ms)
            else:
                found = f"{location.address} is no history: nothing is in it"
        except (ExplainedError, OSError) as error:
            found = str(error)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        with contextlib.suppress(RuntimeError):
            # It raises if the loop is closed; then nothing waits for the status.
            self._loop.call_soon_threadsafe(self._deliver, found)

    def _deliver(self, found: BalancerStatus | str) -> None:
        if not self.result.done():
            self.result.set_result(found)


class ClusterLook:
    """Polls one cluster and its balancer's status repeatedly."""

    def __init__(
        self,
        cluster: FleetCluster,
        session: aiohttp.ClientSession,
        clock_ms: MillisecondClock,
        within_s: float,
    ) -> None:
        self._cluster = cluster
        self._clock_ms = clock_ms
        self._within_s = within_s
        # A broker that hangs counts as silent, and must not delay the status of the whole cluster.
        options = AdminOptions(timeout_s=within_s / 3)
        self._collector = Collector(session, cluster.addresses, clock_ms, options=options)
        self._reading: StatusReading | None = None
        self.state = ClusterState(
            cluster.name,
            service_url=cluster.service_url,
            console=cluster.console,
            has_history=bool(cluster.history),
        )

    async def poll(self) -> ClusterState:
        """Poll once; what does not respond in time is missing, and the state says why."""
        now_ms = self._clock_ms()
        polled, status = await asyncio.gather(self._polled(), self._status(now_ms))
        self.state = replace(
            self.state,
            at_ms=now_ms,
            polled=None if isinstance(polled, str) else polled,
            unreachable=polled if isinstance(polled, str) else "",
            status=None if isinstance(status, str) else status,
            unreadable=status if isinstance(status, str) else "",
        )
        return self.state

    def close(self) -> None:
        """Cancel the pending requests to the cluster's brokers."""
        self._collector.close()

    async def _polled(self) -> PolledCluster | str:
        try:
            rows = await asyncio.wait_for(self._collector.poll(), self._within_s)
            return trouble(rows) or polled_of(rows)
        except TimeoutError:
            return f"the cluster does not answer within {self._within_s:g} s"
        except Exception as error:
            log.exception("the poll of cluster %s failed unexpectedly", self._cluster.name)
            return f"its poll failed unexpectedly: {type(error).__name__}: {line(str(error))}"

    async def _status(self, now_ms: int) -> BalancerStatus | str:
        if not self._cluster.history:
            return ""
        if self._reading is None:
            self._reading = StatusReading(self._cluster.history, now_ms)
            self._reading.start()
        await asyncio.wait([self._reading.result], timeout=self._within_s)
        if not self._reading.result.done():
            return f"the history does not answer within {self._within_s:g} s"
        found, self._reading = self._reading.result.result(), None
        return found


def polled_of(rows: ReportRows) -> PolledCluster:
    """Sum up the rows of one poll: the number of brokers, their load and imbalance."""
    brokers = rows["kind"] == BROKER
    loads = (rows["msg_throughput_in"] + rows["msg_throughput_out"])[brokers].tolist()
    return PolledCluster(len(loads), rows.silent, imbalance(loads), float(sum(loads)))


class FleetWatch:
    """Polls all clusters of a fleet, each in a task of its own."""

    def __init__(self, looks: Sequence[ClusterLook]) -> None:
        self._looks = looks

    @property
    def states(self) -> tuple[ClusterState, ...]:
        """The last state of each cluster, in the order of the fleet."""
        return tuple(each.state for each in self._looks)

    async def poll(self) -> tuple[ClusterState, ...]:
        """Poll all clusters once, concurrently, and return their states."""
        return tuple(await asyncio.gather(*(each.poll() for each in self._looks)))

    async def run(self, every_s: float) -> None:
        """Poll until cancelled, with a pause of `every_s` seconds between polls of a cluster."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._looks:
                tasks.create_task(self._repeat(each, every_s))

    async def _repeat(self, look: ClusterLook, every_s: float) -> None:
        while True:
            await look.poll()
            await asyncio.sleep(every_s)

    def metrics(self) -> bytes:
        """Metrics of all clusters in Prometheus' text format, each labelled with its `cluster`."""
        registry = CollectorRegistry()
        for name, what in FIGURES.items():
            gauge = Gauge(f"{PREFIX}_{name}", what, ("cluster",), registry=registry)
            for state in self.states:
                if state.at_ms and name in (figures := state.figures()):
                    gauge.labels(state.name).set(figures[name])
        return generate_latest(registry)


@contextlib.asynccontextmanager
async def watching_fleet(
    fleet: Sequence[FleetCluster], clock_ms: MillisecondClock, within_s: float
) -> AsyncIterator[FleetWatch]:
    """Watch these clusters during the block; each poll of one takes at most `within_s` seconds."""
    async with contextlib.AsyncExitStack() as stack:
        looks = []
        for cluster in fleet:
            session = await stack.enter_async_context(http_session(cluster.security))
            look = ClusterLook(cluster, session, clock_ms, within_s)
            stack.callback(look.close)
            looks.append(look)
        yield FleetWatch(looks)
