"""However much there is to deliver, and however many want it, everybody else has their turn."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.dispatch.delivery_turns import TURN, DeliveryTurns
from counterpoise.broker.topic.dispatch.dispatcher import BURST_BYTES
from counterpoise.broker.topic.dispatch.recipient import Recipient
from counterpoise.broker.topic.dispatch.round_robin import RoundRobin
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.persistent import PersistentTopic
from counterpoise.broker.topic.subscription import SEEK_WORK
from counterpoise.broker.topic.subscription_cursor import SAVE_WORK
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import CursorState, Position, StorageError
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import InitialPosition, SubscriptionType
from tests.broker.topic.conftest import Wire, World, entry, publish
from tests.waiting import WITHIN_S

EVERY_TYPE = list(SubscriptionType)


async def fill(world: World, count: int) -> None:
    producer, body = await world.producer(), entry("x")
    for number in range(count):
        publish(producer, number, number, body)
    await world.wire.until(lambda: len(world.wire.receipted) == count)


async def most_in_a_turn(deliveries: Callable[[], int], until: int) -> int:
    """The most that is delivered between two turns of the loop."""
    most = before = deliveries()
    async with asyncio.timeout(30):
        while before < until:
            await asyncio.sleep(0)
            now = deliveries()
            most, before = max(most, now - before), now
    return most


@pytest.mark.parametrize("kind", EVERY_TYPE)
async def test_a_backlog_does_not_hold_the_loop(world: World, kind: SubscriptionType) -> None:
    await fill(world, 20_000)
    consumer = await world.consumer(kind, permits=0)
    consumer.flow(1_000_000)
    assert await most_in_a_turn(lambda: len(world.wire.deliveries), 20_000) <= TURN + 500
    assert len(set(world.wire.ids(consumer))) == len(world.wire.deliveries) == 20_000


class Bursts(Wire):
    """A connection that notes how much it is given at once, and by which consumer's right."""

    def __init__(self) -> None:
        super().__init__()
        self.bursts: list[tuple[int, int]] = []
        self.bytes: list[int] = []

    def deliver(self, consumer_id: int, partition: int, messages: Sequence[Delivery]) -> None:
        self.bursts.append((consumer_id, len(messages)))
        self.bytes.append(sum(len(each[3]) for each in messages))
        super().deliver(consumer_id, partition, messages)


@pytest.mark.parametrize("kind", EVERY_TYPE)
async def test_what_is_sent_at_once_is_bounded_in_bytes(
    world: World, kind: SubscriptionType
) -> None:
    topic, producer, body = await world.topic(), await world.producer(), entry("x" * (1 << 18))
    topic.log.extend([body] * 10, [1] * 10, [(producer, 0, 0)] * 10)
    await topic.log.drain()
    wire = Bursts()
    await world.consumer(kind, wire=wire)
    await wire.until(lambda: len(wire.deliveries) == 10)
    assert max(wire.bytes) < BURST_BYTES + len(body)


async def test_consumers_that_share_get_a_few_messages_each_in_their_turn(
    store: MemoryLedgerStore,
) -> None:
    world, wire = World(store, options=TopicOptions(round_robin_messages=2)), Bursts()
    first = await world.consumer(SubscriptionType.Shared, wire=wire)
    await world.publish(await world.producer(), "alone")
    second = await world.consumer(SubscriptionType.Shared, wire=wire)
    topic, producer = await world.topic(), await world.producer()
    topic.log.extend([entry("x")] * 7, [1] * 7, [(producer, 0, 0)] * 7)
    await topic.log.drain()
    await wire.until(lambda: len(wire.deliveries) == 8)
    assert sorted(count for _, count in wire.bursts[1:]) == [1, 2, 2, 2]
    turns = [consumer for consumer, _ in wire.bursts[1:]]
    assert all(turns[at] != turns[at + 1] for at in range(3))
    assert set(turns) == {first.consumer_id, second.consumer_id}


@pytest.mark.parametrize("kind", [SubscriptionType.Shared, SubscriptionType.Exclusive])
async def test_many_subscriptions_with_a_backlog_take_turns(kind: SubscriptionType) -> None:
    world = World(MemoryLedgerStore())
    await fill(world, 1000)
    consumers = [await world.consumer(kind, subscription=f"s{n}", permits=0) for n in range(50)]
    for consumer in consumers:
        consumer.flow(1000)
    assert await most_in_a_turn(lambda: len(world.wire.deliveries), 50_000) <= TURN + 500
    assert {len(world.wire.ids(consumer)) for consumer in consumers[:3]} == {1000}


