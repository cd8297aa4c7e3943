"""Two brokers on one metadata store and one ledger store, and clients that follow their topics.

All that limits are made of is the brokers' own: policies in the store and what follows them, the
resource groups' exchange, topics, producers, subscriptions. Simulated are the sockets, and the
time: it jumps from one timer to the next.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.connection.pause import ReadingPause
from counterpoise.broker.connection.throttled import ThrottledMemory, ThrottledPublishes
from counterpoise.broker.limits.options import RateOptions
from counterpoise.broker.limits.policies import LimitPolicies
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.ports import ProducerRequest, ServiceUrls, SubscribeRequest
from counterpoise.broker.topic.producer import Producer
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.metadata import MemoryTree, open_store
from counterpoise.names.bundle import BundleName
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.quota import SECOND_NS
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.events import Send
from counterpoise.wire.values import InitialPosition, SubscriptionType
from tests.broker.connection.test_pause import StrictTransport
from tests.broker.topic.conftest import Everything, batch, entry
from tests.quota.jumping import JumpingLoop

CLUSTER = "standalone"
NAMESPACE = NamespaceName.parse("t/n")
HELD_ENTRIES_MAX = 8
HELD_MEMORY = 3_000
URLS = ServiceUrls("pulsar://heir", None)


class Broker:
    """One broker, as far as limits are concerned."""

    def __init__(self, town: "Town", name: str) -> None:
        self.town = town
        self.name = name
        self.options = RateOptions()
        self.ownership = Everything()
        self.memory = ThrottledMemory(HELD_MEMORY)
        self.background = BackgroundTasks()

    async def start(self) -> None:
        town = self.town
        store = await open_store("memory:", tree=town.tree, session_timeout_s=30)
        self.policies = Policies(store, Policies.cache_of(store))
        self.limits = LimitPolicies(
            self.name, CLUSTER, store, self.policies, lambda: self.options, clock_ns=town.now
        )
        self.topics = TopicRegistry(
            town.ledgers,
            self.ownership,
            town.catalog,
            owner=self.name,
            background=self.background,
            now=lambda: town.now() / SECOND_NS,
            limits=self.limits.publish,
        )
        self.limits.start(self.background)

    def set_options(self, **changed: int) -> None:
        self.options = replace(self.options, **changed)
        self.limits.settings_changed()


class Wire:
    """One connection of a client to a broker: it is read while nothing pauses it."""

    writable = True

    def __init__(self, broker: Broker, address: str) -> None:
        self.broker = broker
        self.address = address
        self.transport = StrictTransport()
        self.pause = ReadingPause(
            cast("asyncio.Transport", self.transport),
            lambda: 0.0,
            self._released,
        )
        self.holds = ThrottledPublishes(self.pause, broker.memory, HELD_ENTRIES_MAX, 1 << 20)
        self.unread: deque[tuple[Producer, Send]] = deque()
        self.writers: dict[int, Writer] = {}
        self.readers: dict[int, Reader] = {}

    def _released(self) -> None:
        # What the kernel has kept meanwhile.
        asyncio.get_running_loop().call_soon(self.read)

    def read(self) -> None:
        """Serve what has come, as long as nothing pauses it."""
        while self.unread and self.transport.reading and not self.transport.closing:
            producer, send = self.unread.popleft()
            producer.publish([send], len(send.entry))

    def cut(self) -> None:
        """The connection is gone."""
        self.transport.closing = True
        for writer in list(self.writers.values()):
            writer.lost()
        for reader in list(self.readers.values()):
            reader.lost()
        assert self.holds.entries == 0, "a connection that is gone holds memory"

    # What a topic says to its producers.

    def held(self, entries: int, size: int) -> None:
        self.holds.add(entries, size)
        assert self.holds.entries >= 0
        assert self.holds.size >= 0

    def receipt(self, producer_id: int, sequence_id: int, *_: int) -> None:
        if producer_id in self.writers:
            self.writers[producer_id].receipted(sequence_id)

    def receipts(
        self,
        producer_id: int,
        ledger: int,
        first: int,
        published: Sequence[tuple[object, int, int]],
    ) -> None:
        for _, sequence_id, _ in published:
            self.receipt(producer_id, sequence_id)

    def settled(self, producer: object, count: int) -> None:
        pass

    def send_error(self, producer_id: int, sequence_id: int, error: Exception) -> None:
        raise AssertionError(f"{sequence_id} was refused: {error}")

    def close_producer(self, producer_id: int, url: ServiceUrls | None) -> None:
        if producer_id in self.writers:
            self.writers[producer_id].sent_on()

    def producer_ready(self, producer_id: int, topic_epoch: int | None) -> None:
        raise AssertionError("nobody waits for exclusive access here")

    # And to its consumers.

    def deliver(self, consumer_id: int, partition: int, messages: Sequence[Delivery]) -> None:
        if consumer_id in self.readers:
            self.readers[consumer_id].delivered(messages)

    def active_change(self, consumer_id: int, is_active: bool) -> None:
        pass

    def close_consumer(self, consumer_id: int, url: ServiceUrls | None) -> None:
        if consumer_id in self.readers:
            self.readers[consumer_id].sent_on()

    def reached_end(self, consumer_id: int) -> None:
        raise AssertionError("no topic is terminated here")


class Client:
    """What writers and readers have in common: a topic, and a connection to whoever has it."""

    def __init__(self, town: "Town", topic: TopicName, place: int) -> None:
        self.town = town
        self.topic = topic
        self.place = place
        self.number = town.next_number()
        self.wire: Wire | None = None
        self.ended = False

    async def connect(self) -> None:
        raise NotImplementedError

    def sent_on(self) -> None:
        """The topic is elsewhere, or comes back."""
        self._leave()
        self.town.connect(self)

    def end(self) -> None:
        """It comes no more."""
        self.ended = True
        self.lost()

    def lost(self) -> None:
        raise NotImplementedError

    def _leave(self) -> None:
        raise NotImplementedError


class Writer(Client):
    """A producer's client: what has no receipt is sent again, in its order."""

    producer: Producer | None = None

    def __init__(self, town: "Town", topic: TopicName, place: int) -> None:
        super().__init__(town, topic, place)
        self.sequence = 0
        self.unanswered: deque[Send] = deque()

    async def connect(self) -> None:
        broker = self.town.owner(self.topic)
        wire = self.town.wire(broker, self.place)
        topic = await broker.topics.get(self.topic)
        if self.ended or wire.transport.closing:
            return
        wire.writers[self.number] = self
        request = ProducerRequest(self.number, address=wire.address)
        self.wire, self.producer = wire, topic.add_producer(request, wire)
        wire.unread += [(self.producer, send) for send in self.unanswered]
        wire.read()

    def send(self, count: int, messages: int) -> None:
        for _ in range(count):
            # No two are the same.
            mark = {"producer_name": str(self.number), "sequence_id": self.sequence}
            body = entry("x", **mark) if messages == 1 else batch(messages, **mark)
            send = Send(self.number, self.sequence, self.sequence, messages, False, body)
            self.sequence += 1
            self.unanswered.append(send)
            if self.wire is not None and self.producer is not None:
                self.wire.unread.append((self.producer, send))
        if self.wire is not None:
            self.wire.read()

    def receipted(self, sequence_id: int) -> None:
        assert self.unanswered, "a receipt for nothing"
        assert self.unanswered[0].sequence_id == sequence_id, "entries lost their order"
        sent = self.unanswered.popleft()
        self.town.stored[self.topic].add(sent.entry)

    def lost(self) -> None:
        producer = self.producer
        self._leave()
        if producer is not None:
            producer.close()
        self.town.connect(self)

    def _leave(self) -> None:
        wire, self.wire, self.producer = self.wire, None, None
        if wire is not None:
            wire.writers.pop(self.number, None)
            kept = [(it, send) for it, send in wire.unread if send.producer_id != self.number]
            wire.unread = deque(kept)


