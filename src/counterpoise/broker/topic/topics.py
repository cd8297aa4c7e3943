"""The topics that a broker has loaded: load, unload by bundle, terminate, delete."""

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.clock import WallClock
from counterpoise.broker.base.errors import BrokerError, store_errors_as_not_ready
from counterpoise.broker.base.settings import LiveSemaphore
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import no_rates
from counterpoise.broker.topic.compaction import Compaction
from counterpoise.broker.topic.dispatch.delivery_turns import DeliveryTurns
from counterpoise.broker.topic.leaving import DELETION_S, being_deleted, leave_all
from counterpoise.broker.topic.log_name import log_name
from counterpoise.broker.topic.meter import RateClock
from counterpoise.broker.topic.nonpersistent import NonPersistentTopic
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.persistent import PersistentTopic
from counterpoise.broker.topic.ports import OwnedBundles, ServiceUrls, TopicMetadata
from counterpoise.broker.topic.preparation import TopicPreparation
from counterpoise.broker.topic.receipts import Published
from counterpoise.broker.topic.shared_parts import PublishLatency, SharedByTopics
from counterpoise.broker.topic.topic import Topic
from counterpoise.broker.topic.topic_rules import persistence_of, rules_of
from counterpoise.names.bundle import BundleName
from counterpoise.names.callbacks import Clock
from counterpoise.names.topic import TopicName
from counterpoise.storage.grouplog import Log
from counterpoise.storage.ledger_store import LedgerStore
from counterpoise.storage.port import LedgerIds, Persistence, Position, StorageError
from counterpoise.wire.errors import ServerError

UNLOAD_TIMEOUT_S = 60.0
"""The most seconds to wait until a topic, or a bundle's topics, are closed
(``namespaceBundleUnloadingTimeoutMs``)."""
CLOSE_S = 10.0
"""For how many seconds a stopping broker waits for its topics if the disk does not answer."""
_DEFAULTS = TopicOptions()
_log = logging.getLogger(__name__)


