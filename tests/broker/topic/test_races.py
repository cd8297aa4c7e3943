"""Topics that come and go under their clients, while whatever is under way may be cancelled."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.ports import ProducerRequest, SubscribeRequest
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.names.topic import TopicName
from counterpoise.storage.managed.store import ManagedLedgerStore
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import InitialPosition, SubscriptionType
from tests.bookkeeper.memory_ledgers import MemoryClient
from tests.broker.topic.conftest import Everything, Wire, entry, on_bookies, publish
from tests.quota.jumping import JumpingLoop, pass_time

TOPICS = [TopicName.parse(f"persistent://t/n/{name}") for name in "ab"]
KEPT = TopicOptions(retention_minutes=-1, retention_megabytes=-1)
MESSAGES = 25
RACES = 20


class Slowly(Everything):
    """Every answer takes some turns of the loop."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng

    async def _wait(self) -> None:
        for _ in range(self.rng.randrange(4)):
            await asyncio.sleep(0)

    async def approach(self, topic: TopicName, is_released: Callable[..., Any]) -> None:
        await self._wait()
        await super().approach(topic, is_released)

    async def exists(self, topic: TopicName) -> bool:
        await self._wait()
        return await super().exists(topic)

    async def create(self, topic: TopicName) -> None:
        await self._wait()
        await super().create(topic)

    async def terminated(self, topic: TopicName) -> bool:
        await self._wait()
        return await super().terminated(topic)


class Race:
    """Clients of two topics, and what disturbs them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.cluster = Slowly(rng)
        self.bookies: MemoryClient | None = None
        self.store: MemoryLedgerStore | ManagedLedgerStore = MemoryLedgerStore(ledger_entries=5)
        if rng.random() < 0.6:
            self.store = on_bookies(5)
        self.registry = self._registry()
        self.received: dict[TopicName, set[str]] = {name: set() for name in TOPICS}
        self.stored: dict[TopicName, list[str]] = {name: [] for name in TOPICS}
        self.tasks: list[asyncio.Task[None]] = []
        self.ids = iter(range(10**6))

    def _registry(self) -> TopicRegistry:
        return TopicRegistry(self.store, self.cluster, self.cluster, options=KEPT, owner="broker-1")

    async def play(self) -> None:
        for name in TOPICS:
            for number in range(2):
                self._start(self._producer(name, f"p{number}"))
            self._start(self._consumer(name))
        for _ in range(2):
            self._start(self._disturb(self.rng.randrange(4, 20)))
        async with asyncio.timeout(60):
            await asyncio.gather(*self.tasks)

    def _start(self, what: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(what)
        self.tasks.append(task)
        return task

    async def _impatiently(self, what: Coroutine[Any, Any, Any]) -> Any:
        """What comes of it; it is cancelled after some turns of the loop, perhaps."""
        task, is_patient = asyncio.ensure_future(what), self.rng.random() < 0.7
        if not is_patient:
            for _ in range(self.rng.randrange(1, 12)):
                await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait([task])
        assert not (is_patient and task.cancelled()), "another one's impatience cancelled this"
        if task.cancelled():
            raise BrokerError(ServerError.UnknownError, "cancelled")
        return task.result()

    async def _producer(self, topic: TopicName, name: str) -> None:
        """Publish messages one after the other, each until it has a receipt."""
        for number in range(MESSAGES):
            while not await self._published(topic, name, number):
                await pass_time(0.02)
            await pass_time(self.rng.random() * 0.1)

    async def _published(self, topic: TopicName, name: str, number: int) -> bool:
        wire, request = Wire(), ProducerRequest(next(self.ids), name=name)
        try:
            found = await self._impatiently(self._attached(topic, request, wire))
        except BrokerError:
            return False
        publish(found, number, number, entry(f"{name}-{number}"))
        await wire.until(lambda: wire.receipted or wire.errors or wire.closed_producers)
        is_stored = bool(wire.receipted)
        if is_stored:
            self.stored[topic].append(f"{name}-{number}")
        found.close()
        return is_stored

    async def _attached(self, topic: TopicName, request: ProducerRequest, wire: Wire) -> Any:
        found = await self.registry.get(topic)
        await found.make_ready(request)
        return found.add_producer(request, wire)

    async def _consumer(self, topic: TopicName) -> None:
        """Receive and acknowledge all messages, on one connection after the other."""
        wanted = {f"p{name}-{number}" for name in range(2) for number in range(MESSAGES)}
        while self.received[topic] != wanted:
            wire = Wire()
            try:
                found = await self._impatiently(self._subscribed(topic, "s", wire))
            except BrokerError:
                await pass_time(0.02)
                continue
            found.flow(1000)
            for _ in range(self.rng.randrange(1, 40)):
                await pass_time(0.02)
                if found.closed:
                    break
            self.received[topic] |= set(wire.payloads(found))
            found.ack_individual(wire.ids(found))
            await asyncio.sleep(0)
            found.close()

    async def _subscribed(self, topic: TopicName, subscription: str, wire: Wire) -> Any:
        request = SubscribeRequest(
            subscription=subscription,
            consumer_id=next(self.ids),
            consumer_name="c",
            type=SubscriptionType.Exclusive,
            initial_position=InitialPosition.Earliest,
        )
        return await (await self.registry.get(topic)).subscribe(request, wire)

    async def _disturb(self, times: int) -> None:
        for _ in range(times):
            await pass_time(self.rng.random() * 0.05)
            topic = self.rng.choice(TOPICS)
            with contextlib.suppress(BrokerError):
                if self.rng.random() < 0.5:
                    await self._impatiently(self.registry.unload_topic(topic))
                else:
                    await self._move(topic)

    async def _move(self, topic: TopicName) -> None:
        """The bundle goes to another broker, and comes back."""
        bundle = self.cluster.bundle_of(topic)
        if bundle in self.cluster.refused:
            return
        self.cluster.refused.add(bundle)
        try:
            await self._impatiently(self.registry.unload_bundle(bundle, None))
        finally:
            for _ in range(self.rng.randrange(20)):
                await asyncio.sleep(0)
            assert topic not in self.registry.loaded, "it is served here and elsewhere"
            self.cluster.refused.discard(bundle)

    async def judge(self) -> None:
        """All that has a receipt is there for the next owner, in its producer's order."""
        await self.registry.close()
        self.registry = self._registry()
        for name in TOPICS:
            topic, wire = await self.registry.get(name), Wire()
            consumer = await self._subscribed(name, "judge", wire)
            consumer.flow(10_000)
            entries = topic.log.end - topic.log.begin  # type: ignore[attr-defined]
            await wire.until(lambda wire=wire, due=entries: len(wire.deliveries) == due)
            bodies = wire.payloads(consumer)
            for producer in ("p0", "p1"):
                mine = [each for each in bodies if each.startswith(producer)]
                first = list(dict.fromkeys(mine))
                assert first == [f"{producer}-{number}" for number in range(MESSAGES)]
            assert set(self.stored[name]) <= set(bodies)
        await self.registry.close()


def test_nothing_is_lost_and_no_topic_is_stuck(caplog: pytest.LogCaptureFixture) -> None:
    async def run(seed: int) -> None:
        race = Race(random.Random(seed))
        await race.play()
        await race.judge()
        for _ in range(5):
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    for seed in range(RACES):
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            try:
                runner.run(run(seed))
            except (AssertionError, TimeoutError) as wrong:
                wrong.add_note(f"in race {seed}")
                raise
    failed = [it for it in caplog.records if it.levelname == "ERROR"]
    assert not failed, failed
