"""Key_Shared keeps the order of every key, whichever consumer comes, goes or is slow."""

import asyncio
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.dispatch.selectors import StickyRanges
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.ports import KeySharedMeta
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import SubscriptionType
from tests.broker.topic.conftest import Wire, World, entry, publish

KEYED = SubscriptionType.Key_Shared


async def publish_keys(world: World, producer: object, keys: str) -> None:
    wanted = len(world.wire.receipted) + len(keys)
    for number, key in enumerate(keys):
        body = entry(f"{key}{wanted - len(keys) + number}", partition_key=key)
        publish(producer, number, number, body)  # type: ignore[attr-defined]
    await world.wire.until(lambda: len(world.wire.receipted) == wanted)


async def test_a_key_has_one_consumer(world: World) -> None:
    consumers = [await world.consumer(KEYED) for _ in range(3)]
    await publish_keys(world, await world.producer(), "abcdefgh" * 5)
    keys = [{p[0] for p in world.wire.payloads(c)} for c in consumers]
    assert sum(map(len, keys)) == len(set.union(*keys)) == 8


async def test_a_key_moves_only_when_it_is_drained(world: World) -> None:
    producer = await world.producer()
    first = await world.consumer(KEYED)
    await publish_keys(world, producer, "abcdefghij")
    second = await world.consumer(KEYED)
    await publish_keys(world, producer, "abcdefghij")
    # Keys that now belong to the second consumer wait for the first one's acknowledgements.
    assert world.wire.payloads(second) == []
    got = world.wire.ids(first)
    assert 10 < len(got) < 20
    first.ack_individual(got)
    got, moved = world.wire.payloads(first), world.wire.payloads(second)
    assert sorted(got + moved) == sorted(f"{'abcdefghij'[n % 10]}{n}" for n in range(20))
    assert moved
    assert moved == sorted(moved, key=lambda p: int(p[1:]))


@pytest.mark.parametrize(
    "other", [KeySharedMeta(allow_out_of_order=True), KeySharedMeta(sticky_ranges=((0, 9),))]
)
async def test_consumers_of_one_subscription_share_one_mode(
    world: World, other: KeySharedMeta
) -> None:
    await world.consumer(KEYED)
    with pytest.raises(BrokerError, match="share one mode") as refused:
        await world.consumer(KEYED, key_shared=other)
    assert refused.value.code is ServerError.ConsumerAssignError
    assert len((await world.topic()).subscriptions["s"].consumers) == 1


async def test_no_more_entries_wait_for_a_slow_consumer_than_are_looked_at_ahead() -> None:
    world = World(MemoryLedgerStore(), options=TopicOptions(look_ahead=5))
    halves = [KeySharedMeta(sticky_ranges=(each,)) for each in ((0, 32767), (32768, 65535))]
    slow = await world.consumer(KEYED, permits=0, key_shared=halves[0])
    quick = await world.consumer(KEYED, key_shared=halves[1])
    low = next(key for key in "abcdefgh" if StickyRanges.slot(key.encode()) < 32768)
    high = next(key for key in "abcdefgh" if StickyRanges.slot(key.encode()) >= 32768)
    topic, producer = await world.topic(), await world.producer()
    keys = [low] * 5 + [high]
    topic.log.extend(
        [entry(key, partition_key=key) for key in keys],
        [1] * len(keys),
        [(producer, 0, 0)] * len(keys),
    )
    await topic.log.drain()
    assert world.wire.payloads(quick) == []
    slow.flow(2)
    assert (world.wire.payloads(slow), world.wire.payloads(quick)) == ([low] * 2, [high])


async def test_what_expires_while_it_waits_stands_in_the_way_of_no_other_key() -> None:
    world = World(MemoryLedgerStore(), options=TopicOptions(look_ahead=2))
    high = KeySharedMeta(sticky_ranges=((32768, 65535),))
    consumer = await world.consumer(KEYED, key_shared=high)
    sides = {StickyRanges.slot(key.encode()) >= 32768: key for key in "abcdefgh"}
    producer = await world.producer()
    for acked in (False, True):
        await publish_keys(world, producer, 3 * sides[False])
        await publish_keys(world, producer, sides[True])
        waiting = consumer.subscription.backlog
        if acked:
            consumer.ack_individual([(*at[3:], ()) for at in world.wire.receipted[-4:-1]])
        else:
            consumer.subscription.skip(3)
        assert (waiting, len(world.wire.payloads())) == (4, 1)
        consumer.ack_individual(world.wire.ids(consumer))
        world.wire.deliveries.clear()


