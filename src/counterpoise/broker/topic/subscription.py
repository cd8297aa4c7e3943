"""One subscription: its cursor, its dispatcher, and the rules for attaching and detaching."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.limits.dispatch_flow import DispatchFlow
from counterpoise.broker.topic import subscription_transactions
from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.compacted_view import NOT_COMPACTED, CompactedView
from counterpoise.broker.topic.dispatch.by_type import DISPATCHERS
from counterpoise.broker.topic.dispatch.dispatcher import Dispatcher, DispatcherSpec
from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.broker.topic.lookback import first_published_at, index_of
from counterpoise.broker.topic.meter import DeliveryMeters, Meter
from counterpoise.broker.topic.ports import Acked, SubscribeRequest
from counterpoise.broker.topic.shared_parts import SharedByTopics
from counterpoise.broker.topic.subscription_cursor import SubscriptionCursor
from counterpoise.broker.topic.topic_rules import TopicRules
from counterpoise.names.callbacks import Notify
from counterpoise.names.topic import TopicName
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import Position
from counterpoise.wire.bit_words import words_for
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import SubscriptionType

CUMULATIVE = frozenset({SubscriptionType.Exclusive, SubscriptionType.Failover})
"""The types that may acknowledge everything up to an entry at once."""

UNREAD_WORDS_MAX = 16
"""The most 64-bit words of a partial acknowledgement of a batch that is not cached, so that its
size is unknown: enough for 1,000 messages, clients' default. Larger ones are only taken whole."""

NEARLY_CAUGHT_UP = 1_000
"""A backlog of fewer entries with consumers attached is not expired: they will soon be done."""

SEEK_WORK = 100
"""How much work of a turn (`DeliveryTurns`) a seek counts as; it disconnects the consumers."""