@pytest.mark.parametrize("kind", [SubscriptionType.Shared, SubscriptionType.Key_Shared])
async def test_what_many_consumers_cannot_take_costs_nothing(kind: SubscriptionType) -> None:
    """A thousand consumers without permits, and one with: the thousand are not looked at."""
    asked = 0

    class Counting(Wire):
        @property
        def writable(self) -> bool:
            nonlocal asked
            asked += 1
            return True

        @writable.setter
        def writable(self, value: bool) -> None: ...

    world = World(MemoryLedgerStore())
    wire = Counting()
    idle = [await world.consumer(kind, permits=0, wire=wire) for _ in range(1000)]
    asked = 0
    producer = await world.producer()
    for n in range(20):
        await world.publish(producer, n, partition_key=str(n))
    assert asked <= 100
    for consumer in idle:
        consumer.flow(20)
    await wire.until(lambda: len(wire.deliveries) == 20)


@pytest.mark.parametrize("kind", EVERY_TYPE[1:])
async def test_subscribing_costs_the_same_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch, kind: SubscriptionType
) -> None:
    """Counted in looks at a consumer's name, priority and sink, not in seconds."""
    looks = 0
    original = {name: Recipient.__dict__[name] for name in ("name", "priority", "sink", "permits")}

    def counted(name: str) -> property:
        def get(self: Recipient) -> object:
            nonlocal looks
            looks += 1
            return original[name].__get__(self)

        return property(get, original[name].__set__)

    for name in original:
        monkeypatch.setattr(Recipient, name, counted(name))
    world = World(MemoryLedgerStore())
    await fill(world, 100)
    costs = []
    for _ in range(300):
        before = looks
        consumer = await world.consumer(kind, permits=1)
        costs.append(looks - before)
        del consumer
    assert max(costs[-50:]) <= max(costs[:50]) + 10
    dispatcher = next(iter((await world.topic()).subscriptions.values())).dispatcher
    before = looks
    for recipient in list(dispatcher.consumers):
        recipient.close()  # type: ignore[attr-defined]
    assert looks - before <= 300 * 40