class Reader(Client):
    """A consumer's client: it acknowledges whatever it gets, and always has room."""

    consumer: Consumer | None = None

    def __init__(self, town: "Town", topic: TopicName, place: int, subscription: str) -> None:
        super().__init__(town, topic, place)
        self.subscription = subscription
        self.kind = list(SubscriptionType)[int(subscription[1:])]

    async def connect(self) -> None:
        broker = self.town.owner(self.topic)
        wire = self.town.wire(broker, self.place)
        topic = await broker.topics.get(self.topic)
        if self.ended or wire.transport.closing:
            return
        request = SubscribeRequest(
            self.subscription,
            self.kind,
            self.number,
            consumer_name=f"c{self.number}",
            initial_position=InitialPosition.Earliest,
            address=wire.address,
        )
        wire.readers[self.number] = self
        try:
            consumer = await topic.subscribe(request, wire)
        except BaseException:
            wire.readers.pop(self.number, None)
            raise
        if self.ended or wire.transport.closing or wire.readers.get(self.number) is not self:
            consumer.close()
            return
        self.wire, self.consumer = wire, consumer
        consumer.flow(1000)

    def delivered(self, messages: Sequence[Delivery]) -> None:
        got = self.town.got.setdefault((self.topic, self.subscription), set())
        got.update(each[3] for each in messages)
        acks = [(each[0], each[1], ()) for each in messages]
        asyncio.get_running_loop().call_soon(self._answer, self.consumer, acks)

    def _answer(self, consumer: Consumer | None, acks: list[Any]) -> None:
        if consumer is not None and consumer is self.consumer:
            consumer.ack_individual(acks)
            consumer.flow(1000)

    def lost(self) -> None:
        consumer = self.consumer
        self._leave()
        if consumer is not None:
            consumer.close()
        self.town.connect(self)

    def _leave(self) -> None:
        wire, self.wire, self.consumer = self.wire, None, None
        if wire is not None:
            wire.readers.pop(self.number, None)


