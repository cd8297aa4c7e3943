"""Maintains the averages of bundles and brokers; the leader also stores them."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from counterpoise.broker.base import paths
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.load.average import BundleData
from counterpoise.load.broker_average import TimeAverageBrokerData, broker_averages
from counterpoise.load.ranking import bundle_key
from counterpoise.metadata import MetadataError, MetadataStore, Notification
from counterpoise.metadata.errors import NotFound
from counterpoise.metadata.port import NotificationKind
from counterpoise.names.callbacks import StopListening

log = logging.getLogger(__name__)

MINUTE_S: Final = 60.0


class LoadKeeper:
    """Adds each load report to the averages; as leader, stores them for the next leader.

    It writes them to ``/loadbalance/bundle-data`` and ``/loadbalance/broker-time-average`` every
    ``loadBalancerResourceQuotaUpdateIntervalMinutes``, and removes the nodes of bundles that no
    broker reports (unloaded, split, or of a deleted namespace) and of brokers that left.
    """

    def __init__(
        self,
        store: MetadataStore,
        load: ClusterLoad,
        *,
        me: str,
        is_leader: Callable[[], bool],
        config: Callable[[], LoadReportConfig],
        background: BackgroundTasks,
    ) -> None:
        """``me``: this broker's id; ``is_leader``: whether this broker leads now; ``config``
        returns the settings in force.
        """
        self._store = store
        self._load = load
        self._me = me
        self._is_leader = is_leader
        self._config = config
        self._background = background
        self._news = asyncio.Event()
        self._stored: set[str] | None = None
        """Bundles with a node, as the leader knows them; None until it has listed them."""
        self._brokers: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._unsubscribe: StopListening | None = None

    def start(self) -> None:
        """Start, and write averages of zero for this broker if none are stored."""
        self._unsubscribe = self._store.subscribe(self._on_change)
        self._news.set()
        self._tasks = [
            self._background.keep("this broker's own time average", self._begin),
            self._background.keep("the view of the cluster's load", self._follow),
            self._background.keep("the writer of load averages", self._write_regularly),
        ]

    def stop(self) -> list[asyncio.Task[None]]:
        """Stop; returns the ending tasks, to be awaited."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        return tasks

    async def write(self) -> None:
        """Write the averages now; raises `StoreUnavailable`."""
        await self._load.refresh()
        for bundle, data in self._worth_writing():
            await self._put(paths.bundle_data(bundle), data.to_json())
        for broker_id, average in broker_averages(self._load.view()).items():
            await self._put(paths.time_average(broker_id), average.to_json())
        self._stored, self._brokers = None, set()
        await self.remove_inactive()

    async def remove_inactive(self) -> None:
        """Remove the stored averages of bundles and brokers that are in no report any more."""
        if self._stored is None:
            self._stored = await self._stored_bundles()
        for bundle in self._stored - self._load.reported():
            await self._remove(paths.bundle_data(bundle))
            self._stored.discard(bundle)
        alive = set(self._load.reports)
        if alive != self._brokers:
            for gone in set(await self._store.children(paths.BROKER_TIME_AVERAGE)) - alive:
                await self._remove(paths.time_average(gone))
            self._brokers = alive

    async def _stored_bundles(self) -> set[str]:
        below = [""]
        for _ in ("tenant", "namespace", "range"):
            below = [
                f"{path}/{name}"
                for path in below
                for name in await self._store.children(paths.BUNDLE_DATA + path)
            ]
        return {path.removeprefix("/") for path in below}

    async def _remove(self, path: str) -> None:
        with contextlib.suppress(NotFound):
            await self._store.delete(path)

    async def _begin(self) -> None:
        path = paths.time_average(self._me)
        if not await self._store.exists(path):
            await self._put(path, TimeAverageBrokerData().to_json())

    def _worth_writing(self) -> list[tuple[str, BundleData]]:
        """The bundles with the most traffic, in the order of ``BundleData.compareTo``."""
        ordered = sorted(
            self._load.bundles().items(), key=lambda item: bundle_key(item[1]), reverse=True
        )
        most = self._config().bundles_in_report
        if most <= 0:
            return ordered
        return ordered[: most * max(1, len(self._load.reports))]

    async def _put(self, path: str, value: Mapping[str, Any]) -> None:
        await self._store.put(path, json.dumps(value, separators=(",", ":")).encode())

    def _on_change(self, notification: Notification) -> None:
        path = notification.path
        if path.startswith(paths.BROKERS + "/"):
            self._news.set()
        elif notification.kind is NotificationKind.DELETED:
            namespace = path.removeprefix(paths.LOCAL_POLICIES + "/")
            if namespace != path and namespace.count("/") == 1:
                self._load.forget(namespace)
                self._stored = None
                self._news.set()

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._load.refresh()
                if self._is_leader():
                    await self.remove_inactive()
                else:
                    self._stored, self._brokers = None, set()
            except MetadataError as error:
                log.warning("load reports were not read: %s", error)

    async def _write_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._config().averages_interval_minutes * MINUTE_S)
            if self._is_leader():
                try:
                    await self.write()
                except MetadataError as error:
                    log.warning("load averages were not written: %s", error)
