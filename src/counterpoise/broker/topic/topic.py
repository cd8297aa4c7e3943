"""A topic, persistent or not: its producers and consumers, and how it is unloaded."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Final

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.limits.publish_flow import ProducerFlow
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.meter import Meter
from counterpoise.broker.topic.ports import (
    ConsumerSink,
    ProducerRequest,
    ProducerSink,
    ServiceUrls,
    SubscribeRequest,
)
from counterpoise.broker.topic.producer import Producer, ProducerSet
from counterpoise.broker.topic.retention import CAUGHT_UP
from counterpoise.broker.topic.shared_parts import SharedByTopics
from counterpoise.broker.topic.subscription import Subscription
from counterpoise.broker.topic.topic_rules import TopicRules, rules_of
from counterpoise.names.topic import TopicName
from counterpoise.storage.port import Position
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import Send
from counterpoise.wire.values import TransactionId

_MESSAGES: Final = itemgetter(Send._fields.index("messages"))

ATTACH_WORK: Final = 100
"""How much work of a turn (`DeliveryTurns`) attaching a consumer counts as: hashing its points."""

ACKS_S: Final = 0.15
"""How long a topic that is being unloaded still serves a subscription until its consumers
acknowledge; the official clients gather acknowledgements for 0.1 s."""
FAREWELL_S: Final = 0.2
"""How many seconds consumers have to read CLOSE_CONSUMER from a topic that is being unloaded."""


class Topic(ABC):
    """A loaded topic of this broker. Call it on the broker's event loop."""

    def __init__(self, name: TopicName, commons: SharedByTopics) -> None:
        self.name = name
        self.commons = commons
        self.producers = ProducerSet()
        self.meter_in = Meter(commons.clock)
        self.meter_out = Meter(commons.clock)
        self.created = time.time()
        self._last_used = commons.wall()
        """When a client was last seen to use the topic, by the topics' wall clock."""
        self.leaving = False
        """Whether no client can attach any more, since the topic is about to close."""
        self.closing = False
        self.rules = rules_of(None, commons.options)
        """The topic's policies, read at each `TopicRegistry.get` and when they change."""

    @property
    @abstractmethod
    def subscriptions(self) -> Mapping[str, Subscription]:
        """The subscriptions by name."""

    async def make_ready(self, request: ProducerRequest) -> None:  # noqa: B027
        """Do what a producer's request needs before it is attached; by default nothing."""

    def apply(self, rules: TopicRules) -> None:
        """Apply a change of policies, also to attached clients."""
        before, self.rules = self.rules, rules
        if rules == before:
            return
        if rules.encryption_required:
            self._close_producers(None, keep_encrypted=True)
        for subscription in list(self.subscriptions.values()):
            if subscription.dispatcher is not None:
                subscription.dispatcher.apply(rules)

    @property
    def is_served(self) -> bool:
        """Whether clients may use the topic on this broker."""
        return not (self.leaving or self.closing)

    @property
    def is_active(self) -> bool:
        """Whether the topic has a producer or a subscription."""
        return bool(len(self.producers) or self.subscriptions)

    def is_idle(self) -> bool:
        """Whether the topic has been unused for so long that policies delete it (``checkGC``)."""
        now, lifetime = self.commons.wall(), self.rules.lifetime
        subscriptions = list(self.subscriptions.values())
        if self.name.is_persistent and lifetime.inactivity.mode == CAUGHT_UP:
            subscriptions = [each for each in subscriptions if each.backlog]
        if len(self.producers) or subscriptions:
            self._last_used = now
        return lifetime.is_over(now - self._last_used, self._entries)

    @property
    def _entries(self) -> int:
        """The number of entries that the topic has stored and not deleted."""
        return 0

    @property
    def is_in_use(self) -> bool:
        """Whether it has messages, producers, or consumers that do not take any schema."""
        found = (each for it in self.subscriptions.values() for each in it.consumers)
        any_of_one = any(not each.request.takes_any_schema for each in found)
        return bool(self._entries or len(self.producers) or any_of_one)

    @property
    def cached_bytes(self) -> int:
        """The size of the topic's cached entries, in bytes."""
        return 0

    def add_producer(self, request: ProducerRequest, sink: ProducerSink) -> Producer:
        """Attach a producer; raises `BrokerError` (ProducerBusy, ProducerFenced, …)."""
        self.check_open()
        name = request.name or self.commons.new_producer_name()
        producer = Producer(request, name, sink, self, Meter(self.commons.clock))
        former = self.producers.by_name.get(name)
        if former is None:
            self.rules.admit_producer(self.name, len(self.producers), encrypted=request.encrypted)
        for fenced in self.producers.add(producer):
            self.commons.limits.detach(self, fenced)
            if fenced.ready:
                fenced.sink.close_producer(fenced.producer_id, None)
            else:
                refusal = BrokerError(ServerError.ProducerFenced, "Fenced out")
                fenced.sink.producer_refused(fenced.producer_id, refusal)
        if former is not None:
            self.commons.limits.detach(self, former)
        self.commons.limits.attach(self, producer)
        return producer

    def remove_producer(self, producer: Producer) -> int:
        """Detach a producer; returns how many throttled entries it drops. For `Producer.close`."""
        held = self.commons.limits.detach(self, producer)
        self._remove(producer)
        self._last_used = self.commons.wall()
        return held

    def _remove(self, producer: Producer) -> None:
        """Forget a producer, and grant exclusive access to the one waiting for it."""
        successor = self.producers.remove(producer)
        if successor is not None:
            successor.sink.producer_ready(successor.producer_id, successor.topic_epoch)

    def attached_producers(self) -> Sequence[Producer]:
        """The topic's producers, including those that wait for exclusive access."""
        return self.producers.all()

    @property
    def has_consumers(self) -> bool:
        """Whether a consumer is attached."""
        return any(subscription.consumers for subscription in self.subscriptions.values())

    def attached_clients(self) -> int:
        """The number of the topic's producers and consumers."""
        return len(self.producers) + sum(len(it.consumers) for it in self.subscriptions.values())

    def publish(self, producer: Producer, sends: Sequence[Send], size: int) -> None:
        """Accept a producer's entries, of ``size`` bytes in all. Called by `Producer.publish`.

        While the topic is being unloaded they are dropped without a response: the client is about
        to be disconnected and sends again everything without a receipt, in order.
        """
        if self.closing or producer.closed:
            return
        if self.rules.message_bytes or self.rules.delay_max_ms:
            sends = self._admitted(producer, sends)
            size = sum(len(send.entry) for send in sends)
        if not producer.ready:
            refusal = BrokerError(
                ServerError.ProducerFenced, "Producer waits for exclusive access to the topic"
            )
            for send in sends:
                producer.sink.send_error(producer.producer_id, send.sequence_id, refusal)
        elif producer.flow is None:
            self.accept(producer, sends)
        else:
            self._accept_within(producer.flow, producer, sends, size)

    def publish_in_transaction(
        self, producer: Producer, transaction: TransactionId, send: Send
    ) -> None:
        """Refuse an entry of a transaction; only topics that store entries accept them."""
        why = f"{self.name} stores nothing: it takes no messages in transactions"
        refusal = BrokerError(ServerError.NotAllowedError, why)
        producer.sink.send_error(producer.producer_id, send.sequence_id, refusal)

    def _admitted(self, producer: Producer, sends: Sequence[Send]) -> Sequence[Send]:
        """The entries that policies allow; the others are refused with an error."""
        admitted: list[Send] = []
        for send in sends:
            refusal = self.rules.refuse(self.name, send.entry, is_chunk=send.is_chunk)
            if refusal is None:
                admitted.append(send)
            else:
                producer.sink.send_error(producer.producer_id, send.sequence_id, refusal)
        return admitted

    def _accept_within(
        self, flow: ProducerFlow, producer: Producer, sends: Sequence[Send], size: int
    ) -> None:
        """Store the entries that the limits admit; the rest is throttled."""
        messages = sum(map(_MESSAGES, sends))
        if messages <= flow.free_messages and size <= flow.free_bytes:
            # The tokens that are set aside for the producer suffice for all of them.
            flow.free_messages -= messages
            flow.free_bytes -= size
            self.accept(producer, sends)
            return
        passed: list[Send] = []
        for send in sends:
            alone = len(send.entry)
            if flow.offer(send.messages, alone, partial(self._go_on, producer, send)):
                passed.append(send)
        if passed:
            # Once an entry is throttled, so are all after it: these are the first of the run.
            self.accept(producer, passed)

    def _go_on(self, producer: Producer, send: Send) -> None:
        """Store an entry that had to wait for limits, which admit it now."""
        if not self.closing and not producer.closed:
            self.accept(producer, [send])

    @abstractmethod
    def accept(self, producer: Producer, sends: Sequence[Send]) -> None:
        """Store a producer's entries, or deliver them at once if nothing is stored."""

    async def subscribe(self, request: SubscribeRequest, sink: ConsumerSink) -> Consumer:
        """Attach a consumer, creating its subscription if necessary; raises `BrokerError`."""
        await self.commons.turns.take(ATTACH_WORK, sink)
        self.check_open()
        self.rules.admit_type(self.name, request.type)
        if request.subscription not in self.subscriptions:
            self.rules.admit_name(request.subscription)
        subscription = await self._subscription_for(request)
        consumer = Consumer(request, sink, subscription)
        try:
            subscriptions = self.subscriptions.values() if self.rules.consumers else ()
            on_topic = sum(len(each.consumers) for each in subscriptions)
            self.rules.admit_consumer(on_topic, len(subscription.consumers))
            subscription.attach(consumer, self.rules)
        except BrokerError:
            if not subscription.durable and not subscription.consumers:
                subscription.end()
            raise
        return consumer

    @abstractmethod
    async def _subscription_for(self, request: SubscribeRequest) -> Subscription:
        """The subscription for a request, created if necessary; raises `BrokerError`."""

    @abstractmethod
    def last_message_id(self) -> Position:
        """The position of the last entry; (-1, -1) if the topic has none."""

    def check_open(self) -> None:
        """Raise `BrokerError` (ServiceNotReady: look up again) once the topic is closing."""
        if self.leaving or self.closing:
            raise BrokerError(ServerError.ServiceNotReady, f"Topic {self.name} is being unloaded")

    async def leave(self, assigned_broker_url: ServiceUrls | None) -> None:
        """Close this topic so that its next owner finds every acknowledgement.

        It stops accepting and delivering, sends outstanding receipts, saves every cursor and closes
        the log. Producers are disconnected last: a client that reaches the next owner finds the log
        closed, and is served at once.

        Consumers are disconnected first, and producers continue until the consumers have read
        CLOSE_CONSUMER. From then on a client keeps its acknowledgements for the next owner instead
        of sending them to this one, which can no longer save them. The best moment to disconnect a
        consumer is right after it has acknowledged (`_send_on`).
        """
        self.leaving = True
        if assigned_broker_url is not None:
            leaving = (self._send_on(s, assigned_broker_url) for s in self.subscriptions.values())
            await asyncio.gather(*leaving)
        for subscription in list(self.subscriptions.values()):
            subscription.stop()
        self.closing = True
        await self._drain()
        await self._close_storage()
        self.disconnect(assigned_broker_url)

    @abstractmethod
    async def _drain(self) -> None:
        """Wait until every receipt is sent."""

    @abstractmethod
    async def _close_storage(self) -> None:
        """Save every cursor and close the log."""

    def disconnect(self, assigned_broker_url: ServiceUrls | None) -> None:
        """Make every attached client reconnect now, to the given broker if not None."""
        self.closing = True
        self._close_producers(assigned_broker_url)
        self._close_consumers(assigned_broker_url)
        for subscription in self.subscriptions.values():
            subscription.close()

    def disconnect_producers(self) -> None:
        """Make the topic's producers reconnect; the topic may refuse them then."""
        self._close_producers(None)

    def _close_producers(
        self, assigned_broker_url: ServiceUrls | None, *, keep_encrypted: bool = False
    ) -> None:
        leaving = [
            producer
            for producer in self.producers.all()
            if not (keep_encrypted and producer.request.encrypted)
        ]
        for producer in leaving:
            producer.closed = True
            self.commons.limits.detach(self, producer)
            producer.sink.close_producer(producer.producer_id, assigned_broker_url)
        # Producers that wait for exclusive access are the last, and removed first: none gets it.
        for producer in reversed(leaving):
            self._remove(producer)

    async def _send_on(self, subscription: Subscription, assigned_broker_url: ServiceUrls) -> None:
        """Redirect a subscription's consumers to the next owner, each right after it has
        acknowledged.

        Clients gather acknowledgements for a tenth of a second. A client that is redirected right
        after sending them has few unsent ones, and drops redeliveries of their messages until it
        has sent them; right before, it would have many. Until the redirect, consumers are served.
        """
        if subscription.durable and subscription.consumers:
            await asyncio.wait([subscription.acknowledging()], timeout=ACKS_S)
        subscription.stop()
        farewells = []
        for consumer in list(subscription.consumers):
            if not consumer.closed:
                consumer.closed = True
                farewells.append(consumer.sink.farewell(consumer.consumer_id, assigned_broker_url))
        if farewells:
            await asyncio.wait(farewells, timeout=FAREWELL_S)

    def _close_consumers(self, assigned_broker_url: ServiceUrls | None) -> None:
        for subscription in list(self.subscriptions.values()):
            for consumer in list(subscription.consumers):
                if not consumer.closed:
                    consumer.closed = True
                    consumer.sink.close_consumer(consumer.consumer_id, assigned_broker_url)
