"""A persistent topic: appends to its log, and passes committed entries to its subscriptions."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic import ports, transactional
from counterpoise.broker.topic.acks import AckState, restored_acks
from counterpoise.broker.topic.backlog_quota import Backlog, pass_over_trimmed
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.deduplication import Deduplication
from counterpoise.broker.topic.lookback import index_of, start_index
from counterpoise.broker.topic.producer import Producer
from counterpoise.broker.topic.receipts import Published, refuse_all, send_receipts
from counterpoise.broker.topic.shared_parts import SharedByTopics
from counterpoise.broker.topic.stored_message import last_message_id
from counterpoise.broker.topic.subscription import Subscription
from counterpoise.broker.topic.topic_compaction import COMPACTION, TopicCompaction
from counterpoise.broker.topic.topic_rules import TopicRules
from counterpoise.names.topic import TopicName
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import CursorState, EntryGroup, Lost, Position, StorageError
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import Send
from counterpoise.wire.values import InitialPosition

_log = logging.getLogger(__name__)


class PersistentTopic(transactional.TransactionalTopic):
    """A topic whose messages are stored before producers get receipts.

    ``on_lost`` is called when the log was fenced or failed: the topic has to be loaded again.
    """

    log: Log[Published]

    def __init__(
        self,
        name: TopicName,
        commons: SharedByTopics,
        *,
        on_lost: "Callable[[PersistentTopic, StorageError], None]",
    ) -> None:
        """The log is passed to `start`, because the log needs this topic as its listener."""
        super().__init__(name, commons)
        self._subscriptions: dict[str, Subscription] = {}
        self._unsaved: set[str] = set()
        """Durable subscriptions that are new, by name, and not known to be on disk."""
        self._on_lost = on_lost
        self.terminated = False
        """Whether nothing more may ever be published; consumers go on to the end."""
        self.offload_failed = False
        """Whether an offload was requested since the topic was loaded: all fail."""
        self._ending = False
        self._looks = False
        self._known: Deduplication | None = None
        """The producers' sequence ids; None until read, or without deduplication."""
        self.compaction = TopicCompaction(self)

    def start(self, log: Log[Published], *, terminated: bool = False) -> None:
        """Start with an open log, and restore its durable subscriptions."""
        self.log = log
        self.terminated = terminated
        for state in log.cursors.values():
            if not transactional.is_reserved(state.name):
                self._add_subscription(state.name, restored_acks(log, state), state=state)
                self._restore_acks(self._subscriptions[state.name])

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """The subscriptions by name."""
        return self._subscriptions

    def apply(self, rules: TopicRules) -> None:
        """Apply a change of policies; if they enable compaction, create its subscription."""
        super().apply(rules)
        self.log.set_persistence(rules.persistence)
        if rules.compaction_bytes and COMPACTION not in self._subscriptions:
            self._add_subscription(COMPACTION, AckState(self.log.begin - 1))

    def backlog(self) -> Backlog:
        """The backlog of the topic's durable subscriptions, without the one for compaction."""
        subscriptions = self._subscriptions.values()
        durable = [each for each in subscriptions if each.durable and each.name != COMPACTION]
        return Backlog(self.log, durable, self.commons.wall)

    @property
    def deduplication(self) -> Deduplication | None:
        """The sequence ids of the topic's producers; None if it does not deduplicate."""
        return self._known

    async def make_ready(self, request: ports.ProducerRequest) -> None:
        """Check the backlog quota, and prepare what a producer's request needs.

        That is the sequence ids if the topic deduplicates, and the producer's initial subscription
        (PIP-124). Raises `BrokerError`.
        """
        try:
            if self.rules.quotas:
                await self.backlog().require_quota(self.rules.quotas)
            await self._recover_sequence_ids()
        except StorageError as failure:
            # Another broker may have the topic by now, and may have deleted what is read here.
            raise BrokerError(ServerError.PersistenceError, str(failure)) from failure
        name = request.initial_subscription
        if name and name not in self._subscriptions:
            if not self.rules.creates_subscriptions:
                raise BrokerError(
                    ServerError.NotAllowedError,
                    "Could not create the initial subscription due to the auto subscription "
                    "creation is not allowed (allowAutoSubscriptionCreation)",
                )
            await self.create_subscription(name, InitialPosition.Earliest)

    def add_producer(self, request: ports.ProducerRequest, sink: ports.ProducerSink) -> Producer:
        """Attach a producer; raises `BrokerError` (TopicTerminatedError, or as `Topic` does)."""
        if self.terminated:
            raise BrokerError(ServerError.TopicTerminatedError, "Topic was already terminated")
        if self._ending:
            raise BrokerError(ServerError.ServiceNotReady, f"Topic {self.name} is being terminated")
        producer = super().add_producer(request, sink)
        if self._known is not None:
            producer.last_sequence_id = self._known.stored.get(producer.name, -1)
        return producer

    async def terminate(self, for_good: Callable[[Position], Awaitable[None]]) -> Position:
        """Terminate the topic: accept no more messages. Returns the last entry's position.

        ``for_good`` records the termination at that position for all brokers. Entries that are not
        stored yet are refused: their producers reconnect and get TopicTerminatedError.
        """
        if not self.terminated:
            self.check_open()
            self._ending = True
            try:
                self._close_producers(None)
                await self._drain()
                await for_good(self.log.position(self.log.end - 1))
                self.terminated = True
            finally:
                self._ending = False
            self._notify_of_end()
        return self.log.position(self.log.end - 1)

    async def subscribe(
        self, request: ports.SubscribeRequest, sink: ports.ConsumerSink
    ) -> Consumer:
        """Attach a consumer, creating its subscription if necessary; raises `BrokerError`."""
        consumer = await super().subscribe(request, sink)
        self._notify_of_end()
        return consumer

    def _notify_of_end(self) -> None:
        """Send REACHED_END_OF_TOPIC to consumers that acknowledged all of a terminated topic."""
        if not self.terminated:
            return
        for subscription in self._subscriptions.values():
            if not subscription.backlog:
                for consumer in subscription.consumers:
                    if not consumer.is_end_notified:
                        consumer.is_end_notified = True
                        consumer.sink.reached_end(consumer.consumer_id)

    def accept(self, producer: Producer, sends: Sequence[Send]) -> None:
        """Store a producer's entries, which it sent in this order."""
        if self.transactions is not None and self.transactions.keeps(producer, sends):
            return
        if self._known is not None:
            sends = self._known.admit(producer, sends)
        entries: list[bytes] = []
        messages: list[int] = []
        contexts: list[Published] = []
        for _, sequence_id, highest_sequence_id, count, is_chunk, entry in sends:
            if is_chunk:
                producer.count_chunk(len(entry))
            entries.append(entry)
            messages.append(count)
            contexts.append((producer, sequence_id, highest_sequence_id))
        try:
            self.log.extend(entries, messages, contexts)
        except StorageError as failure:
            self.failed(failure, ())

    def committed(self, group: EntryGroup[Published]) -> None:
        """Called by the log when it has stored entries: send their receipts, then deliver them."""
        count = len(group.contexts)
        self.commons.publish_latency.count(count, group.took_s)
        send_receipts(group, self.meter_in, self._known)
        if self._known is not None and self._known.is_due(count):
            self._known.save(self.log)
        if self.transactions is not None:
            self.transactions.committed(group)
        for subscription in self._subscriptions.values():
            subscription.wake()

    def refused(self, error: StorageError, contexts: Sequence[Published]) -> None:
        """Called by the log if entries could not be stored, so their producers have to reconnect.

        As in Pulsar, each entry gets an error and then the producer is closed: entries that it sent
        later must not be stored before these.
        """
        if self._known is not None:
            for publisher in dict.fromkeys(each[0] for each in contexts):
                self._known.refuse(publisher.name)
        refuse_all(BrokerError(ServerError.PersistenceError, str(error)), contexts)

    def lost(self, lost: Lost) -> None:
        """Called by the log if stored entries cannot be read any more: subscriptions skip them."""
        for subscription in self._subscriptions.values():
            subscription.pass_over([lost])

    def failed(self, error: StorageError, contexts: Sequence[Published]) -> None:
        """Called by the log if it failed: the topic closes, and these entries get no receipt."""
        for publisher, _, _ in contexts:
            publisher.unanswered()
        if self.closing:
            return
        self.closing = True
        self.end_markers()
        _log.warning("%s: %s", self.name, error)
        self._on_lost(self, error)

    async def _subscription_for(self, request: ports.SubscribeRequest) -> Subscription:
        transactional.require_subscription_name(request.subscription)
        self.commons.limits.subscribe.admit(
            self.name, request.address, request.consumer_name, request.consumer_id
        )
        if request.read_compacted:
            await self.compaction.admit(request.type)
            self.check_open()
        subscription = self._subscriptions.get(request.subscription)
        if subscription is None:
            if request.durable:
                self.rules.admit_created_by_consumer(self.name, request.subscription)
            self.rules.admit_subscription(self.name, len(self._subscriptions))
            acks = AckState(await start_index(self.log, request) - 1)
            self.check_open()
            # Another consumer may have created it while this waited for a read.
            subscription = self._subscriptions.get(request.subscription)
            if subscription is None:
                subscription = self._add_subscription(request.subscription, acks, request=request)
        if subscription.durable is not request.durable:
            kind = "Durable" if subscription.durable else "NonDurable"
            why = f"{kind} subscription with the same name already exists: {subscription.name}"
            raise BrokerError(ServerError.NotAllowedError, why)
        await self._saved(subscription.name)
        return subscription

    async def _saved(self, name: str) -> None:
        """Wait until a new durable subscription is on disk, and so survives this broker."""
        if name not in self._unsaved:
            return
        await self._subscriptions[name].stored()
        self._unsaved.discard(name)
        self.check_open()

    async def create_subscription(
        self,
        name: str,
        initial: InitialPosition | Position = InitialPosition.Latest,
        properties: Mapping[str, str] | None = None,
    ) -> Subscription:
        """Create a durable subscription without a consumer; raises `BrokerError` if it exists.

        Once this returns, the subscription survives this broker.
        """
        transactional.require_subscription_name(name)
        self.check_open()
        if name in self._subscriptions:
            await self._saved(name)
            raise BrokerError(ServerError.ConsumerBusy, f"Subscription {name} already exists")
        self.rules.admit_subscription(self.name, len(self._subscriptions))
        if isinstance(initial, InitialPosition):
            at = self.log.begin if initial is InitialPosition.Earliest else self.log.end
        else:
            at = index_of(self.log, initial)
        created = self._add_subscription(name, AckState(at - 1), properties=properties)
        await self._saved(name)
        return created

    def _add_subscription(
        self,
        name: str,
        acks: AckState,
        *,
        request: ports.SubscribeRequest | None = None,
        state: CursorState | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Subscription:
        if request is not None:
            properties = request.properties
        elif state is not None:
            properties = state.properties
        subscription = Subscription(
            name,
            self.name,
            self.log,
            acks,
            durable=request is None or request.durable,
            properties=properties or {},
            commons=self.commons,
            meter_out=self.meter_out,
            on_ended=self._subscription_ended,
            on_advanced=self._advanced,
            compacted=self.compaction.view,
        )
        self._subscriptions[name] = subscription
        subscription.pass_over(self.log.lost)
        if self.transactions is not None:
            self.transactions.show(subscription)
        if subscription.durable and state is None:
            self._unsaved.add(name)
            self.log.save_cursor(subscription.cursor_state())
        return subscription

    def _subscription_ended(self, name: str) -> None:
        self._subscriptions.pop(name, None)
        self._unsaved.discard(name)
        self._last_used = self.commons.wall()
        if name == COMPACTION:
            self.compaction.forget()

    def _advanced(self) -> None:
        """Called when a subscription has advanced: check all of them once in this turn."""
        if not self._looks:
            self._looks = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._looks = False
        marks = [s.acks.mark for s in self._subscriptions.values() if s.durable]
        if marks and self.rules.lifetime.retention.keeps_nothing:
            self._trim(min(marks) + 1)
        self._notify_of_end()

    async def _recover_sequence_ids(self) -> None:
        if not self.rules.deduplicates:
            self._known = None
        elif self._known is None:
            known = await Deduplication.recover(self.log, self.commons.options)
            self._known = self._known or known

    async def trim(self) -> None:
        """Delete ledgers that no durable subscription needs and no retention policy keeps."""
        await self._recover_sequence_ids()
        marks = [s.acks.mark for s in self._subscriptions.values() if s.durable]
        done, kept = min(marks, default=self.log.end - 1) + 1, self.rules.lifetime.retention
        self._trim(await kept.first_kept(self.log, done, self.commons.wall()))

    async def truncate(self) -> None:
        """Acknowledge everything for every subscription, then delete all ledgers but the last."""
        await self._recover_sequence_ids()
        for each in [*self._subscriptions.values()]:
            each.skip(None)
        self._trim(self.log.end)

    def _trim(self, before: int) -> None:
        if self.closing or (self.rules.deduplicates and self._known is None):
            # In the second case the sequence ids of the entries to delete are not read yet.
            return
        kept = self.compaction.kept_from()
        if self._known is not None:
            self._known.save(self.log)
        self.log.trim(before if kept is None else min(before, kept))
        pass_over_trimmed(self.log, self._subscriptions.values())

    @property
    def _entries(self) -> int:
        return self.log.end - self.log.begin

    def last_message_id(self) -> Position:
        """The position of the topic's last entry; (-1, -1) if it has none."""
        return last_message_id(self.log)

    async def _drain(self) -> None:
        await self.log.drain()

    async def _close_storage(self) -> None:
        for subscription in self._subscriptions.values():
            subscription.save(whole=True)
            subscription.close()
        if self._known is not None:
            self._known.save(self.log)
        self.end_markers()
        try:
            await self.log.close()
        except StorageError as error:
            # The next owner finds every message, and the acknowledgements that were saved before.
            _log.warning(
                "%s: closed without saving its last acknowledgements, so their messages are "
                "redelivered: %s",
                self.name,
                error,
            )
