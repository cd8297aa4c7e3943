"""Rates by an injected clock: steady, in bursts, after idleness, in a topic that has just moved."""

import gc

import pytest

from counterpoise.broker.topic.meter import Meter, RateClock
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import World, batch, entry, publish

WINDOW = 5


class Time:
    """A clock that stands until `passes` is called, and ends windows as a broker does."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.clock = RateClock(lambda: self.now)
        self._next = self.now + WINDOW

    def passes(self, seconds: float) -> None:
        until = self.now + seconds
        while self._next <= until:
            self.now, self._next = self._next, self._next + WINDOW
            self.clock.turn()
        self.now = until


@pytest.fixture
def time() -> Time:
    return Time()


def test_a_steady_rate_is_right_from_the_first_seconds_on(time: Time) -> None:
    meter = Meter(time.clock)
    for second in range(1, 60):
        meter.count(100, 12_800)
        time.passes(1)
        assert meter.rate == pytest.approx(100), f"after {second} s"
        assert meter.byte_rate == pytest.approx(12_800)
        assert meter.average_size == 128


def test_a_burst_counts_as_often_as_it_came(time: Time) -> None:
    meter = Meter(time.clock)
    time.passes(42)
    meter.count(3000, 3000)
    seen, step = 0.0, 0.25
    for _ in range(int(4 * WINDOW / step)):
        time.passes(step)
        seen += meter.rate * step
    # Between one window and two: the same burst is shown for so long, at so much less a second.
    assert seen == pytest.approx(3000, rel=0.35)
    assert meter.rate == meter.byte_rate == meter.average_size == 0


@pytest.mark.parametrize("idle", [2 * WINDOW, 3 * WINDOW, 100_000 * WINDOW])
def test_idleness_is_no_rate_and_leaves_no_trace(time: Time, idle: int) -> None:
    meter = Meter(time.clock)
    meter.count(500, 500)
    time.passes(1)
    assert meter.rate == 500
    time.passes(idle)
    assert meter.rate == meter.byte_rate == 0
    for _ in range(2 * WINDOW):
        meter.count(10, 40)
        time.passes(1)
    assert meter.rate == pytest.approx(10)
    assert (meter.messages, meter.bytes) == (500 + 20 * WINDOW, 500 + 80 * WINDOW)


def test_no_meter_is_read_when_a_window_ends(time: Time) -> None:
    meters = [Meter(time.clock) for _ in range(3)]
    time.passes(10 * WINDOW)
    known = gc.get_referents(time.clock)
    assert not any(isinstance(each, Meter | list | dict | set) for each in known), meters


def test_the_first_messages_of_a_topic_do_not_count_for_thousands(time: Time) -> None:
    time.passes(WINDOW - 0.001)
    meter = Meter(time.clock)
    meter.count(5, 500)
    time.passes(0.01)
    assert meter.rate == 5


async def test_every_figure_of_a_topic(time: Time) -> None:
    world = World(MemoryLedgerStore(), now=lambda: time.now)
    time.clock = world.registry.clock
    one, two = await world.producer(), await world.producer()
    all_of_it = await world.consumer(subscription="all", permits=100_000)
    shared = [
        await world.consumer(SubscriptionType.Shared, subscription="shared", permits=100_000)
        for _ in range(2)
    ]
    single, ten = entry("x" * 40), batch(10)
    for second in range(2 * WINDOW):
        for n in range(6):
            publish(one, second * 6 + n, second * 6 + n, single)
        for n in range(2):
            publish(two, second * 2 + n, second * 2 + n, ten)
        await world.wire.until(lambda: len(world.wire.receipted) == 8 * (second + 1))  # noqa: B023
        time.passes(1)
    topic = await world.topic()
    size_in = 6 * len(single) + 2 * len(ten)
    assert topic.meter_in.rate == pytest.approx(26)
    assert topic.meter_in.byte_rate == pytest.approx(size_in)
    assert topic.meter_in.average_size == pytest.approx(size_in / 26)
    assert [p.meter.rate for p in (one, two)] == pytest.approx([6, 20])
    assert [p.meter.byte_rate for p in (one, two)] == pytest.approx([6 * len(single), 2 * len(ten)])
    assert topic.meter_out.rate == pytest.approx(52)
    assert topic.meter_out.byte_rate == pytest.approx(2 * size_in)
    assert topic.subscriptions["shared"].meters.out.rate == pytest.approx(26)
    assert sum(c.meters.out.rate for c in shared) == pytest.approx(26)
    assert all_of_it.meters.out.messages == topic.meter_in.messages == 26 * 2 * WINDOW
    assert topic.meter_in.bytes == size_in * 2 * WINDOW
    assert {c.meters.redelivered.rate for c in shared} == {0}


async def test_acknowledged_and_redelivered(time: Time) -> None:
    world = World(MemoryLedgerStore(), now=lambda: time.now)
    time.clock = world.registry.clock
    producer = await world.producer()
    consumer = await world.consumer(SubscriptionType.Shared)
    await world.publish(producer, *range(8))
    publish(producer, 8, 17, batch(10))
    await world.wire.until(lambda: len(world.wire.receipted) == 9)
    ids = world.wire.ids(consumer)
    consumer.redeliver([i[:2] for i in ids[:3]])
    consumer.ack_individual(ids[4:])
    time.passes(2)
    subscription = consumer.subscription
    for meters in (consumer.meters, subscription.meters):
        assert (meters.out.messages, meters.out.rate) == (21, 10.5)
        assert (meters.redelivered.messages, meters.redelivered.rate) == (3, 1.5)
        assert (meters.acked.messages, meters.acked.rate) == (14, 7)
    assert consumer.unacked == subscription.backlog == 4


async def test_a_move_begins_at_nothing(time: Time) -> None:
    world = World(MemoryLedgerStore(), now=lambda: time.now)
    time.clock = world.registry.clock
    await world.publish(await world.producer(), *range(100))
    time.passes(1)
    assert (await world.topic()).meter_in.rate == 100
    await world.registry.unload_topic(world.name)
    moved = await world.topic()
    assert (moved.meter_in.rate, moved.meter_in.messages) == (0, 0)
    await world.publish(await world.producer(), *range(30))
    time.passes(2)
    assert moved.meter_in.rate == 15
