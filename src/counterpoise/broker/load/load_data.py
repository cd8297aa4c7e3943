"""Brokers' load under the extensible load manager: published on two topics, read by all (PIP-192).

Each broker writes its `BrokerLoadData` and its busiest bundles, with its id as key. The topics are
not persistent: a broker publishes at once when it reconnects, and when it sees another broker for
the first time. So a broker that joins knows the others immediately (Pulsar's waits for their next
report).
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, Final, TypeVar

from counterpoise.broker import peers
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.clock import wall_clock_ms
from counterpoise.broker.base.cluster_key import ClusterKey
from counterpoise.broker.load.change import MINUTE_MS, percent_change
from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.broker.load.reporter import LoadReporter
from counterpoise.broker.peers.json_schemas import SCHEMAS
from counterpoise.load.extensible import BrokerLoadData, TopBundlesLoadData
from counterpoise.load.fields import LoadDataError
from counterpoise.load.topk import top_bundles
from counterpoise.metadata import MetadataError
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.names.system_topics import BROKER_LOAD_DATA, TOP_BUNDLES_LOAD_DATA
from counterpoise.security.client import ANONYMOUS, ClientSecurity

log = logging.getLogger(__name__)

LINK_S: Final = 10.0
"""How many seconds it may take to connect to the topic, or until a message is confirmed."""

T = TypeVar("T")


def worth_publishing(
    published: BrokerLoadData | None, now: BrokerLoadData, config: LoadReportConfig, now_ms: int
) -> bool:
    """Whether load data differ enough from those last published (None: never) to be published.

    Source: ``BrokerLoadDataReporter.needBrokerDataUpdate``.
    """
    if published is None:
        return True
    if now_ms - published.reported_at > config.max_interval_minutes * MINUTE_MS:
        return True
    changes = (
        100.0 * abs(published.max_resource_usage - now.max_resource_usage),
        percent_change(
            published.msg_rate_in + published.msg_rate_out, now.msg_rate_in + now.msg_rate_out
        ),
        percent_change(
            published.msg_throughput_in + published.msg_throughput_out,
            now.msg_throughput_in + now.msg_throughput_out,
        ),
        percent_change(published.bundle_count, now.bundle_count),
    )
    return any(change > config.threshold_percentage for change in changes)


class LoadDataExchange:
    """Publishes this broker's load data on topics, and reads those of all brokers there."""

    def __init__(
        self,
        me: str,
        *,
        broker_url: str,
        security: ClientSecurity = ANONYMOUS,
        cluster_key: ClusterKey | None = None,
        config: Callable[[], LoadReportConfig],
        history: Callable[[], float],
        gone: Callable[[Iterable[str]], Awaitable[list[str]]],
        background: BackgroundTasks,
        clock_ms: MillisecondClock = wall_clock_ms,
    ) -> None:
        """``broker_url``: any broker, to look the topics up at; ``config``: the current options.
        ``history``: how much of the past an average keeps
        (``loadBalancerHistoryResourcePercentage``).

        ``security`` and ``cluster_key``: this broker's credentials.

        ``gone``: returns which of some brokers have left, so that this one publishes tombstones for
        them.
        """
        self._me = me
        self._broker_url = broker_url
        self._security = security
        self._reporter: LoadReporter | None = None
        self._cluster_key = cluster_key
        self._report_config, self._history = config, history
        self._gone = gone
        self._background = background
        self._clock_ms = clock_ms
        self._mine = BrokerLoadData()
        self._published: BrokerLoadData | None = None
        self._due = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.brokers: Final[dict[str, BrokerLoadData]] = {}
        """What each broker published last, by id."""
        self.top_bundles: Final[dict[str, TopBundlesLoadData]] = {}
        """The busiest bundles of each broker, by its id."""
        self._loads_link = self._link(BROKER_LOAD_DATA, self.brokers, BrokerLoadData.from_json)
        self._top_link = self._link(
            TOP_BUNDLES_LOAD_DATA, self.top_bundles, TopBundlesLoadData.from_json
        )

    def report_from(self, reporter: LoadReporter) -> None:
        """Set the reporter whose measurements are published; before this call nothing is."""
        self._reporter = reporter

    def start(self) -> None:
        """Start reading and publishing load data."""
        self._tasks = [
            self._background.keep("the brokers' load data", self._keep(self._loads_link)),
            self._background.keep("the brokers' top bundles", self._keep(self._top_link)),
            self._background.keep("publishing load data", self._publish_regularly),
        ]

    async def stop(self) -> None:
        """Stop reading and publishing; another broker removes this one's load data once it left."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def usage_ema(self) -> dict[str, float]:
        """Each broker's exponential average of its weighted usage (``weightedMaxEMA``), by id."""
        return {broker: data.weighted_max_ema for broker, data in self.brokers.items()}

    async def publish(self) -> None:
        """Publish the last measurement if it changed enough, and the busiest bundles.

        On the leader, also publish tombstones for brokers that have left. Raises `PeerError`.
        """
        if self._reporter is None:
            return
        config, now_ms, report = self._report_config(), self._clock_ms(), self._reporter.last()
        weights, history = config.weights.extensible, self._history()
        self._mine = self._mine.updated(report, weights=weights, history=history, now_ms=now_ms)
        if worth_publishing(self._published, self._mine, config, now_ms):
            published = replace(self._mine, reported_at=now_ms)
            await self._loads_link.publish(self._me, _bytes(published.to_json()))
            self._mine = self._published = published
        top = top_bundles(report.last_stats, config.bundles_in_report)
        await self._top_link.publish(self._me, _bytes(top.to_json()))
        for broker_id in await self._gone(self.brokers.keys() | self.top_bundles.keys()):
            await self._loads_link.publish(broker_id, None)
            await self._top_link.publish(broker_id, None)

    def _link(
        self, topic: str, known: dict[str, T], read: Callable[[object], T]
    ) -> peers.SystemTopicLink:
        def publish_again() -> None:
            self._published = None
            self._due.set()

        # With those whose data cannot be read here: two brokers that could not read each other's
        # would publish again and again.
        heard = {self._me}

        def take(message: peers.SystemTopicMessage) -> None:
            if message.value is None:
                known.pop(message.key, None)
                heard.discard(message.key)
                return
            if message.key not in heard:
                # That broker has just started, and missed what was published before.
                heard.add(message.key)
                publish_again()
            try:
                known[message.key] = read(json.loads(message.value))
            except (LoadDataError, ValueError, RecursionError) as error:
                log.warning("what %s published on %s is not read: %s", message.key, topic, error)

        return peers.SystemTopicLink(
            topic,
            peers.SystemTopicListener(lambda: None, take, publish_again),
            producer_name=self._me,
            timeout_s=LINK_S,
            security=self._security,
            cluster_key=self._cluster_key,
            schema=SCHEMAS[topic],
        )

    def _keep(self, link: peers.SystemTopicLink) -> Callable[[], Coroutine[Any, Any, None]]:
        async def keep() -> None:
            await link.keep(self._broker_url)

        return keep

    async def _publish_regularly(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._report_config().min_interval_ms / 1000):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            try:
                await self.publish()
            except (peers.PeerError, MetadataError) as error:
                log.info("load data is published when it can be again: %s", error)


def _bytes(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