class Town:
    """Two brokers, two topics, and whoever comes."""

    def __init__(self, loop: JumpingLoop) -> None:
        self._loop = loop
        self.tree = MemoryTree()
        self.ledgers = MemoryLedgerStore()
        self.catalog = Everything()
        self.brokers = [Broker(self, name) for name in ("a", "b")]
        self.names = [TopicName.parse(f"persistent://t/n/{name}") for name in ("x", "y")]
        self.wires: dict[tuple[str, int], Wire] = {}
        self.writers: list[Writer] = []
        self.readers: list[Reader] = []
        #: Entries that were acknowledged to their producers, and that subscriptions have got.
        self.stored: dict[TopicName, set[bytes]] = {name: set() for name in self.names}
        self.got: dict[tuple[TopicName, str], set[bytes]] = {}
        self._numbers = 0
        self._connecting: set[asyncio.Task[None]] = set()
        #: Bundles on their way, which nobody owns.
        self._moving: dict[BundleName, asyncio.Event] = {}

    def now(self) -> int:
        return self._loop.jumping.now_ns

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    async def start(self) -> None:
        for broker in self.brokers:
            await broker.start()
        first, second = self.brokers
        await first.policies.create_namespace(NAMESPACE, {"bundles": {"numBundles": 4}})
        for name in self.names:
            second.ownership.refused.add(second.ownership.bundle_of(name))

    def owner(self, name: TopicName) -> Broker:
        return next(each for each in self.brokers if each.ownership.owns(name))

    def wire(self, broker: Broker, place: int) -> Wire:
        known = self.wires.get((broker.name, place))
        if known is None or known.transport.closing:
            known = self.wires[broker.name, place] = Wire(broker, f"10.0.0.{place}:1")
        return known

    def connect(self, client: Client) -> None:
        """Let a client connect, and again until it does."""
        if not client.ended:
            task = self._loop.create_task(self._connect(client))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, client: Client) -> None:
        while not client.ended and client.wire is None:
            bundle = self.brokers[0].ownership.bundle_of(client.topic)
            if bundle in self._moving:
                await self._moving[bundle].wait()
            # On its way again, or another consumer is still there.
            with contextlib.suppress(BrokerError):
                await client.connect()
            if client.wire is None:
                await asyncio.sleep(0.1)

    async def move(self, name: TopicName) -> None:
        """Hand a topic's bundle to the other broker."""
        bundle = self.brokers[0].ownership.bundle_of(name)
        if bundle in self._moving:
            return
        former = self.owner(name)
        heir = next(each for each in self.brokers if each is not former)
        arrived = self._moving[bundle] = asyncio.Event()
        former.ownership.refused.add(bundle)
        await former.topics.unload_bundle(bundle, URLS)
        heir.ownership.refused.discard(bundle)
        del self._moving[bundle]
        arrived.set()

    async def stop(self) -> None:
        for task in list(self._connecting):
            task.cancel()
        for broker in self.brokers:
            broker.limits.stop()
            await broker.background.stop()
