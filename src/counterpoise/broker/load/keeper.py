"""Keeps the averages of bundles and brokers, and on the leader writes them down."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from counterpoise.broker.base import paths
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.load.average import BundleData
from counterpoise.load.broker_average import broker_averages
from counterpoise.load.ranking import bundle_key
from counterpoise.metadata import MetadataError, MetadataStore, Notification
from counterpoise.metadata.errors import NotFound

log = logging.getLogger(__name__)

MINUTE_S: Final = 60.0


class LoadKeeper:
    """Takes every report into the averages as it is published.

    The leader also writes the averages to ``/loadbalance/bundle-data`` and
    ``/loadbalance/broker-time-average`` every ``loadBalancerResourceQuotaUpdateIntervalMinutes``,
    so that the next leader starts from them, and removes those of brokers that are gone.
    """

    def __init__(
        self,
        store: MetadataStore,
        load: ClusterLoad,
        *,
        is_leader: Callable[[], bool],
        write_every_minutes: float,
        bundles_a_broker: Callable[[], int],
        background: BackgroundTasks,
    ) -> None:
        """``bundles_a_broker``: how many bundles are written for each broker; 0 means all."""
        self._store = store
        self._load = load
        self._is_leader = is_leader
        self._write_every_s = write_every_minutes * MINUTE_S
        self._bundles_a_broker = bundles_a_broker
        self._background = background
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Begin."""
        self._unsubscribe = self._store.subscribe(self._on_change)
        self._news.set()
        self._tasks = [
            self._background.keep("the picture of the cluster's load", self._follow),
            self._background.keep("the writer of load averages", self._write_regularly),
        ]

    def stop(self) -> list[asyncio.Task[None]]:
        """End; the answer can be awaited."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        return tasks

    async def write(self) -> None:
        """Write the averages down now; raises `StoreUnavailable`."""
        await self._load.refresh()
        for bundle, data in self._worth_writing():
            await self._put(paths.bundle_data(bundle), data.to_json())
        view = self._load.view()
        for broker_id, average in broker_averages(view).items():
            await self._put(paths.time_average(broker_id), average.to_json())
        for gone in set(await self._store.children(paths.BROKER_TIME_AVERAGE)) - set(view.brokers):
            with contextlib.suppress(NotFound):
                await self._store.delete(paths.time_average(gone))

    def _worth_writing(self) -> list[tuple[str, BundleData]]:
        """The bundles with the most traffic, in the order of ``BundleData.compareTo``."""
        ordered = sorted(
            self._load.bundles().items(), key=lambda item: bundle_key(item[1]), reverse=True
        )
        wanted = self._bundles_a_broker()
        if wanted <= 0:
            return ordered
        return ordered[: wanted * max(1, len(self._load.reports))]

    async def _put(self, path: str, value: Mapping[str, Any]) -> None:
        await self._store.put(path, json.dumps(value, separators=(",", ":")).encode())

    def _on_change(self, notification: Notification) -> None:
        if notification.path.startswith(paths.BROKERS + "/"):
            self._news.set()

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._load.refresh()
            except MetadataError as error:
                log.warning("load reports were not read: %s", error)

    async def _write_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._write_every_s)
            if self._is_leader():
                try:
                    await self.write()
                except MetadataError as error:
                    log.warning("load averages were not written: %s", error)