async def test_what_waits_already_is_delivered_once_though_its_transaction_is_aborted(
    world: World,
) -> None:
    consumer = await world.consumer(KEYED, permits=2)
    await publish_keys(world, await world.producer(), "ab")
    consumer.redeliver()
    assert consumer.subscription.dispatcher is not None
    consumer.subscription.dispatcher.deliver_again([0, 1])
    world.wire.deliveries.clear()
    consumer.flow(10)
    assert sorted(world.wire.payloads()) == ["a0", "b1"]
    assert (consumer.permits, consumer.unacked) == (8, 2)
    consumer.ack_individual(world.wire.ids(consumer))
    assert consumer.unacked == 0


async def test_a_slow_consumer_does_not_stop_other_keys(world: World) -> None:
    producer = await world.producer()
    slow = await world.consumer(KEYED, permits=1)
    quick = await world.consumer(KEYED)
    for _ in range(3):
        await publish_keys(world, producer, "abcdefghij")
    assert len(world.wire.payloads(slow)) == 1
    had = world.wire.payloads(quick)
    slow.flow(100)
    assert world.wire.payloads(quick) == had, "nothing of its keys waited for the slow one"
    assert 3 <= len(had) <= 27
    assert len(set(world.wire.payloads())) == len(world.wire.payloads()) == 30
    assert world.wire.payloads(slow) == sorted(world.wire.payloads(slow), key=lambda p: int(p[1:]))


async def test_sticky_ranges_decide(world: World) -> None:
    low = await world.consumer(KEYED, key_shared=KeySharedMeta(((0, 30_000),)))
    await publish_keys(world, await world.producer(), "abcdefghijklmnop")
    seen = len(world.wire.payloads(low))
    assert 0 < seen < 16
    with pytest.raises(BrokerError, match="conflicts") as refused:
        await world.consumer(KEYED, key_shared=KeySharedMeta(((30_000, 65_535),)))
    assert refused.value.code is ServerError.ConsumerAssignError
    high = await world.consumer(KEYED, key_shared=KeySharedMeta(((30_001, 65_535),)))
    assert len(world.wire.payloads(high)) == 16 - seen


async def test_when_all_have_left_the_next_one_chooses_the_mode(world: World) -> None:
    for meta in (KeySharedMeta(), KeySharedMeta(((0, 65_535),)), KeySharedMeta(None, True)):
        consumer = await world.consumer(KEYED, key_shared=meta)
        consumer.close()


async def test_an_exclusive_consumer_with_ranges_is_sent_the_keys_in_them(world: World) -> None:
    """As a reader with a key hash range, and the next reader with the others."""
    keys = "abcdefghijklmnop"
    low = KeySharedMeta(((0, 30_000),))
    sticky = await world.consumer(KEYED, subscription="k", key_shared=low)
    seen = []
    for ranges in ((0, 30_000),), ((30_001, 50_000), (50_001, 65_535)):
        reader = await world.consumer(
            subscription="r", durable=False, key_shared=KeySharedMeta(ranges)
        )
        if not seen:
            await publish_keys(world, await world.producer(), keys)
        await world.wire.until(lambda: world.wire.payloads(reader))  # noqa: B023
        seen.append([each[0] for each in world.wire.payloads(reader)])
        reader.close()
    assert all(1 < len(each) < 15 for each in seen)
    assert seen == [sorted(each) for each in seen]
    assert sorted(seen[0] + seen[1]) == list(keys)
    assert seen[0] == [each[0] for each in world.wire.payloads(sticky)]


async def test_what_is_outside_of_an_exclusive_consumers_ranges_is_not_acknowledged(
    world: World,
) -> None:
    low = await world.consumer(key_shared=KeySharedMeta(((0, 30_000),)))
    await publish_keys(world, await world.producer(), "abcdefghij")
    got = world.wire.payloads(low)
    low.ack_individual(world.wire.ids(low))
    low.close()
    rest = await world.consumer()
    assert 0 < len(got) < 10
    assert world.wire.payloads(rest) == [
        f"{key}{n}" for n, key in enumerate("abcdefghij") if f"{key}{n}" not in got
    ]


async def test_wrong_ranges_of_an_exclusive_consumer_are_refused_and_leave_its_place_free(
    world: World,
) -> None:
    for ranges in ((0, 65_536),), ((10, 5),), ((0, 10), (10, 20)):
        with pytest.raises(BrokerError) as refused:
            await world.consumer(key_shared=KeySharedMeta(ranges))
        assert refused.value.code is ServerError.ConsumerAssignError
    everything = await world.consumer(key_shared=KeySharedMeta(()))
    await publish_keys(world, await world.producer(), "abc")
    assert len(world.wire.payloads(everything)) == 3


