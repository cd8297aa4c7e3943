"""What connections and topics know of each other: requests, and where responses are sent."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from counterpoise.broker.base.advertised import (
    NO_LISTENERS,
    SERVICE_URL,
    SERVICE_URL_TLS,
    Listeners,
)
from counterpoise.broker.base.errors import BrokerError
from counterpoise.names.topic import TopicName
from counterpoise.storage.port import Position
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.values import AccessMode, InitialPosition, SubscriptionType


class ServiceUrls(NamedTuple):
    """The URLs of a broker to which clients are redirected; None where it has no such port."""

    plain: str | None
    tls: str | None
    listeners: Listeners = NO_LISTENERS

    def seen_by(self, listener: str) -> tuple[str | None, str | None] | None:
        """The plain and TLS URL for clients of this listener; None if they have to look up."""
        if listener:
            urls = self.listeners.get(listener)
            return (urls.get(SERVICE_URL), urls.get(SERVICE_URL_TLS)) if urls else None
        # A client of the default port may have looked it up by any of several listeners.
        return (self.plain, self.tls) if len(self.listeners) <= 1 else None


@dataclass(frozen=True, slots=True)
class KeySharedMeta:
    """The key distribution that a Key_Shared consumer asks for (``KeySharedMeta``).

    ``sticky_ranges`` None means AUTO_SPLIT; otherwise STICKY with these inclusive hash ranges
    within 0..65535.
    """

    sticky_ranges: tuple[tuple[int, int], ...] | None = None
    allow_out_of_order: bool = False


@dataclass(frozen=True, slots=True)
class ProducerRequest:
    """The content of a PRODUCER command."""

    producer_id: int
    name: str | None = None
    epoch: int = 0
    user_provided_name: bool = True
    access_mode: AccessMode = AccessMode.Shared
    topic_epoch: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    client_version: str = ""
    initial_subscription: str | None = None
    encrypted: bool = False


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """The content of a SUBSCRIBE command."""

    subscription: str
    type: SubscriptionType
    consumer_id: int
    consumer_name: str = ""
    priority_level: int = 0
    durable: bool = True
    initial_position: InitialPosition = InitialPosition.Latest
    start_message_id: Position | None = None
    """The first message; if it is inside a batch, the client drops those before it."""
    rollback_seconds: int = 0
    """Start at messages published this many seconds ago (a reader's rollback); 0 is off."""
    read_compacted: bool = False
    takes_any_schema: bool = False
    """Whether the consumer takes whatever schema the messages have (AUTO_CONSUME)."""
    key_shared: KeySharedMeta = KeySharedMeta()
    consumer_epoch: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    client_version: str = ""


Acked = tuple[int, int, Sequence[int]]
"""One acknowledged entry: ledger id, entry id, and the words of batch indexes that are still
unacknowledged (empty: the whole entry is acknowledged)."""


class ProducerSink(Protocol):
    """What a topic calls on the connection of one of its producers."""

    def receipts(
        self,
        producer_id: int,
        ledger_id: int,
        first_entry_id: int,
        published: Sequence[tuple[object, int, int]],
    ) -> None:
        """Send receipts for entries that are stored at consecutive positions.

        The position is (0, 0) on a non-persistent topic, and (-1, -1) for a duplicate.
        ``published``: the second and third value of each are its sequence id and highest sequence
        id.
        """

    def count_detached(self, producer: object, count: int) -> None:
        """Subtract ``count`` pending entries of a detached producer: they are stored or lost."""

    def count_throttled(self, entries: int, size: int) -> None:
        """Add entries and bytes that wait for a publish limit; negative: they wait no longer."""

    def send_error(self, producer_id: int, sequence_id: int, error: BrokerError) -> None:
        """Send the error of one SEND to the producer."""

    def close_producer(self, producer_id: int, assigned_broker_url: ServiceUrls | None) -> None:
        """Make the client reconnect its producer, to the given broker if not None."""

    def producer_ready(self, producer_id: int, topic_epoch: int | None) -> None:
        """Notify the client that a producer which waited for exclusive access has it."""

    def producer_refused(self, producer_id: int, error: BrokerError) -> None:
        """Refuse a producer that waits for exclusive access."""


class ConsumerSink(Protocol):
    """What a topic calls on the connection of one of its consumers."""

    @property
    def writable(self) -> bool:
        """False while too much is buffered for the client; `Consumer.resume` follows."""

    def deliver(self, consumer_id: int, partition: int, messages: Sequence[Delivery]) -> None:
        """Send messages to a consumer, in this order."""

    def active_change(self, consumer_id: int, is_active: bool) -> None:
        """Notify the client whether its Failover consumer is active."""

    def close_consumer(self, consumer_id: int, assigned_broker_url: ServiceUrls | None) -> None:
        """Make the client reconnect its consumer, to the given broker if not None."""

    def farewell(
        self, consumer_id: int, assigned_broker_url: ServiceUrls | None
    ) -> asyncio.Future[None]:
        """Close a consumer like `close_consumer`, for a topic that is being unloaded.

        The future is done when the client has read CLOSE_CONSUMER. Until then its acknowledgements
        are accepted, and it sends none afterwards. If the client does not respond, the future is
        never done.
        """

    def reached_end(self, consumer_id: int) -> None:
        """Notify the client that the topic was terminated and all is acknowledged."""


class OwnedBundles(Protocol):
    """Which topics this broker may serve, by the bundles it owns; used by the topic registry."""

    def owns(self, topic: TopicName) -> bool:
        """Whether this broker may serve the topic now."""

    async def approach(self, topic: TopicName, is_released: Callable[[], Awaitable[bool]]) -> None:
        """Wait until the topic may be opened here, while its bundle is being transferred.

        ``is_released`` says whether its former owner has closed it, which may be before the whole
        bundle is closed. Raises `BrokerError` (ServiceNotReady) if another broker owns it.
        """

    def opened(self, topic: TopicName) -> None:
        """Make calls that wait in `approach` check again, since the topic was opened."""


class TopicMetadata(Protocol):
    """Reads and writes the stored metadata of topics."""

    async def exists(self, topic: TopicName) -> bool:
        """Whether a persistent topic exists."""

    async def create(self, topic: TopicName) -> None:
        """Store that a persistent topic exists; raises `BrokerError` (TopicNotFound) if policies
        forbid this one, persistent or not.
        """

    async def terminated(self, topic: TopicName) -> bool:
        """Whether the topic was terminated."""

    async def terminate(self, topic: TopicName, last: Position) -> None:
        """Store that the topic is terminated; ``last`` is its last entry's position."""

    async def delete(self, topic: TopicName) -> None:
        """Delete a topic's metadata; non-persistent topics may have some, too, such as policies."""

    async def delete_if_unparted(self, topic: TopicName) -> None:
        """Delete a partitioned topic's metadata once none of its partitions is left."""
