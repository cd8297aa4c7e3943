"""Topics of which only the last value under each key counts, against a dictionary."""

import asyncio
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.compacted_view import CompactedView, LatestValues
from counterpoise.broker.topic.compaction import LOOK_S, Compaction
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.persistent import PersistentTopic
from counterpoise.broker.topic.subscription import Subscription
from counterpoise.broker.topic.topic_compaction import COMPACTION
from counterpoise.broker.topic.upkeep import TopicUpkeep
from counterpoise.storage.faultable import FaultableLedgers
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import Chunk, StorageError
from counterpoise.wire.batch import compacted_batch
from counterpoise.wire.entry import build, metadata_of, split
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata, SingleMessageMetadata
from counterpoise.wire.values import InitialPosition, SubscriptionType
from tests.broker.topic.conftest import World, publish
from tests.broker.topic.delivery_model import Budget
from tests.quota.jumping import on_jumping_loop, pass_time

Message = tuple[str | None, str]
"""A key and a value; an empty value removes the key."""
NEVER = 1 << 40


async def never_by_size(_: object) -> Mapping[str, Any]:
    """Messages are kept until they are compacted, which only a command does."""
    return {"compactionThreshold": NEVER}


def single(message: Message) -> bytes:
    key, value = message
    keyed = {} if key is None else {"partition_key": key}
    return build(
        MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **keyed), value.encode()
    )


def batch_of(messages: list[Message]) -> bytes:
    body = b""
    for key, value in messages:
        keyed = {} if key is None else {"partition_key": key}
        raw = SingleMessageMetadata(payload_size=len(value), **keyed).SerializeToString()
        body += len(raw).to_bytes(4, "big") + raw + value.encode()
    metadata = MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=len(messages)
    )
    return build(metadata, body)


def messages_in(entry: bytes) -> Iterator[Message]:
    """What a client shows its application of an entry."""
    metadata, body = metadata_of(entry), bytes(split(entry)[1])
    if not metadata.HasField("num_messages_in_batch"):
        yield metadata.partition_key if metadata.HasField("partition_key") else None, body.decode()
        return
    for _ in range(metadata.num_messages_in_batch):
        size = int.from_bytes(body[:4], "big")
        each = SingleMessageMetadata.FromString(body[4 : 4 + size])
        value, body = body[4 + size : 4 + size + each.payload_size], body[4 + size :]
        body = body[each.payload_size :]
        if not each.compacted_out:
            yield each.partition_key if each.HasField("partition_key") else None, value.decode()


def left_of(messages: list[Message], compacted: int, *, keeps_keyless: bool) -> list[Message]:
    """The oracle: of so many messages the last under each key, and all that follow."""
    last = {key: place for place, (key, _) in enumerate(messages[:compacted])}
    return [
        each
        for place, each in enumerate(messages)
        if place >= compacted
        or (keeps_keyless if each[0] is None else last[each[0]] == place and each[1])
    ]


MESSAGES = st.tuples(st.sampled_from([None, "a", "b", "c"]), st.sampled_from(["", "1", "22"]))
STEPS = st.one_of(
    st.tuples(st.just("send"), MESSAGES),
    st.tuples(st.just("batch"), st.lists(MESSAGES, min_size=1, max_size=4)),
    st.sampled_from([("compact", None), ("reload", None), ("acknowledge", None)]),
)