class TopicRegistry:
    """Loads, unloads and deletes the topics of one broker."""

    def __init__(
        self,
        store: LedgerStore,
        ownership: OwnedBundles,
        catalog: TopicMetadata,
        *,
        owner: str,
        cluster: str = "standalone",
        options: TopicOptions = _DEFAULTS,
        live: Callable[[], TopicOptions] | None = None,
        background: BackgroundTasks | None = None,
        now: Clock = time.monotonic,
        limits: PublishLimits | None = None,
        policies: Callable[[TopicName], Awaitable[Mapping[str, Any] | None]] | None = None,
        stays: Callable[[TopicName], bool] = lambda _: False,
        compaction: Compaction | None = None,
        ids: LedgerIds | None = None,
    ) -> None:
        """``owner`` names this broker in messages about fencing; ``now`` is the clock of rates.

        ``live`` returns the current options, ``policies`` reads a topic's policies. Topics for
        which ``stays`` is True are not unloaded with their bundle. ``compaction`` compacts a system
        topic when it is loaded. ``ids`` gives new ledgers their ids.
        """
        self._stays = stays
        self._compaction = compaction
        self._store = store
        self._ids = ids
        self._ownership = ownership
        self._catalog = catalog
        self._owner = owner
        self._background = background or BackgroundTasks()
        self._topics: dict[TopicName, Topic] = {}
        self._loading: dict[TopicName, asyncio.Task[Topic]] = {}
        self._loads = LiveSemaphore(lambda: self._live().loads_max)
        self._closing: set[asyncio.Task[None]] = set()
        self._deleting: dict[TopicName, asyncio.Task[None]] = {}
        # Producer names are unique in the cluster without a shared counter: every broker process
        # draws the middle part.
        self._name_prefix = f"{cluster}-{secrets.token_hex(4)}"
        self._names = itertools.count()
        self._policies, self._live = policies, live or (lambda: options)
        self.clock = RateClock(now)
        self.limits = limits or PublishLimits(owner, no_rates)
        self._preparation = TopicPreparation(store, catalog, self.limits, policies, ids)
        self.wall = WallClock()
        self.publish_latency = PublishLatency()
        self._commons = SharedByTopics(
            options,
            self.clock,
            DeliveryTurns(),
            self.limits,
            self._new_producer_name,
            self.wall,
            self.publish_latency,
        )

    @property
    def loaded(self) -> Mapping[TopicName, Topic]:
        """The topics that are loaded now, by name."""
        return MappingProxyType(self._topics)

    async def get(self, name: TopicName, *, create: bool = True, by_policies: bool = True) -> Topic:
        """The topic, loaded if necessary.

        Raises `BrokerError`: ServiceNotReady if this broker does not own its bundle, TopicNotFound
        if it does not exist and ``create`` is False or policies forbid it (``by_policies``).
        """
        topic = await self._get(name, create, by_policies)
        await self._read_policies(topic)
        return topic

    async def wait_for_deletion(self, name: TopicName) -> None:
        """Wait until the topic is not being deleted any more, for `DELETION_S` at most."""
        if (deletion := self._deleting.get(name)) is not None:
            await asyncio.wait([deletion], timeout=DELETION_S)

    async def _read_policies(self, topic: Topic) -> None:
        if self._policies is not None:
            policies = await self._policies(topic.name)
            if not topic.closing:
                topic.apply(rules_of(policies, self._live()))

    async def _persistence(self, name: TopicName) -> Persistence | None:
        return None if self._policies is None else persistence_of(await self._policies(name))

    async def _get(self, name: TopicName, create: bool, by_policies: bool) -> Topic:
        topic = self._topics.get(name)
        if topic is not None and not topic.closing:
            return topic
        await self._ownership.approach(name, partial(self._is_released, name))
        if name in self._deleting:
            raise being_deleted(name)
        loading = self._loading.get(name)
        if loading is None:
            loading = self._background.start(
                f"loading {name}", self._load(name, create, by_policies), expected=(BrokerError,)
            )
            self._loading[name] = loading
            loading.add_done_callback(lambda _: self._loading.pop(name, None))
        # One impatient client must not cancel the load for the others.
        return await asyncio.shield(loading)

    async def _load(self, name: TopicName, create: bool, by_policies: bool) -> Topic:
        async with self._loads.current():
            topic = self._topics.get(name)
            if topic is not None:
                topic.check_open()
                return topic
            self._check_owned(name)
            self._commons.options.check_served(name)
            if name.is_persistent and await self._catalog.exists(name):
                return await self._open(name)
            if not create:
                raise BrokerError(ServerError.TopicNotFound, f"Topic {name} not found")
            if by_policies:
                await self._catalog.create(name)
            opening = self._open(name, is_new=True) if name.is_persistent else self._begin(name)
            return await opening

    async def _is_released(self, name: TopicName) -> bool:
        if name in self._topics:
            return True
        try:
            return name.is_persistent and await self._store.is_released(log_name(name))
        except StorageError as error:
            _log.info("%s: cannot read whether its former owner has closed it: %s", name, error)
            return False

    def _check_owned(self, name: TopicName) -> None:
        if not self._ownership.owns(name):
            why = f"Namespace bundle for topic ({name}) not served by this instance: {self._owner}"
            raise BrokerError(ServerError.ServiceNotReady, why)

    async def _begin(self, name: TopicName) -> Topic:
        topic = NonPersistentTopic(name, self._commons)
        await self.limits.begin(topic)
        try:
            self._check_owned(name)
        except BrokerError:
            self.limits.end(topic)
            raise
        topic.start()
        self._topics[name] = topic
        return topic

    async def _open(self, name: TopicName, *, is_new: bool = False) -> Topic:
        topic = PersistentTopic(name, self._commons, on_lost=self._lost)
        await self.limits.begin(topic)
        try:
            with store_errors_as_not_ready():
                log = await self._store.open(
                    log_name(name), self._owner, topic, self._ids, await self._persistence(name)
                )
            try:
                await self._start(topic, log, is_new)
            except BaseException:
                with contextlib.suppress(StorageError):
                    await log.close()
                raise
        except BaseException as error:
            self.limits.end(topic)
            if isinstance(error, StorageError):
                raise BrokerError(ServerError.PersistenceError, str(error)) from error
            raise
        self._topics[name] = topic
        self._ownership.opened(name)
        return topic

    async def _start(self, topic: PersistentTopic, log: Log[Published], is_new: bool) -> None:
        """Restore a topic from its open log; raises `BrokerError` if it is another broker's now."""
        # Read now that the log is open: a former owner cannot terminate the topic any more.
        topic.start(log, terminated=not is_new and await self._catalog.terminated(topic.name))
        await topic.recover_transactions()
        # If the bundle got another owner meanwhile, that has fenced this log, or will.
        self._check_owned(topic.name)
        if self._compaction is not None and self._compaction.topic == topic.name:
            await self._compaction.compact(topic)
        # The log may have been fenced before this broker knew of the bundle's new owner.
        topic.check_open()

    async def policies_changed(self, names: Iterable[TopicName]) -> None:
        """Apply the new policies of these topics, as far as they are loaded.

        A topic that is being unloaded reads them when its next owner loads it.
        """
        for name in names:
            topic = self._topics.get(name)
            if topic is not None and not topic.closing:
                await self._read_policies(topic)

    async def prepare(self, names: Iterable[TopicName], *, within_s: float | None = None) -> int:
        """Read in advance what loading these topics needs, while their owner still serves them.

        Returns how many topics were not read within ``within_s`` seconds, if given.
        """
        missing = [name for name in names if name not in self._topics]
        return await self._preparation.run(missing, within_s)

    def _new_producer_name(self) -> str:
        return f"{self._name_prefix}-{next(self._names)}"

    def _lost(self, topic: PersistentTopic, error: StorageError) -> None:
        """Close a topic whose log was fenced or failed, and make its clients reconnect."""
        self._drop(topic, None)
        self._close_later(topic.name, topic.leave(None))

    def _close_later(self, what: object, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Close topics in a task of its own, which goes on if its caller is cancelled."""
        closing = self._background.start(f"closing {what}", work)
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        return closing

    async def unload_bundle(
        self,
        bundle: BundleName,
        assigned_broker_url: ServiceUrls | None,
        *,
        timeout_s: float = UNLOAD_TIMEOUT_S,
    ) -> int:
        """Close every topic of the bundle, as `Topic.leave` does; returns their number.

        `OwnedBundles.owns` must already refuse the bundle, so that no topic is loaded meanwhile. If
        the disk does not respond in time, clients are redirected nevertheless: the next owner
        fences the logs.
        """
        tasks: list[tuple[TopicName, asyncio.Task[Any]]]
        tasks = [*self._loading.items(), *self._deleting.items()]
        under_way = [task for name, task in tasks if name in bundle]
        topics: list[Topic] = []
        try:
            async with asyncio.timeout(timeout_s):
                if under_way:
                    # Those that take longer are not cancelled: clients wait for their answers.
                    await asyncio.wait(under_way)
                topics = self._loaded_in(bundle)
                leaving = leave_all(topics, assigned_broker_url)
                await asyncio.shield(self._close_later(bundle, leaving))
        except TimeoutError:
            _log.warning("%s: its topics did not close within %g s", bundle, timeout_s)
        finally:
            # However this ends, no client stays with a topic that is not served here any more.
            topics = topics or self._loaded_in(bundle)
            for topic in topics:
                self._drop(topic, assigned_broker_url)
        return len(topics)

    def _loaded_in(self, bundle: BundleName) -> list[Topic]:
        # By range, not by asking for a topic's bundle: during a split it may have none.
        found = [each for each in self._topics if each in bundle and not self._stays(each)]
        return [self._topics[name] for name in found]

    async def terminate(self, name: TopicName) -> Position:
        """Terminate a topic; returns the position of its last entry.

        Its consumers continue to the end, and are notified there. Raises `BrokerError`, after which
        it may be tried again.
        """
        topic = await self.get(name, create=False)
        if not isinstance(topic, PersistentTopic):
            raise BrokerError(ServerError.NotAllowedError, f"{name} stores nothing: it has no end")
        return await topic.terminate(partial(self._catalog.terminate, name))

    async def unload_topic(self, name: TopicName) -> None:
        """Close one topic; its clients reconnect, and the next `get` loads it again."""
        if (topic := self._topics.get(name)) is not None:
            await self._unload(topic)

    async def _unload(self, topic: Topic) -> None:
        try:
            async with asyncio.timeout(UNLOAD_TIMEOUT_S):
                await asyncio.shield(self._close_later(topic.name, topic.leave(None)))
        except TimeoutError:
            raise BrokerError(
                ServerError.PersistenceError,
                f"Topic {topic.name} did not close within {UNLOAD_TIMEOUT_S:g} s",
            ) from None
        finally:
            # However this ends: a closed topic serves no client, and must not block its next load.
            self._drop(topic, None)

    def _drop(self, topic: Topic, assigned_broker_url: ServiceUrls | None) -> None:
        topic.disconnect(assigned_broker_url)
        self.limits.end(topic)
        if self._topics.get(topic.name) is topic:
            del self._topics[topic.name]

    async def delete(self, name: TopicName, *, force: bool = False, if_idle: bool = False) -> None:
        """Delete a topic with its messages; refused while it is in use unless forced.

        ``if_idle``: only if its policies still delete it (`Topic.is_idle`).

        It cannot be loaded meanwhile, since its log is about to be deleted. A deletion continues
        even if the caller is cancelled.
        """
        if name in self._deleting:
            raise being_deleted(name)
        deleting = self._background.start(
            f"deleting {name}", self._delete(name, force, if_idle), expected=(BrokerError,)
        )
        self._deleting[name] = deleting
        deleting.add_done_callback(lambda _: self._deleting.pop(name, None))
        await asyncio.shield(deleting)

    async def _delete(self, name: TopicName, force: bool, if_idle: bool) -> None:
        if (loading := self._loading.get(name)) is not None:
            await asyncio.wait([loading])
        topic = self._topics.get(name)
        if if_idle and (topic is None or topic.closing or not topic.is_idle()):
            raise BrokerError(ServerError.NotAllowedError, f"{name} is in use again")
        if topic is not None:
            if (attached := topic.attached_clients()) and not force:
                why = f"Topic has {attached} connected producers/consumers"
                raise BrokerError(ServerError.NotAllowedError, why)
            await self._unload(topic)
        if name.is_persistent:
            # The log is deleted first: left behind, it would be that of a new topic of this name.
            try:
                await self._store.delete(log_name(name))
            except StorageError as error:
                raise BrokerError(ServerError.PersistenceError, str(error)) from error
        await self._catalog.delete(name)
        if name.is_persistent and if_idle and self._live().deletes_inactive_partitioned:
            await self._catalog.delete_if_unparted(name)

    async def close(self) -> None:
        """Unload all topics, because the broker stops; waits for the disk for `CLOSE_S` at most."""
        under_way = [*self._loading.values(), *self._deleting.values(), *self._closing]
        try:
            async with asyncio.timeout(CLOSE_S):
                if under_way:
                    await asyncio.wait(under_way)
                await leave_all(list(self._topics.values()), None)
        except TimeoutError:
            _log.warning("topics did not close within %g s; the broker stops without them", CLOSE_S)
        for topic in self._topics.values():
            topic.disconnect(None)
        self._topics.clear()
        self.limits.stop()

    def abandon(self) -> None:
        """Drop all topics without closing them, as a killed process does (for tests)."""
        for topic in self._topics.values():
            topic.closing = True
        self._topics.clear()
        self.limits.stop()
