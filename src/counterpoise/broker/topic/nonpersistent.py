"""Non-persistent topics: a message that no consumer can take at once is dropped."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from counterpoise.broker.topic.acks import AckState
from counterpoise.broker.topic.ports import SubscribeRequest
from counterpoise.broker.topic.producer import Producer
from counterpoise.broker.topic.subscription import Subscription
from counterpoise.broker.topic.topic import Topic
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import NO_POSITION, Chunk, CursorState, LedgerInfo, Lost, Position
from counterpoise.wire.events import Send


class NonPersistentTopic(Topic):
    """A topic that stores nothing: messages go to the consumers that have permits now."""

    _subscriptions: dict[str, Subscription]

    def start(self) -> None:
        """Start the topic, without subscriptions."""
        self._subscriptions = {}
        self.dropped = 0

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """The subscriptions by name; each has a consumer."""
        return self._subscriptions

    def accept(self, producer: Producer, sends: Sequence[Send]) -> None:
        """Deliver a producer's entries to consumers, or drop them."""
        for _, sequence_id, highest, messages, _, entry in sends:
            self.meter_in.count(messages, len(entry))
            # Pulsar's position for all that is not stored (``NonPersistentTopic.publishMessage``).
            producer.stored(0, 0, ((producer, sequence_id, highest),), messages, len(entry))
            for subscription in self._subscriptions.values():
                if not subscription.offer(entry, messages):
                    self.dropped += messages

    async def _subscription_for(self, request: SubscribeRequest) -> Subscription:
        subscription = self._subscriptions.get(request.subscription)
        if subscription is None:
            subscription = self._subscriptions[request.subscription] = Subscription(
                request.subscription,
                self.name,
                _NOTHING,
                AckState(-1),
                durable=False,
                properties=request.properties,
                commons=self.commons,
                meter_out=self.meter_out,
                on_ended=self._ended,
                on_advanced=lambda: None,
            )
        return subscription

    def _ended(self, name: str) -> None:
        self._subscriptions.pop(name, None)

    def last_message_id(self) -> Position:
        """Return (-1, -1), since nothing is stored."""
        return NO_POSITION

    async def _drain(self) -> None:
        """Do nothing: receipts are sent at once."""

    async def _close_storage(self) -> None:
        """Do nothing: nothing is stored."""


class _EmptyLog:
    """Stands for the log of a non-persistent topic: always empty, never written."""

    name = "nothing"
    begin = end = size = cached_bytes = 0
    ledgers: tuple[LedgerInfo, ...] = ()
    cursors: Mapping[str, CursorState] = {}
    lost: tuple[Lost, ...] = ()
    cursors_lost = False

    def position(self, index: int) -> Position:
        return NO_POSITION

    def index(self, position: tuple[int, int]) -> int:
        return 0

    def find(self, position: tuple[int, int]) -> None:
        return None

    def cached(self, index: int) -> Chunk | None:
        return None

    async def read(self, index: int, max_bytes: int) -> Chunk:
        raise NotImplementedError


_NOTHING: Final = cast("Log[Any]", _EmptyLog())