@example(
    steps=[
        ("send", ("a", "1")),
        *[("send", ("b", "1"))] * 4,
        ("compact", None),
        ("acknowledge", None),
        ("reload", None),
        ("acknowledge", None),
    ],
    keeps_keyless=False,
)
@given(steps=st.lists(STEPS, max_size=25), keeps_keyless=st.booleans())
@settings(deadline=None, max_examples=60)
def test_a_compacted_reader_gets_the_last_value_of_each_key_and_what_follows(
    steps: list[Any], keeps_keyless: bool
) -> None:
    """However often the topic is compacted, loaded again and trimmed in between."""

    async def play() -> None:
        world = World(
            MemoryLedgerStore(ledger_entries=3),
            policies=never_by_size,
            options=TopicOptions(keeps_keyless=keeps_keyless),
        )
        sent: list[Message] = []
        compacted = 0
        other = await world.consumer(SubscriptionType.Shared, subscription="other", permits=0)
        for kind, given_ in steps:
            topic = await world.topic()
            if kind == "compact":
                await topic.compaction.compact()
                compacted = len(sent)
            elif kind == "reload":
                await world.registry.unload_topic(world.name)
                other = await world.consumer(
                    SubscriptionType.Shared, subscription="other", permits=0
                )
            elif kind == "acknowledge":
                other.subscription.skip(None)
                await topic.trim()
            else:
                entry = single(given_) if kind == "send" else batch_of(given_)
                producer = await world.producer()
                publish(producer, 0, 0, entry)
                await topic.log.drain()
                producer.close()
                sent += messages_in(entry)
        world.wire.deliveries.clear()
        reader = await world.consumer(subscription="r", durable=False, read_compacted=True)
        expected = left_of(sent, compacted, keeps_keyless=keeps_keyless)
        got = [each for entry in world.wire.entries() for each in messages_in(entry)]
        assert got == expected
        last, _ = reader.last_message_id()
        delivered = [position[:2] for _, position in world.wire.deliveries]
        assert not expected or tuple(last) == delivered[-1]
        assert delivered == sorted(delivered)
        await world.registry.close()

    asyncio.run(play())


async def published(world: World, *messages: Message) -> PersistentTopic:
    producer = await world.producer()
    wanted = len(world.wire.receipted) + len(messages)
    for each in messages:
        publish(producer, 0, 0, single(each))
    await world.wire.until(lambda: len(world.wire.receipted) == wanted)
    return await world.topic()


async def test_what_a_compacted_reader_is_sent_counts_towards_dispatch_limits() -> None:
    world = World(MemoryLedgerStore(), policies=never_by_size)
    topic = await published(world, ("a", "1"), ("a", "2"), ("b", "3"))
    publish(await world.producer(), 0, 0, batch_of([("c", "4"), ("d", "5"), ("e", "6")]))
    await topic.log.drain()
    await topic.compaction.compact()
    reader = await world.consumer(durable=False, read_compacted=True, permits=0)
    budget = Budget()
    assert reader.subscription.dispatcher is not None
    reader.subscription.dispatcher.flow = budget
    budget.free = 1
    reader.flow(1000)
    assert (budget.taken[0], len(world.wire.deliveries)) == (1, 1), "it is held to the limit"
    budget.free = None
    reader.resume()
    entries = world.wire.entries()
    assert budget.taken == (5, sum(map(len, entries)), 3)
    assert reader.permits == 1000 - 5


async def test_a_topic_is_compacted_once_it_has_grown_by_more_than_its_threshold(
    store: MemoryLedgerStore,
) -> None:
    threshold = 0

    async def policies(_: object) -> Mapping[str, Any]:
        return {"compactionThreshold": threshold}

    world = World(store, policies=policies)
    upkeep = TopicUpkeep(world.registry, TopicOptions, BackgroundTasks())
    topic = await published(world, ("a", "1"), ("a", "2"))
    await upkeep.compact()
    assert topic.compaction.status == "NOT_RUN"
    assert COMPACTION not in topic.subscriptions
    threshold = topic.log.size
    await world.topic()
    await upkeep.compact()
    assert topic.compaction.status == "NOT_RUN"
    await published(world, ("a", "3"))
    await upkeep.compact()
    assert topic.compaction.status == "SUCCESS"
    assert (topic.compaction.stats.removed, topic.compaction.view.entries) == (2, 1)
    assert topic.subscriptions[COMPACTION].backlog == 0
    succeeded = topic.compaction.stats.succeeded_ms
    world.registry.wall.advance(60)
    await upkeep.compact()
    assert topic.compaction.stats.succeeded_ms == succeeded > 0


async def test_messages_that_are_not_compacted_yet_neither_expire_nor_count_as_a_backlog(
    store: MemoryLedgerStore,
) -> None:
    world = World(store, policies=never_by_size)
    topic = await published(world, ("a", "1"))
    await topic.backlog().expire(1)
    assert topic.subscriptions[COMPACTION].backlog == 1


