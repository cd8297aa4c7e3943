"""A registry over memory ledgers, and a connection that only records what it gets."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace

import pytest

from counterpoise.broker.base import clock
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.ports import ProducerRequest, ServiceUrls, SubscribeRequest
from counterpoise.broker.topic.producer import Producer
from counterpoise.broker.topic.topic import Topic
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.metadata import MemoryTree
from counterpoise.names.bundle import BundleName, NamespaceBundles
from counterpoise.names.position import Position
from counterpoise.names.topic import TopicName
from counterpoise.storage.ledger_store import LedgerStore
from counterpoise.storage.managed.store import ManagedLedgerStore
from counterpoise.storage.managed_options import ManagedLedgerOptions
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.entry import build, messages_in
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import Send
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata, SingleMessageMetadata
from counterpoise.wire.values import InitialPosition, SubscriptionType
from tests.bookkeeper.memory_ledgers import MemoryBookKeeper
from tests.stuck import pytest_asyncio_loop_factories  # noqa: F401 - a hook
from tests.waiting import WITHIN_S


def entry(payload: object, **metadata: object) -> bytes:
    """An entry as a client writes it; ``metadata`` overrides fields."""
    fields = {"producer_name": "p", "sequence_id": 0, "publish_time": 1, **metadata}
    return build(MessageMetadata(**fields), str(payload).encode())


def batch(count: int, **metadata: object) -> bytes:
    """An entry of so many messages: the single metadata of each (its size is 0), and nothing."""
    fields = {"producer_name": "p", "sequence_id": 0, "publish_time": 1, **metadata}
    single = SingleMessageMetadata(payload_size=0).SerializeToString()
    body = (len(single).to_bytes(4, "big") + single) * count
    return build(MessageMetadata(**fields, num_messages_in_batch=count), body)


def publish(producer: Producer, sequence_id: int, highest: int, entry: bytes) -> None:
    """A SEND as the wire reads it."""
    counted = messages_in(entry)
    send = Send(producer.producer_id, sequence_id, highest, counted, False, entry)
    producer.publish([send], len(entry))


def payload(message: bytes) -> str:
    size = int.from_bytes(message[6:10], "big")
    return message[10 + size :].decode()


class Wire:
    """Both sinks of one connection. ``until`` waits for what it gets."""

    def __init__(self) -> None:
        self.writable = True
        self.receipted: list[tuple[int, int, int, int, int]] = []
        self.errors: list[tuple[int, int, BrokerError]] = []
        self.deliveries: list[tuple[int, Delivery]] = []
        self.closed_producers: list[tuple[int, ServiceUrls | None]] = []
        self.closed_consumers: list[tuple[int, ServiceUrls | None]] = []
        self.ready: list[tuple[int, int | None]] = []
        self.active: list[tuple[int, bool]] = []
        self.notified = asyncio.Event()
        """Set once a consumer was notified that it is active."""
        self.at_end: list[int] = []
        self._changed = asyncio.Event()

    def receipts(
        self,
        producer_id: int,
        ledger_id: int,
        first_entry_id: int,
        published: Sequence[tuple[object, int, int]],
    ) -> None:
        for entry_id, (_, sequence_id, highest) in enumerate(published, first_entry_id):
            self.receipted.append((producer_id, sequence_id, highest, ledger_id, entry_id))
        self._changed.set()

    def count_detached(self, producer: object, count: int) -> None:
        pass

    def send_error(self, producer_id: int, sequence_id: int, error: BrokerError) -> None:
        self.errors.append((producer_id, sequence_id, error))
        self._changed.set()

    def count_throttled(self, entries: int, size: int) -> None:
        self.held_entries = getattr(self, "held_entries", 0) + entries

    def close_producer(self, producer_id: int, url: ServiceUrls | None) -> None:
        self.closed_producers.append((producer_id, url))
        self._changed.set()

    def producer_ready(self, producer_id: int, topic_epoch: int | None) -> None:
        self.ready.append((producer_id, topic_epoch))

    def producer_refused(self, producer_id: int, error: BrokerError) -> None:
        self.errors.append((producer_id, -1, error))

    def deliver(self, consumer_id: int, partition: int, messages: Sequence[Delivery]) -> None:
        self.deliveries += [(consumer_id, m) for m in messages]
        self._changed.set()

    def active_change(self, consumer_id: int, is_active: bool) -> None:
        self.active.append((consumer_id, is_active))
        if is_active:
            self.notified.set()
        self._changed.set()

    def close_consumer(self, consumer_id: int, url: ServiceUrls | None) -> None:
        self.closed_consumers.append((consumer_id, url))
        self._changed.set()

    def farewell(self, consumer_id: int, url: ServiceUrls | None) -> asyncio.Future[None]:
        self.close_consumer(consumer_id, url)
        heard = asyncio.get_running_loop().create_future()
        heard.set_result(None)
        return heard

    def reached_end(self, consumer_id: int) -> None:
        self.at_end.append(consumer_id)
        self._changed.set()

    def changed(self) -> None:
        """Let `until` look again."""
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def payloads(self, consumer: Consumer | None = None) -> list[str]:
        return [
            payload(m[3])
            for consumer_id, m in self.deliveries
            if consumer is None or consumer_id == consumer.consumer_id
        ]

    def entries(self) -> list[bytes]:
        return [m[3] for _, m in self.deliveries]

    def ids(self, consumer: Consumer) -> list[tuple[int, int, tuple[int, ...]]]:
        """What the consumer got, ready to be acknowledged."""
        return [(m[0], m[1], ()) for c, m in self.deliveries if c == consumer.consumer_id]


class Everything:
    """Owns every bundle but those it is set to refuse, and knows every topic."""

    def __init__(self) -> None:
        self.refused: set[BundleName] = set()
        self.created: list[TopicName] = []
        self.ended: set[TopicName] = set()
        self.unparted: list[TopicName] = []
        """Partitions of which the partitioned topic was to go if they were its last."""

    def owns(self, topic: TopicName) -> bool:
        return self.bundle_of(topic) not in self.refused

    def bundle_of(self, topic: TopicName) -> BundleName:
        return NamespaceBundles.of_count(topic.namespace_name, 4).bundle_of(topic)

    def opened(self, topic: TopicName) -> None:
        pass

    async def approach(self, topic: TopicName, is_released: Callable[[], Awaitable[bool]]) -> None:
        if not self.owns(topic):
            raise BrokerError(ServerError.ServiceNotReady, f"{topic} is owned by another broker")

    async def exists(self, topic: TopicName) -> bool:
        return topic in self.created

    async def create(self, topic: TopicName) -> None:
        self.created.append(topic)

    async def delete(self, topic: TopicName) -> None:
        if topic.is_persistent:
            self.created.remove(topic)

    async def delete_if_unparted(self, topic: TopicName) -> None:
        self.unparted.append(topic)

    async def terminated(self, topic: TopicName) -> bool:
        return topic in self.ended

    async def terminate(self, topic: TopicName, last: Position) -> None:
        self.ended.add(topic)


def on_bookies(ledger_entries: int) -> ManagedLedgerStore:
    """Ledgers of BookKeeper, of which memory has the newest entries alone."""
    tree = MemoryTree()
    options = ManagedLedgerOptions(
        ledger_entries=ledger_entries, min_rollover_min=0, mark_deletes_per_s=0
    )
    client = MemoryBookKeeper(tree).client()
    return ManagedLedgerStore(tree.open(), client, options=options, cache_bytes=100)


class World:
    """One broker's topics with a connection to drive them."""

    def __init__(self, store: LedgerStore, **settings: object) -> None:
        """``settings``: of the registry."""
        self.store = store
        self.cluster = Everything()
        self.name = TopicName.parse("persistent://t/n/x")
        self._ids = 0
        self._settings = settings
        self.take_over()

    def take_over(self) -> None:
        """Another broker has the topics now, and this one has not closed them."""
        self.wire = Wire()
        self.registry = TopicRegistry(
            self.store,
            self.cluster,
            self.cluster,
            owner="broker-1",
            **self._settings,  # type: ignore[arg-type]
        )

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    async def topic(self, name: TopicName | None = None) -> Topic:
        return await self.registry.get(name or self.name)

    async def producer(self, **options: object) -> Producer:
        request = ProducerRequest(self.next_id(), **options)  # type: ignore[arg-type]
        topic = await self.topic()
        await topic.make_ready(request)
        return topic.add_producer(request, self.wire)

    async def consumer(
        self,
        kind: SubscriptionType = SubscriptionType.Exclusive,
        *,
        permits: int = 1000,
        wire: Wire | None = None,
        **options: object,
    ) -> Consumer:
        number = self.next_id()
        settings: dict[str, object] = {
            "subscription": "s",
            "consumer_name": f"c{number}",
            "initial_position": InitialPosition.Earliest,
            **options,
        }
        request = SubscribeRequest(type=kind, consumer_id=number, **settings)  # type: ignore[arg-type]
        consumer = await (await self.topic()).subscribe(request, wire or self.wire)
        if permits:
            consumer.flow(permits)
        return consumer

    async def publish(self, producer: Producer, *payloads: object, **metadata: object) -> None:
        """Publish and wait for the receipts."""
        wanted = len(self.wire.receipted) + len(payloads)
        for number, body in enumerate(payloads):
            publish(producer, number, number, entry(body, **metadata))
        await self.wire.until(lambda: len(self.wire.receipted) == wanted)


@pytest.fixture
def store() -> MemoryLedgerStore:
    return MemoryLedgerStore()


@pytest.fixture
async def world(store: MemoryLedgerStore) -> World:
    return World(store)


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of day, as topics see it."""
    now_s = [1_000.0]
    monkeypatch.setattr(clock, "time", SimpleNamespace(time=lambda: now_s[0]))
    return now_s