async def test_cursors_are_saved_a_few_in_a_turn_and_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What has to look at all subscriptions does not do so for each of them."""
    monkeypatch.setattr("counterpoise.broker.topic.subscription_cursor.SAVE_SECONDS", 0)
    world = World(MemoryLedgerStore())
    topic = cast("PersistentTopic", await world.topic())
    count = 3 * TURN // SAVE_WORK
    await fill(world, 1)
    begin, saved = InitialPosition.Earliest, list[CursorState]()
    found = [await topic.create_subscription(f"s{n}", begin) for n in range(count)]
    looks, trim = 0, topic.log.trim

    def looked(before: int) -> None:
        nonlocal looks
        looks += 1
        trim(before)

    monkeypatch.setattr(topic.log, "trim", looked)
    monkeypatch.setattr(topic.log, "save_cursor", saved.append)
    for each in found:
        each.advance(0)
    most = await most_in_a_turn(lambda: len(saved), count)
    assert most <= TURN // SAVE_WORK + 1
    await asyncio.sleep(0)
    assert 0 < looks <= 2 * count * SAVE_WORK // TURN
    assert len({each.name for each in saved}) == count


async def test_seeks_of_many_subscriptions_take_turns() -> None:
    world = World(MemoryLedgerStore())
    await fill(world, 10)
    count = 5 * TURN // SEEK_WORK
    consumers = [await world.consumer(subscription=f"s{n}", permits=0) for n in range(count)]
    await asyncio.sleep(0)
    sought = [asyncio.ensure_future(each.seek_to(Position(0, 5))) for each in consumers]
    before = len(world.wire.closed_consumers)
    most = await most_in_a_turn(lambda: len(world.wire.closed_consumers) - before, count)
    assert most <= TURN // SEEK_WORK + 1
    await asyncio.gather(*sought)


async def test_a_second_seek_is_refused_while_the_first_is_under_way() -> None:
    world = World(MemoryLedgerStore())
    await fill(world, 10)
    consumer = await world.consumer(permits=0)
    await asyncio.sleep(0)
    seeks = [
        asyncio.ensure_future(each)
        for each in (consumer.seek_to(Position(0, 5)), consumer.seek_to_time(0))
    ]
    # Nothing is left of this turn, so that neither is done at once.
    (await world.topic()).commons.turns.spend(TURN)  # type: ignore[attr-defined]
    done = await asyncio.gather(*seeks, return_exceptions=True)
    assert done[0] is None
    assert isinstance(done[1], BrokerError)
    assert done[1].code is ServerError.ConsumerBusy
    assert consumer.subscription.acks.mark == 4


async def test_a_seek_that_fails_keeps_no_other_away(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(MemoryLedgerStore())
    await fill(world, 10)
    consumer = await world.consumer(permits=0)

    async def unreadable(*_: object) -> int:
        raise StorageError("the disk failed")

    patched = "counterpoise.broker.topic.subscription.first_published_at"
    monkeypatch.setattr(patched, unreadable)
    with pytest.raises(StorageError):
        await consumer.seek_to_time(0)
    await consumer.seek_to(Position(0, 7))
    assert consumer.subscription.acks.mark == 6


async def test_who_wants_little_does_not_wait_for_who_wants_much() -> None:
    turns, order = DeliveryTurns(turn=100), []
    turns.spend(100)
    for number in range(1000):
        turns.wait(lambda number=number: order.append(number), "much", 10)  # type: ignore[misc]
    turns.wait(lambda: order.append("little"), "little", 10)
    for _ in range(200):
        await asyncio.sleep(0)
    assert len(order) == 1001
    assert order.index("little") <= 10
    assert [each for each in order if each != "little"] == list(range(1000))


async def test_what_one_client_leaves_of_its_share_is_for_the_next() -> None:
    turns, order = DeliveryTurns(turn=1000), []
    turns.spend(1000)
    turns.wait(lambda: order.append("little"), "little", 1)
    for _ in range(100):
        turns.wait(lambda: order.append("much"), "much", 10)
    await asyncio.sleep(0)
    assert len(order) > 80


async def test_clients_share_each_turn_of_the_loop() -> None:
    turns, counts = DeliveryTurns(turn=TURN), Counter[int]()

    def go_on(who: int) -> None:
        counts[who] += 1
        turns.wait(lambda: go_on(who), who, SEEK_WORK)

    turns.spend(TURN)
    for who in range(10):
        for _ in range(1 + 50 * who):
            turns.wait(lambda who=who: go_on(who), who, SEEK_WORK)  # type: ignore[misc]
    for _ in range(50):
        before = counts.total()
        await asyncio.sleep(0)
        assert counts.total() - before <= TURN // SEEK_WORK + 10
        assert len(counts) == 10, "each has its share of the first turn"
    assert max(counts.values()) - min(counts.values()) <= max(counts.values()) // 5


async def test_who_waits_for_a_turn_is_woken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many wait: to wake them all in every turn would be quadratic."""
    turns, waits, wait = DeliveryTurns(), 0, DeliveryTurns.wait

    def counted(self: DeliveryTurns, *args: object) -> None:
        nonlocal waits
        waits += 1
        wait(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(DeliveryTurns, "wait", counted)
    await asyncio.gather(*(turns.take(SEEK_WORK, "one") for _ in range(1000)))
    assert waits <= 1000


async def test_everybody_gets_a_turn_although_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    turns, order = DeliveryTurns(turn=1), []
    done = asyncio.Event()

    def broken() -> None:
        order.append("broken")
        turns.spend(1)
        raise RuntimeError("a fault")

    def good() -> None:
        order.append("good")
        done.set()

    turns.spend(5)
    turns.wait(broken)
    turns.wait(good)
    await asyncio.wait_for(done.wait(), WITHIN_S)
    assert order == ["broken", "good"]
    assert "a fault" in caplog.text


def recipient(priority: int) -> Recipient:
    class Stub:
        ready = True

    stub = Stub()
    stub.priority = priority  # type: ignore[attr-defined]
    return stub  # type: ignore[return-value]


def test_the_rota_goes_round_inside_the_best_priority() -> None:
    rota = RoundRobin()
    first, second, low = recipient(0), recipient(0), recipient(1)
    for each in (low, first):
        rota.enter(each)
    assert rota.next() is first
    rota.enter(second)
    assert rota.next() is second, "one that joins follows the one that joined before it"
    rota.enter(first)
    assert [rota.next() for _ in range(4)] == [first, second, first, second]
    first.ready = False  # type: ignore[misc]
    assert [rota.next() for _ in range(2)] == [second, second]
    rota.leave(second)
    assert rota.next() is low
    rota.leave(low)
    assert rota.next() is None
    first.ready = True  # type: ignore[misc]
    assert rota.next() is None, "who has left the line comes back by entering only"
    rota.enter(first)
    assert rota.next() is first