@pytest.mark.parametrize(
    ("messages", "last", "batch_index"),
    [
        ([[("a", "1")], [("a", "")]], (-1, -1), -1),
        ([[("a", "1")], [("b", "1")], [("b", "")]], (0, 0), -1),
        ([[("a", "1"), ("b", "1"), ("c", "1")], [("c", "")]], (0, 0), 1),
    ],
)
async def test_the_last_message_of_a_compacted_reader_is_the_last_that_is_left(
    store: MemoryLedgerStore, messages: list[list[Message]], last: tuple[int, int], batch_index: int
) -> None:
    world = World(store, policies=never_by_size)
    producer = await world.producer()
    for each in messages:
        publish(producer, 0, 0, batch_of(each) if len(each) > 1 else single(each[0]))
    await world.wire.until(lambda: len(world.wire.receipted) == len(messages))
    topic = await world.topic()
    await topic.compaction.compact()
    reader = await world.consumer(subscription="r", durable=False, read_compacted=True)
    assert reader.last_message_id()[0] == last
    assert await reader.last_batch_index() == batch_index


def test_a_value_that_is_null_removes_its_key_and_what_is_compacted_out_counts_no_more() -> None:
    latest = LatestValues(keeps_keyless=True)
    for index, is_null in enumerate((False, True)):
        fields = {"producer_name": "p", "sequence_id": 0, "publish_time": 1, "partition_key": "a"}
        latest.add(index, build(MessageMetadata(**fields, null_value=is_null), b"1"))
    assert (latest.left, dict(latest.survivors)) == (0, {})
    latest.add(2, compacted_batch(batch_of([("b", "1"), ("c", "1")]), {1}))
    assert (latest.left, dict(latest.survivors)) == (1, {2: frozenset({1})})


async def brokers_own_topic(world: World) -> tuple[PersistentTopic, Subscription, Compaction]:
    """A topic of four messages, the subscription that keeps it, and what leaves the last two."""
    topic = await world.topic()
    keeper = await topic.create_subscription("keeper", InitialPosition.Earliest)
    producer = await world.producer()
    await world.publish(producer, *"abcd")
    producer.close()
    return topic, keeper, Compaction(world.name, "keeper", lambda entries: entries[-2:])


@on_jumping_loop
async def test_a_brokers_own_topic_keeps_what_is_left_and_is_compacted_once_it_has_grown() -> None:
    world = World(MemoryLedgerStore())
    topic, keeper, compaction = await brokers_own_topic(world)
    await compaction.compact(topic)
    assert (topic.log.end, keeper.backlog) == (6, 2)
    assert (await world.consumer(subscription="keeper", permits=9)).subscription is keeper
    assert world.wire.payloads() == ["c", "d"]
    unloaded: list[object] = []

    async def unload(name: object) -> None:
        unloaded.append(name)

    keeping = asyncio.ensure_future(
        compaction.keep(SimpleNamespace(loaded={world.name: topic}, unload_topic=unload))
    )
    # What is left may double before the rest counts.
    compaction.threshold = topic.log.size - 2 * topic.log.size // 3
    await pass_time(LOOK_S + 1)
    assert unloaded == []
    compaction.threshold -= 1
    await pass_time(LOOK_S)
    assert unloaded == [world.name]
    keeping.cancel()


async def test_a_brokers_own_topic_loses_nothing_if_what_is_left_cannot_be_stored(
    store: MemoryLedgerStore,
) -> None:
    ledgers = FaultableLedgers(store)
    world = World(ledgers)  # type: ignore[arg-type]
    topic, keeper, compaction = await brokers_own_topic(world)
    for ledgers.disk.is_full, end, backlog in ((True, 4, 4), (False, 6, 2)):
        await compaction.compact(topic)
        assert (topic.log.end, keeper.backlog) == (end, backlog)


