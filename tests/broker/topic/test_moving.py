"""A topic moves between brokers under load: nothing acknowledged is lost, the order is kept."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.ports import ProducerRequest, ServiceUrls, SubscribeRequest
from counterpoise.broker.topic.producer import Producer
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.names.topic import TopicName
from counterpoise.quota import SECOND_NS
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.values import InitialPosition, SubscriptionType
from tests.broker.topic.conftest import Everything, Wire, entry, payload, publish
from tests.quota.jumping import now_ns, on_jumping_loop
from tests.waiting import WITHIN_S, pause

NAME = TopicName.parse("persistent://t/n/moving")


class Settling(Everything):
    """Owns everything once a former owner is done."""

    def __init__(self, after: asyncio.Future[int] | None) -> None:
        super().__init__()
        self.after = after

    async def approach(self, topic: TopicName, is_released: Callable[[], Awaitable[bool]]) -> None:
        if self.after is not None:
            await self.after
        await super().approach(topic, is_released)


class Cluster:
    """Brokers over one directory; ``here`` is the one that owns the topic."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.stores: list[FileLedgerStore] = []
        self.begin()

    def begin(self, after: asyncio.Future[int] | None = None) -> None:
        self.stores.append(FileLedgerStore(self.root, ledger_bytes=4_000))
        self.world = Settling(after)
        self.here = TopicRegistry(self.stores[-1], self.world, self.world, owner="a broker")

    async def move(self) -> None:
        """Unload in order, then go on elsewhere."""
        bundle = self.world.bundle_of(NAME)
        self.world.refused.add(bundle)
        former = self.here
        leaving = asyncio.ensure_future(
            former.unload_bundle(bundle, ServiceUrls("pulsar://next", None))
        )
        # Clients come before the former owner is done, as they do when they are sent straight on.
        self.begin(after=leaving)
        await leaving

    async def steal(self) -> None:
        """Go on elsewhere though the former owner still believes it is one."""
        self.begin()
        await self.here.get(NAME)

    async def close(self) -> None:
        await self.here.close()
        for store in self.stores:
            await store.close()


class Client(Wire):
    """A client that does as the real one: resends what has no receipt, resubscribes."""

    def __init__(self, cluster: Cluster, kind: SubscriptionType) -> None:
        super().__init__()
        self.cluster = cluster
        self.kind = kind
        self.unreceipted: dict[int, bytes] = {}
        self.receipted: list[int] = []
        self.received: list[int] = []
        self.acked: set[int] = set()
        self.producer: Producer | None = None
        self.consumer: Consumer | None = None

    async def connect(self) -> None:
        while self.producer is None or self.consumer is None:
            topic = await self.cluster.here.get(NAME)
            try:
                if self.consumer is None:
                    request = SubscribeRequest(
                        "s", self.kind, 2, initial_position=InitialPosition.Earliest
                    )
                    consumer = self.consumer = await topic.subscribe(request, self)
                    consumer.flow(1_000_000)
                if self.producer is None:
                    self.producer = topic.add_producer(ProducerRequest(1), self)
                    for number, body in self.unreceipted.items():
                        publish(self.producer, number, number, body)
            except BrokerError:
                await asyncio.sleep(0)

    def receipts(
        self,
        producer_id: int,
        ledger_id: int,
        first_entry_id: int,
        published: Sequence[tuple[object, int, int]],
    ) -> None:
        for _, number, _ in published:
            self.receipted.append(number)
            self.unreceipted.pop(number, None)

    def close_producer(self, producer_id: int, url: ServiceUrls | None) -> None:
        self.producer = None

    def close_consumer(self, consumer_id: int, url: ServiceUrls | None) -> None:
        self.consumer = None

    def deliver(self, consumer_id: int, partition: int, messages: Sequence[Delivery]) -> None:
        for message in messages:
            number = int(payload(message[3]))
            self.received.append(number)
            if number % 7 and self.consumer is not None:
                self.acked.add(number)
                asyncio.get_running_loop().call_soon(self.ack, self.consumer, message)

    def ack(self, consumer: Consumer, message: Delivery) -> None:
        consumer.ack_individual([(message[0], message[1], ())])

    def send(self, number: int) -> None:
        body = entry(number, partition_key=str(number % 5))
        self.unreceipted[number] = body
        if self.producer is not None:
            publish(self.producer, number, number, body)


@pytest.mark.parametrize("how", ["move", "steal"])
@pytest.mark.parametrize("kind", list(SubscriptionType))
async def test_nothing_acknowledged_is_lost(
    tmp_path: Path, kind: SubscriptionType, how: str
) -> None:
    chance = random.Random(f"{kind}{how}")
    cluster = Cluster(tmp_path)
    client = Client(cluster, kind)
    await client.connect()
    number = 0
    for _ in range(8):
        for _ in range(chance.randrange(5, 60)):
            client.send(number)
            number += 1
            if chance.random() < 0.3:
                await asyncio.sleep(0)
        leaving = asyncio.ensure_future(getattr(cluster, how)())
        while not leaving.done():
            client.send(number)
            number += 1
            await pause()
        await leaving
        await client.connect()
    async with asyncio.timeout(WITHIN_S):
        while client.unreceipted or len(set(client.received)) < number:
            if client.producer is None or client.consumer is None:
                await client.connect()
            await pause()
    assert set(client.received) == set(range(number))
    assert set(client.receipted) == set(range(number))
    firsts = list(dict.fromkeys(client.received))
    assert firsts == sorted(firsts), "first deliveries are out of order"
    await cluster.close()


@on_jumping_loop
async def test_a_successor_reads_ahead_for_as_many_topics_as_it_has_time_for() -> None:
    """A disk that is slow, or a bundle that is large: what is left is said, and nothing hangs."""
    store, world = MemoryLedgerStore(), Everything()
    registry = TopicRegistry(store, world, world, owner="the successor")
    names = [TopicName.parse(f"persistent://t/n/{number}") for number in range(100)]
    answered, prepared, silent = len(names), set[str](), asyncio.Event()

    async def prepare(name: str, _: Any) -> None:
        if len(prepared) >= answered:
            await silent.wait()
        prepared.add(name)

    store.prepare = prepare  # type: ignore[method-assign]
    assert await registry.prepare(names, within_s=0.5) == 0
    assert len(prepared) == 100
    prepared.clear()
    answered, began = 60, now_ns()
    assert await registry.prepare(names, within_s=0.5) == 40
    assert (len(prepared), now_ns() - began) == (60, SECOND_NS // 2)
