"""One connection's watches of topic lists (PIP-145), which notify pattern consumers of changes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.connection.client_link import ClientLink, log
from counterpoise.broker.connection.listings import Listings
from counterpoise.broker.connection.ports import ConnectionConfig, Services
from counterpoise.broker.connection.topics_hash import topics_hash
from counterpoise.broker.namespaces.catalog import matching
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.wire import encode
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import commands_pb2 as commands

T = TypeVar("T")

WATCHES_MAX: Final = 100
"""The most watches on one connection: each keeps a list of topics, and reads it at each change."""


RETRY_S: Final = 1.0
"""Seconds before a watch reads its list again, if the metadata store could not be reached."""


class TopicListWatch:
    """One watch of a namespace's topic list: its client is sent every change."""

    def __init__(
        self,
        link: ClientLink,
        services: Services,
        listings: Listings,
        event: commands.CommandWatchTopicList,
    ) -> None:
        self._link = link
        self._listings = listings
        self._watcher_id = event.watcher_id
        self._namespace = NamespaceName.parse(event.namespace)
        self._pattern = event.topics_pattern
        self._known: Sequence[TopicName] = ()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._unsubscribe = services.catalog.on_topics_changed(self._namespace, self._changed.set)

    async def begin(self, known_hash: str, request_id: int) -> bytes:
        """List the topics; returns the frame that answers WATCH_TOPIC_LIST.

        The frame has no topics if the client's list, whose hash is ``known_hash``, is the same.
        """

        async def answer(now: Sequence[TopicName]) -> bytes:
            self._known = now
            names = await self._names()
            digest = topics_hash(names)
            shown = names if digest != known_hash else ()
            return encode.frame(
                commands.CommandWatchTopicListSuccess(
                    request_id=request_id,
                    watcher_id=self._watcher_id,
                    topic=shown,
                    topics_hash=digest,
                )
            )

        return await self._listed(answer)

    def go_on(self) -> None:
        """From now on send the client which topics appeared and disappeared."""
        if not self._stopped:
            self._task = self._link.keep("a watch of topics", self._follow)

    async def _listed(self, write: Callable[[Sequence[TopicName]], Awaitable[T]]) -> T:
        async with self._link.listing:
            await self._link.outbox.room()
            return await self._listings.answer(self._namespace, "PERSISTENT", write)

    async def _names(self) -> list[str]:
        return [str(each) for each in await self._listings.matching(self._known, self._pattern)]

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._listed(self._send_difference)
            except BrokerError as error:
                log.info("%s: a watch of topics waits: %s", self._link.address, error)
                await asyncio.sleep(RETRY_S)
                self._changed.set()

    async def _send_difference(self, now: Sequence[TopicName]) -> None:
        new, gone = (
            [str(each) for each in matching(some, self._pattern)]
            for some in self._listings.difference(self._known, now)
        )
        self._known = now
        if new or gone:
            digest = topics_hash(await self._names())
            update = commands.CommandWatchTopicUpdate(
                watcher_id=self._watcher_id, new_topics=new, deleted_topics=gone, topics_hash=digest
            )
            self._link.outbox.write(encode.frame(update))

    def stop(self) -> None:
        """Stop listening for changes, and send the client nothing more."""
        self._stopped = True
        self._unsubscribe()
        if self._task is not None:
            self._task.cancel()


class TopicListWatches:
    """Handles WATCH_TOPIC_LIST and WATCH_TOPIC_LIST_CLOSE."""

    def __init__(
        self, link: ClientLink, services: Services, config: ConnectionConfig, listings: Listings
    ) -> None:
        self._link = link
        self._listings = listings
        self._services = services
        self._config = config
        self._watches: dict[int, TopicListWatch] = {}

    async def open(self, event: commands.CommandWatchTopicList) -> bytes:
        """WATCH_TOPIC_LIST: list the topics, then report every change."""
        if not self._config.pattern_evaluation:
            raise BrokerError(ServerError.NotAllowedError, "Topic lists are not watched here")
        if len(event.topics_pattern) > self._config.pattern_length_max:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"Pattern longer than maximum: {self._config.pattern_length_max}",
            )
        await self._link.permits.namespace(
            NamespaceName.parse(event.namespace),
            "GET_TOPICS",
            "Client is not authorized to watchTopicList",
        )
        if self._link.closed:
            raise BrokerError(ServerError.ServiceNotReady, "The client has disconnected")
        self._stop(event.watcher_id)
        if len(self._watches) >= WATCHES_MAX:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"More than {WATCHES_MAX} watches of topics on one connection; list them instead",
            )
        watch = self._watches[event.watcher_id] = TopicListWatch(
            self._link, self._services, self._listings, event
        )
        try:
            answer = await watch.begin(event.topics_hash, event.request_id)
        except BaseException:
            if self._watches.get(event.watcher_id) is watch:
                self._stop(event.watcher_id)
            raise
        watch.go_on()
        return answer

    def close(self, event: commands.CommandWatchTopicListClose) -> None:
        """WATCH_TOPIC_LIST_CLOSE: stop a watch."""
        self._stop(event.watcher_id)
        self._link.outbox.write(encode.success(event.request_id))

    def _stop(self, watcher_id: int) -> None:
        watch = self._watches.pop(watcher_id, None)
        if watch is not None:
            watch.stop()

    def stop_all(self) -> None:
        """Stop all watches, since the connection is closed."""
        for watcher_id in list(self._watches):
            self._stop(watcher_id)