async def test_a_compaction_that_is_under_way_is_not_begun_again(world: World) -> None:
    topic = await published(world, ("a", "1"), ("a", "2"))
    in_memory, goes_on = topic.log.cached, asyncio.Event()

    async def read(index: int, _: int) -> Chunk:
        await goes_on.wait()
        chunk = in_memory(index)
        assert chunk is not None
        return chunk

    topic.log.cached, topic.log.read = lambda _: None, read  # type: ignore[method-assign]
    first = asyncio.ensure_future(topic.compaction.compact())
    await asyncio.sleep(0)
    assert topic.compaction.is_running
    with pytest.raises(BrokerError, match="already in progress") as refused:
        await topic.compaction.compact()
    assert refused.value.code is ServerError.NotAllowedError
    goes_on.set()
    await first
    assert topic.compaction.status == "SUCCESS"
    assert topic.compaction.stats.removed == 1


def test_a_view_in_which_nothing_is_left_begins_after_what_was_compacted() -> None:
    view = CompactedView()
    assert (view.first, view.last, view.following(0), view.entries) == (0, None, 0, 0)
    view.replace(4, {})
    assert (view.first, view.last, view.following(2), view.entries) == (5, None, 5, 0)
    view.replace(4, {1: None, 3: frozenset({0})})
    assert (view.first, view.last, view.following(2), view.entries) == (1, 3, 3, 2)
    assert view.following(4) == 5


@pytest.mark.parametrize("kind", [SubscriptionType.Shared, SubscriptionType.Key_Shared])
async def test_only_one_consumer_at_a_time_may_read_what_is_compacted(
    world: World, kind: SubscriptionType
) -> None:
    with pytest.raises(BrokerError, match="only allowed on failover or exclusive") as refused:
        await world.consumer(kind, read_compacted=True)
    assert refused.value.code is ServerError.NotAllowedError


@pytest.mark.usefixtures("now_s")
async def test_a_compaction_that_fails_leaves_what_the_last_one_made(
    store: MemoryLedgerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(store)
    topic = await published(world, ("a", "1"), ("a", "2"))
    stats = topic.compaction.stats
    await topic.compaction.compact()
    await published(world, ("a", "3"))
    world.registry.wall.advance(1)

    async def broken() -> None:
        raise StorageError("the disk is gone")

    succeeds = topic.log.cursors_saved
    monkeypatch.setattr(topic.log, "cursors_saved", broken)
    with pytest.raises(BrokerError, match="the disk is gone"):
        await topic.compaction.compact()
    assert (topic.compaction.status, topic.compaction.last_error) == ("ERROR", "the disk is gone")
    assert (stats.succeeded_ms, stats.failed_ms, stats.removed) == (1_000_000, 1_001_000, 1)
    monkeypatch.setattr(topic.log, "cursors_saved", succeeds)
    await topic.compaction.compact()
    assert (topic.compaction.status, topic.compaction.last_error) == ("SUCCESS", "")
    assert (stats.succeeded_ms, stats.failed_ms, stats.removed) == (1_001_000, 1_001_000, 0)
    await world.consumer(subscription="r", durable=False, read_compacted=True)
    assert world.wire.payloads() == ["3"]


async def test_without_its_subscription_a_topic_is_not_compacted_any_more(
    store: MemoryLedgerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(store)
    topic = await published(world, ("a", "1"), ("a", "2"))
    await topic.compaction.compact()
    read, go_on = topic.log.read, asyncio.Event()

    async def late(index: int, size: int) -> Chunk:
        await go_on.wait()
        return await read(index, size)

    await world.publish(await world.producer(), "3", partition_key="b")
    with monkeypatch.context() as slowly:
        slowly.setattr(topic.log, "cached", lambda _: None)
        slowly.setattr(topic.log, "read", late)
        again = asyncio.ensure_future(topic.compaction.compact())
        await asyncio.sleep(0)
    await topic.subscriptions[COMPACTION].unsubscribe(None)
    go_on.set()
    with pytest.raises(BrokerError, match="was deleted meanwhile"):
        await again
    await world.consumer(subscription="r", durable=False, read_compacted=True)
    assert world.wire.payloads() == ["1", "2", "3"]
    await topic.compaction.compact()
    assert topic.compaction.stats.removed == 1, "all of it is compacted, as for the first time"
