"""What a topic costs without its sockets: a publish with its receipt, a delivery, an ack."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from bench.figures import Figure
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.ports import ProducerRequest, ServiceUrls, SubscribeRequest
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.names.bundle import BundleName, NamespaceBundles
from counterpoise.names.topic import TopicName
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.ledger_store import LedgerStore
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import Position
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.entry import build
from counterpoise.wire.events import Send
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from counterpoise.wire.values import InitialPosition, SubscriptionType

BURST = 400
PENDING_MAX = 20_000
Acked = tuple[int, int, tuple[int, ...]]
KEYS = [f"key-{n}" for n in range(200)]


class Alone:
    """Owns every topic."""

    def owns(self, topic: TopicName) -> bool:
        return True

    def bundle_of(self, topic: TopicName) -> BundleName:
        return NamespaceBundles.of_count(topic.namespace_name, 1).bundle_of(topic)

    async def approach(self, topic: TopicName, is_released: Callable[[], Awaitable[bool]]) -> None:
        return

    def opened(self, topic: TopicName) -> None:
        return

    async def exists(self, topic: TopicName) -> bool:
        return True

    async def create(self, topic: TopicName) -> None:
        return

    async def terminated(self, topic: TopicName) -> bool:
        return False

    async def terminate(self, topic: TopicName, last: Position) -> None:
        return

    async def delete_if_unparted(self, topic: TopicName) -> None:
        return

    async def delete(self, topic: TopicName) -> None:
        return


class Connection:
    """Counts receipts; acknowledges what it is sent and gives new permits, as a client does."""

    writable = True

    def __init__(self) -> None:
        self.confirmed = 0
        self.delivered = 0
        self.consumers = {}  # type: ignore[var-annotated]

    def receipts(
        self,
        producer_id: int,
        ledger_id: int,
        first_entry_id: int,
        published: Sequence[tuple[object, int, int]],
    ) -> None:
        self.confirmed += len(published)

    def deliver(self, consumer_id: int, partition: int, messages: Sequence[Delivery]) -> None:
        self.delivered += len(messages)
        acks: list[Acked] = [(m[0], m[1], ()) for m in messages]
        asyncio.get_running_loop().call_soon(self._answer, consumer_id, acks)

    def _answer(self, consumer_id: int, acks: list[Acked]) -> None:
        consumer = self.consumers[consumer_id]
        consumer.ack_individual(acks)
        consumer.flow(len(acks))

    def count_detached(self, producer: object, count: int) -> None: ...

    def count_throttled(self, entries: int, size: int) -> None: ...

    def send_error(self, producer_id: int, sequence_id: int, error: BrokerError) -> None:
        raise error

    def close_producer(self, producer_id: int, assigned_broker_url: ServiceUrls | None) -> None: ...

    def producer_ready(self, producer_id: int, topic_epoch: int | None) -> None: ...

    def producer_refused(self, producer_id: int, error: BrokerError) -> None:
        raise error

    def active_change(self, consumer_id: int, is_active: bool) -> None: ...

    def close_consumer(self, consumer_id: int, assigned_broker_url: ServiceUrls | None) -> None: ...

    def farewell(
        self, consumer_id: int, assigned_broker_url: ServiceUrls | None
    ) -> asyncio.Future[None]:
        raise NotImplementedError

    def reached_end(self, consumer_id: int) -> None: ...


def entries() -> list[bytes]:
    return [
        build(
            MessageMetadata(
                producer_name="bench", sequence_id=n, publish_time=1, partition_key=key
            ),
            b"x" * 100,
        )
        for n, key in enumerate(KEYS)
    ]


async def measure(
    store: LedgerStore, kind: SubscriptionType | None, consumers: int, count: int
) -> float:
    """CPU seconds a message: publish to receipt, and delivery with its ack if ``kind`` is given."""
    registry = TopicRegistry(store, Alone(), Alone(), owner="bench")
    topic = await registry.get(TopicName.parse("persistent://t/n/x"))
    sink = Connection()
    producer = topic.add_producer(ProducerRequest(1), sink)
    for number in range(consumers if kind is not None else 0):
        request = SubscribeRequest(
            "s",
            kind or SubscriptionType.Exclusive,
            number,
            consumer_name=f"c{number}",
            initial_position=InitialPosition.Earliest,
        )
        sink.consumers[number] = await topic.subscribe(request, sink)
        sink.consumers[number].flow(1000)
    bodies = entries()
    started, sent = time.process_time(), 0
    while sent < count:
        for n in range(BURST):
            entry = bodies[(sent + n) % len(bodies)]
            producer.publish([Send(1, sent + n, sent + n, 1, False, entry)], len(entry))
        sent += BURST
        await asyncio.sleep(0)
        while sent - sink.confirmed > PENDING_MAX:  # noqa: ASYNC110 - turns of the loop
            await asyncio.sleep(0)
    while sink.confirmed < sent or (  # noqa: ASYNC110
        kind is not None and sink.delivered < sent
    ):
        await asyncio.sleep(0)
    spent = (time.process_time() - started) / sent
    await registry.close()
    await store.close()
    return spent


def run(*, quick: bool, out: Path) -> list[Figure]:
    count = 20_000 if quick else 200_000

    def cost(kind: SubscriptionType | None, consumers: int = 1) -> float:
        return asyncio.run(measure(MemoryLedgerStore(), kind, consumers, count)) * 1e6

    with tempfile.TemporaryDirectory(prefix="counterpoise-bench-") as root:
        on_disk = asyncio.run(measure(FileLedgerStore(Path(root)), None, 0, count)) * 1e6
    publish = cost(None)
    figures = [
        Figure("publish to receipt, memory", publish, "µs/message"),
        Figure("publish to receipt, on disk", on_disk, "µs/message"),
    ]
    for kind, consumers in [
        (SubscriptionType.Exclusive, 1),
        (SubscriptionType.Shared, 1),
        (SubscriptionType.Shared, 5),
        (SubscriptionType.Key_Shared, 5),
    ]:
        figures.append(
            Figure(
                f"deliver and ack, {kind.name} x {consumers}",
                cost(kind, consumers) - publish,
                "µs/message",
            )
        )
    return figures