async def test_a_failover_consumer_has_no_ranges(world: World) -> None:
    consumer = await world.consumer(SubscriptionType.Failover, key_shared=KeySharedMeta(((0, 1),)))
    await publish_keys(world, await world.producer(), "abcdef")
    assert len(world.wire.payloads(consumer)) == 6


class Story:
    """A random story with the promises checked after every step."""

    def __init__(self) -> None:
        self.world = World(MemoryLedgerStore())
        self.consumers: list[Consumer] = []
        self.held: dict[Consumer, list[tuple[int, int]]] = {}
        self.key_of: dict[tuple[int, int], str] = {}
        self.first_seen: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.acked: set[tuple[int, int]] = set()
        self.published = 0
        self.heard = 0

    def listen(self) -> None:
        deliveries = self.world.wire.deliveries
        by_id = {c.consumer_id: c for c in self.consumers}
        for consumer_id, message in deliveries[self.heard :]:
            place = (message[0], message[1])
            body = message[3][-12:].decode()
            key = self.key_of.setdefault(place, body[0])
            if place not in self.first_seen[key]:
                self.first_seen[key].append(place)
            holder = by_id[consumer_id]
            self.held[holder].append(place)
            for other, places in self.held.items():
                if other is not holder:
                    assert all(self.key_of[p] != key for p in places), "two hold one key"
        self.heard = len(deliveries)
        for places in self.first_seen.values():
            assert places == sorted(places), "a key's messages came out of order"

    def drop(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        # What it held counts as free before the others are sent it.
        self.held.pop(consumer)
        consumer.close()
        self.listen()

    def ack(self, consumer: Consumer, count: int) -> None:
        places, self.held[consumer] = self.held[consumer][:count], self.held[consumer][count:]
        self.acked |= set(places)
        consumer.ack_individual([(*place, ()) for place in places])
        self.listen()

    def nack(self, consumer: Consumer) -> None:
        places = self.held[consumer][-1:]
        self.held[consumer] = self.held[consumer][:-1]
        consumer.redeliver(places)
        self.listen()


steps = st.lists(
    st.tuples(
        st.sampled_from(["publish", "publish", "join", "leave", "ack", "ack", "flow", "nack"]),
        st.integers(0, 11),
    ),
    max_size=50,
)


async def play(script: list[tuple[str, int]]) -> None:
    story = Story()
    world = story.world
    producer = await world.producer()
    for what, n in script:
        if what == "join" and len(story.consumers) < 5:
            consumer = await world.consumer(KEYED, permits=0)
            story.consumers.append(consumer)
            story.held[consumer] = []
            consumer.flow(n)
        elif what == "publish":
            key = "abcdef"[n % 6]
            body = entry(f"{key}{story.published:011d}", partition_key=key)
            publish(producer, story.published, story.published, body)
            story.published += 1
            await world.wire.until(lambda: len(world.wire.receipted) == story.published)
        elif story.consumers:
            consumer = story.consumers[n % len(story.consumers)]
            if what == "leave":
                story.drop(consumer)
            elif what == "ack":
                story.ack(consumer, n)
            elif what == "flow":
                consumer.flow(n)
            elif what == "nack":
                story.nack(consumer)
        story.listen()
    # In the end everyone who is there is patient: nothing was lost on the way, and nothing waits
    # for one to leave. (One that leaves gives everything back, which would hide a loss.)
    if not story.consumers:
        consumer = await world.consumer(KEYED, permits=0)
        story.consumers.append(consumer)
        story.held[consumer] = []
    for consumer in story.consumers:
        consumer.flow(10_000)
        story.listen()
    while any(story.held.values()):
        for consumer in story.consumers:
            story.ack(consumer, 10_000)
    assert len(story.acked) == story.published
    assert consumer.subscription.backlog == 0
    assert {c.unacked for c in story.consumers} == {0}


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(steps)
def test_any_story_keeps_the_promises(script: list[tuple[str, int]]) -> None:
    asyncio.run(play(script))


async def test_a_full_connection_is_passed_by(world: World) -> None:
    stuck = Wire()
    stuck.writable = False
    producer = await world.producer()
    waits = await world.consumer(KEYED, wire=stuck)
    free = await world.consumer(KEYED)
    await publish_keys(world, producer, "abcdefghij")
    assert stuck.deliveries == []
    had = world.wire.payloads(free)
    assert 0 < len(had) < 10
    stuck.writable = True
    waits.resume()
    assert world.wire.payloads(free) == had
    assert sorted(had + stuck.payloads()) == [f"{'abcdefghij'[n]}{n}" for n in range(10)]
