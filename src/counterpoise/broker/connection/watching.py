"""A connection's watches of topic lists (PIP-145): who consumes by pattern hears of new topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from counterpoise.broker.connection.link import Link, log
from counterpoise.broker.connection.ports import ConnectionConfig, Services
from counterpoise.broker.connection.topics_hash import topics_hash
from counterpoise.broker.errors import BrokerError
from counterpoise.broker.namespaces.catalog import matching
from counterpoise.names.namespace import NamespaceName
from counterpoise.wire import encode
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import CloseWatch, WatchTopics

WATCHES_MAX: Final = 100
"""Watches on one connection: each remembers a namespace's topics, and lists them at each change."""


class Watch:
    """One watch: lists anew after each change, and tells the client the difference."""

    def __init__(self, link: Link, services: Services, event: WatchTopics) -> None:
        self._link = link
        self._services = services
        self._watcher_id = event.watcher_id
        self._namespace = NamespaceName.parse(event.namespace)
        self._pattern = event.pattern
        self._known: set[str] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._unsubscribe: Callable[[], None] = services.on_topics_changed(
            self._namespace, self._changed.set
        )

    async def start(self) -> set[str]:
        """Return the topics of this moment; from now on differences are sent."""
        self._known = await self._list()
        if not self._stopped:
            self._task = self._link.keep("a watch of topics", self._follow)
        return self._known

    async def _list(self) -> set[str]:
        async with self._link.listing:
            await self._link.outbox.room()
            found = await self._services.catalog.topics_of(self._namespace)
            return {str(topic) for topic in matching(found, self._pattern)}

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                now = await self._list()
            except BrokerError as error:
                # The store cannot be reached; the change that ends this wakes the watch again.
                log.info("%s: a watch of topics waits: %s", self._link.address, error)
                continue
            new, gone = now - self._known, self._known - now
            self._known = now
            if new or gone:
                self._link.outbox.write(
                    encode.watch_update(
                        self._watcher_id, sorted(new), sorted(gone), topics_hash(now)
                    )
                )

    def stop(self) -> None:
        """Hear and say nothing more."""
        self._stopped = True
        self._unsubscribe()
        if self._task is not None:
            self._task.cancel()


class Watching:
    """Serves WATCH_TOPIC_LIST and WATCH_TOPIC_LIST_CLOSE."""

    def __init__(self, link: Link, services: Services, config: ConnectionConfig) -> None:
        self._link = link
        self._services = services
        self._config = config
        self._watches: dict[int, Watch] = {}

    def open(self, event: WatchTopics) -> None:
        """WATCH_TOPIC_LIST: list the topics, then tell of every change."""
        self._link.answer(self._open(event), partial(encode.error, event.request_id))

    async def _open(self, event: WatchTopics) -> bytes:
        if not self._config.pattern_evaluation:
            raise BrokerError(ServerError.NotAllowedError, "Topic lists are not watched here")
        if len(event.pattern) > self._config.pattern_length_max:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"Pattern longer than maximum: {self._config.pattern_length_max}",
            )
        await self._link.permits.namespace(
            NamespaceName.parse(event.namespace),
            "GET_TOPICS",
            "Client is not authorized to watchTopicList",
        )
        self._stop(event.watcher_id)
        if len(self._watches) >= WATCHES_MAX:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"More than {WATCHES_MAX} watches of topics on one connection; list them instead",
            )
        watch = self._watches[event.watcher_id] = Watch(self._link, self._services, event)
        try:
            names = sorted(await watch.start())
        except BaseException:
            self._stop(event.watcher_id)
            raise
        digest = topics_hash(names)
        return encode.watch_started(
            event.request_id,
            event.watcher_id,
            names if digest != event.known_hash else (),
            digest,
        )

    def close(self, event: CloseWatch) -> None:
        """WATCH_TOPIC_LIST_CLOSE: tell nothing more."""
        self._stop(event.watcher_id)
        self._link.outbox.write(encode.success(event.request_id))

    def _stop(self, watcher_id: int) -> None:
        watch = self._watches.pop(watcher_id, None)
        if watch is not None:
            watch.stop()

    def stop_all(self) -> None:
        """The connection is gone."""
        for watcher_id in list(self._watches):
            self._stop(watcher_id)