class Subscription(SubscriptionCursor):
    """One subscription of a topic: its cursor, and the consumers that share it.

    A durable subscription outlives its consumers and its broker; one that is not durable (a
    reader's) ends with its last consumer.
    """

    def __init__(
        self,
        name: str,
        topic: TopicName,
        log: Log[Any],
        acks: AckState,
        *,
        durable: bool,
        properties: Mapping[str, str],
        commons: SharedByTopics,
        meter_out: Meter,
        on_ended: Callable[[str], None],
        on_advanced: Notify,
        compacted: CompactedView = NOT_COMPACTED,
    ) -> None:
        """``on_ended`` is called when the subscription is deleted or a reader has left.

        ``on_advanced`` is called from time to time after entries were acknowledged; ``compacted``
        is what ``readCompacted`` consumers get.
        """
        super().__init__(name, topic, log, acks, properties, commons, on_advanced, durable=durable)
        self.partition = topic.partition_index
        self.created, self.last_used = time.time(), commons.wall()
        """When it was opened here, and when it last had a consumer (by the topics' wall clock)."""
        self.expired_at = 0.0
        self.type = SubscriptionType.Exclusive
        self.dispatcher: Dispatcher | None = None
        self.clock = commons.clock
        self.meters = DeliveryMeters(commons.clock)
        self.topic_meter = meter_out
        self.compacted = compacted
        self._on_ended = on_ended
        self._awaited: asyncio.Future[None] | None = None
        self._sought = False
        self.advanced_ms = 0
        """When ``acks.mark`` last advanced, in milliseconds since 1970; 0: not yet."""
        self.transactions: subscription_transactions.SubscriptionTransactions | None = None
        """Acknowledgements of open transactions, once there were any."""

    @property
    def consumers(self) -> Collection[Recipient]:
        """The attached consumers."""
        return self.dispatcher.consumers if self.dispatcher is not None else ()

    @property
    def flow(self) -> DispatchFlow | None:
        """Its deliveries as dispatch limits see them; None while it has no dispatcher."""
        return self.dispatcher.flow if self.dispatcher is not None else None

    @property
    def active(self) -> Recipient | None:
        """The active consumer of an Exclusive or Failover subscription; None for other types."""
        return self.dispatcher.active if self.dispatcher is not None else None

    @property
    def delayed(self) -> int:
        """The number of entries read whose delivery is delayed."""
        return self.dispatcher.delayed if self.dispatcher is not None else 0

    @property
    def blocked(self) -> bool:
        """Whether nothing is delivered until consumers acknowledge something."""
        return self.dispatcher is not None and self.dispatcher.blocked

    def attach(self, consumer: Recipient, rules: TopicRules) -> None:
        """Attach a consumer; raises `BrokerError` if the type of the subscription forbids it."""
        self.check_open()
        dispatcher, request = self.dispatcher, consumer.request
        if dispatcher is None or not dispatcher.consumers:
            if (
                dispatcher is None
                or self.type is not request.type
                or not dispatcher.serves(request)
            ):
                dispatcher = self._new_dispatcher(request, rules)
        elif self.type is not request.type:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"Subscription is of different type: {self.type.name}, not {request.type.name}",
            )
        elif self.type is SubscriptionType.Exclusive:
            raise BrokerError(ServerError.ConsumerBusy, "Exclusive consumer is already connected")
        self.dispatcher, self.type = dispatcher, request.type
        dispatcher.add(consumer)

    def _new_dispatcher(self, request: SubscribeRequest, rules: TopicRules) -> Dispatcher:
        if self.dispatcher is not None:
            self.dispatcher.close()
        spec = DispatcherSpec(
            subscription=self.name,
            topic=self.topic,
            log=self.log,
            acks=self.acks,
            commons=self._commons,
            rules=rules,
            request=request,
            compacted=self.compacted,
            stable_end=self.stable_end,
        )
        return DISPATCHERS[request.type](spec)

    def remove(self, consumer: Recipient) -> None:
        """Detach a consumer; its unacknowledged messages go to others."""
        if self.dispatcher is None or consumer not in self.dispatcher.consumers:
            return
        self.dispatcher.remove(consumer)
        self.last_used = self._commons.wall()
        if not self.dispatcher.consumers:
            self.dispatcher.rewind(self.acks.mark + 1)
            if not self.durable:
                self.end()

    def wake(self) -> None:
        """Deliver entries that were just stored, as far as permits allow."""
        if self.dispatcher is not None:
            self.dispatcher.dispatch()

    def resume(self, consumer: Recipient) -> None:
        """Deliver to a consumer that has new permits, or whose connection is writable again."""
        if self.dispatcher is not None:
            self.dispatcher.resume(consumer)

    def offer(self, entry: bytes, messages: int) -> bool:
        """Send an entry of a non-persistent topic now; False if no consumer can take it."""
        return self.dispatcher is not None and self.dispatcher.offer(entry, messages)

    def ack_individual(self, consumer: Recipient, acks: Iterable[Acked]) -> None:
        """Acknowledge entries; one with a batch counts once all its messages are acknowledged."""
        state, log, dispatcher = self.acks, self.log, self.dispatcher
        if dispatcher is None or self.closed:
            return
        end, was_held, mark = log.end, 0, state.mark
        for ledger_id, entry_id, ack_set in acks:
            index = log.index((ledger_id, entry_id))
            if index >= end or log.position(index) != (ledger_id, entry_id):
                continue  # the entry is deleted or never existed, and the next one is not meant
            if ack_set and (left := self._ack_part(index, ack_set)):
                if index in state.partial:
                    dispatcher.acked_part(consumer, index, left)
                continue
            # An entry that was lost after its delivery is acknowledged already, but still pending.
            if state.ack(index) or index in consumer.pending:
                was_held += dispatcher.acked(consumer, index)
        self._acknowledged(consumer, was_held, mark)
        dispatcher.dispatch()

    def ack_cumulative(
        self, consumer: Recipient, position: Position, ack_set: Sequence[int] = ()
    ) -> None:
        """Acknowledge all up to ``position``, or up to a message of its batch (``ack_set``)."""
        if self.type not in CUMULATIVE or self.dispatcher is None or self.closed:
            return
        index = min(self.log.index(position), self.log.end - 1)
        found = self.log.position(index)
        if found > position:
            index -= 1  # the entry is deleted or never existed, and the next one is not meant
        elif ack_set and found == position and self._ack_part(index, ack_set):
            index -= 1
        mark = self.acks.mark
        self._acknowledged(consumer, self.acks.ack_through(index), mark)
        self.dispatcher.acked_through(index)

    def _acknowledged(self, consumer: Recipient, entries: int, mark: int) -> None:
        """Count ``entries`` that a consumer acknowledged; ``mark`` is ``acks.mark`` before that."""
        consumer.acknowledged(entries)
        if self.acks.mark != mark:
            self.advanced_ms = consumer.last_acked_ms
        if not self._dirty:
            self._touch()
        if self._awaited is not None:
            self._has_acknowledged(self._awaited)

    def _ack_part(self, index: int, ack_set: Sequence[int]) -> int:
        """Acknowledge part of a batch, if enabled; returns how many messages are left."""
        if not self._commons.options.batch_index_acks:
            return int(any(ack_set))
        # A client may send as many words as fit into a frame: only those of the batch are kept.
        chunk = self.log.cached(index)
        if chunk is not None:
            ack_set = ack_set[: words_for(chunk.messages[index - chunk.first])]
        elif len(ack_set) > UNREAD_WORDS_MAX and index not in self.acks.partial:
            return int(any(ack_set))
        return self.acks.ack_part(index, ack_set)

    def acknowledging(self) -> asyncio.Future[None]:
        """A future that is done when a consumer next acknowledges, or at once if none has to."""
        self._awaited = asyncio.get_running_loop().create_future()
        sent = self.dispatcher.read_index if self.dispatcher is not None else 0
        if not (self.consumers and self.acks.backlog(sent)):
            self._has_acknowledged(self._awaited)
        return self._awaited

    @staticmethod
    def _has_acknowledged(awaited: asyncio.Future[None]) -> None:
        if not awaited.done():
            awaited.set_result(None)

    def redeliver(self, consumer: Recipient, positions: Iterable[tuple[int, int]] | None) -> None:
        """Deliver these unacknowledged entries of a consumer again, or all of its entries."""
        if self.dispatcher is not None:
            indexes = None
            if positions is not None:
                found = map(self.log.find, positions)
                indexes = [index for index in found if index is not None]
            self.dispatcher.redeliver(consumer, indexes)

    async def seek_to(
        self, position: Position, ack_set: Sequence[int] = (), who: object = None
    ) -> None:
        """Move the cursor to ``position``, in a batch to the messages of ``ack_set``.

        ``who``: the client that asked, so that clients take turns.
        """
        async with self._seeking(who):
            index = index_of(self.log, position)
            self._reset(index, ack_set if self.log.find(position) == index else ())

    async def seek_to_time(self, publish_time_ms: int, who: object = None) -> None:
        """Move the cursor to the first entry published at or after this time, as `seek_to`."""
        async with self._seeking(who):
            self._reset(await first_published_at(self.log, publish_time_ms))

    @asynccontextmanager
    async def _seeking(self, who: object) -> AsyncIterator[None]:
        """Run one seek at a time; as in Pulsar, the subscription refuses consumers meanwhile."""
        self._check_stored()
        if self._sought:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"Failed to fence subscription {self.name}: another seek moves it; try again",
            )
        self._sought = True
        try:
            await self._commons.turns.take(SEEK_WORK, who)
            yield
            await self.stored()
        finally:
            self._sought = False

    def skip(self, count: int | None) -> None:
        """Acknowledge the next ``count`` entries of the backlog, or all of it."""
        last = self.log.end - 1
        self.advance(last if count is None else min(self.backlog_entry(count), last))

    async def expire(self, before_ms: int) -> bool:
        """Acknowledge every entry published before a time (milliseconds since 1970).

        Returns False if Pulsar would not have looked for any: there is no backlog, or it is small,
        not as old, and has consumers.
        """
        self._check_stored()
        self.expired_at = self._commons.wall()
        found, backlog = await first_published_at(self.log, before_ms), self.backlog
        is_old = self.acks.unacked(1) < found
        self.advance(found - 1)
        return backlog > 0 and (is_old or not self.consumers or backlog >= NEARLY_CAUGHT_UP)

    def expire_through(self, position: Position) -> None:
        """Acknowledge every entry up to ``position``, which must not be after the last entry."""
        self.expired_at = self._commons.wall()
        self.advance(self.log.index_after(position) - 1)

    def advance(self, index: int) -> None:
        """Acknowledge every entry up to ``index``, as if a consumer had."""
        if self.acks.ack_through(index):
            self.advanced_ms = int(self._commons.wall() * 1000)
            if not self._dirty:
                self._touch()
        if self.dispatcher is not None:
            self.dispatcher.acked_through(index)
            self.dispatcher.dispatch()

    def set_stable_end(self, index: int) -> None:
        """Deliver nothing from this index on, since an open transaction has a message there."""
        self.stable_end = index
        if self.dispatcher is not None:
            self.dispatcher.stable_end = index

    def in_transactions(self) -> subscription_transactions.SubscriptionTransactions:
        """The acknowledgements in open transactions; raises `BrokerError` if it is not durable."""
        if not self.durable:
            why = "The transaction is disabled: the subscription is not durable"
            raise BrokerError(ServerError.NotAllowedError, why)
        if self.transactions is None:
            self.transactions = subscription_transactions.SubscriptionTransactions(self)
        return self.transactions

    def _check_stored(self) -> None:
        if not self.topic.is_persistent:
            raise BrokerError(
                ServerError.NotAllowedError, f"{self.topic} stores nothing: it cannot be sought"
            )

    def _reset(self, index: int, ack_set: Sequence[int] = ()) -> None:
        self.check_open()
        self.acks.reset(index - 1)
        if ack_set and index < self.log.end and not self._ack_part(index, ack_set):
            self.acks.ack(index)
        self.pass_over(self.log.lost)
        if self.hidden is not None:
            self.hide(self.hidden.ranges())
        if self.transactions is not None:
            self.transactions.clear()
        self._touch()
        self.save()
        consumers = list(self.consumers)
        if self.dispatcher is not None:
            for consumer in consumers:
                consumer.closed = True
            self.dispatcher.close()
            self.dispatcher = None
        for consumer in consumers:
            consumer.sink.close_consumer(consumer.consumer_id, None)

    async def unsubscribe(self, consumer: Recipient | None, *, force: bool = False) -> None:
        """Delete the subscription; refused while other consumers are attached unless forced."""
        self.check_open()
        others = [c for c in self.consumers if c is not consumer]
        if others and not force:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"Subscription {self.name} has {len(others)} other consumers attached",
            )
        for other in others:
            other.closed = True
            other.sink.close_consumer(other.consumer_id, None)
        if consumer is not None:
            consumer.closed = True
        self.end()
        await self.stored()

    def end(self) -> None:
        """Delete the subscription, even with consumers attached."""
        self.close()
        if self.durable:
            self.log.drop_cursor(self.name)
            if self.transactions is not None:
                self.log.drop_cursor(self.name + subscription_transactions.PENDING_ACKS)
        self._on_ended(self.name)

    def stop(self) -> None:
        """Deliver nothing more, but still accept acknowledgements."""
        if self.dispatcher is not None:
            self.dispatcher.close()

    def close(self) -> None:
        """Deliver and accept nothing more; consumers stay attached until the topic closes them."""
        self.closed = True
        self.stop()
