"""Topics that store nothing: what nobody can take at once is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.dispatch import SingleActiveDispatcher
from counterpoise.broker.topic.dispatch_keyed import KeySharedDispatcher, key_of
from counterpoise.broker.topic.dispatch_shared import SharedDispatcher
from counterpoise.broker.topic.ports import ConsumerSink, SubscribeRequest
from counterpoise.broker.topic.producer import Producer
from counterpoise.broker.topic.subscription import Subscription
from counterpoise.broker.topic.topic import Topic
from counterpoise.storage.port import Chunk, CursorState, LedgerInfo, Log, Position


class NonPersistentTopic(Topic):
    """A topic whose messages go straight to the consumers that have permits for them."""

    _subscriptions: dict[str, Subscription]

    def start(self) -> None:
        """Begin, with no subscription."""
        self._subscriptions = {}
        self.dropped = 0

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """Subscriptions by name: those with a consumer."""
        return self._subscriptions

    def _publish(
        self, producer: Producer, sequence_id: int, highest: int, messages: int, entry: bytes
    ) -> None:
        self.meter_in.messages += messages
        self.meter_in.bytes += len(entry)
        # Pulsar's position for all that is not stored (``NonPersistentTopic.publishMessage``).
        producer.sink.receipt(producer.producer_id, sequence_id, highest, 0, 0)
        for subscription in self._subscriptions.values():
            if not _offer(subscription, entry, messages):
                self.dropped += messages

    async def subscribe(self, request: SubscribeRequest, sink: ConsumerSink) -> Consumer:
        """Attach a consumer; it gets what is published from now on."""
        self.check_open()
        subscription = self._subscriptions.get(request.subscription)
        if subscription is None:
            subscription = Subscription(
                request.subscription,
                self.name,
                _NOTHING,
                AckState(-1),
                durable=False,
                properties=request.properties,
                options=self.options,
                meter_out=self.meter_out,
                on_ended=self._ended,
                on_advanced=lambda: None,
            )
        consumer = subscription.attach(request, sink)
        self._subscriptions[request.subscription] = subscription
        return consumer

    def _ended(self, name: str) -> None:
        self._subscriptions.pop(name, None)

    def last_message_id(self) -> Position:
        """There is none."""
        return _NOTHING.position(-1)

    async def _drain(self) -> None:
        """Receipts are sent at once."""

    async def _close_storage(self) -> None:
        """Nothing is stored."""


def _offer(subscription: Subscription, entry: bytes, messages: int) -> bool:
    """Give the entry to one of the subscription's consumers; whether one could take it."""
    dispatcher = subscription.dispatcher
    consumer: Consumer | None = None
    if isinstance(dispatcher, SingleActiveDispatcher):
        consumer = dispatcher.active
    elif isinstance(dispatcher, KeySharedDispatcher):
        selector = dispatcher.selector
        consumer = selector.select(selector.slot(key_of(entry)))
    elif isinstance(dispatcher, SharedDispatcher):
        consumer = dispatcher.next_ready()
    if consumer is None or consumer.permits <= 0 or not consumer.sink.writable:
        return False
    consumer.permits -= messages
    consumer.send([(0, 0, 0, entry, ())], messages, len(entry))
    return True


class _Nothing:
    """A log that has no entry and takes none, for subscriptions to stand on."""

    name = "nothing"
    begin = end = size = 0
    ledgers: tuple[LedgerInfo, ...] = ()
    cursors: Mapping[str, CursorState] = {}

    def append(self, entry: bytes, messages: int, context: object) -> None:
        raise NotImplementedError

    def position(self, index: int) -> Position:
        return Position(-1, -1)

    def index(self, position: tuple[int, int]) -> int:
        return 0

    def cached(self, index: int) -> Chunk | None:
        return None

    async def read(self, index: int, max_bytes: int) -> Chunk:
        raise NotImplementedError

    def save_cursor(self, state: CursorState) -> None:
        pass

    def drop_cursor(self, name: str) -> None:
        pass

    def trim(self, before: int) -> None:
        pass

    async def drain(self) -> None:
        pass

    async def flush(self) -> None:
        pass

    async def close(self) -> None:
        pass


_NOTHING: Log[Any] = _Nothing()
