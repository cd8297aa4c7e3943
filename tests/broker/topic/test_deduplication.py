"""What a producer sends again is stored once, on the next owner too."""

import asyncio
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import cast
from unittest.mock import AsyncMock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.deduplication import CURSOR, Deduplication
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.ports import ProducerRequest
from counterpoise.broker.topic.producer import Producer
from counterpoise.broker.topic.upkeep import TopicUpkeep
from counterpoise.names.topic import TopicName
from counterpoise.storage.faultable import FaultableLedgers
from counterpoise.storage.grouplog import Log
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import Send
from tests.broker.topic.conftest import Wire, World, entry, publish

ON = TopicOptions(deduplicates=True)


def _has(receipts: list[object], number: int) -> bool:
    return len(receipts) == number


async def send(world: World, name: str, *numbers: int) -> list[tuple[int, int]]:
    """Publish under these sequence ids by a producer of this name; where each is stored."""
    producer, wire = await world.producer(name=name), world.wire.receipted
    for number in numbers:
        body, due = entry(f"{name}-{number}", producer_name=name, sequence_id=number), len(wire) + 1
        publish(producer, number, number, body)
        await world.wire.until(partial(_has, wire, due))
    producer.close()
    return [receipt[3:] for receipt in wire[-len(numbers) :]]


async def test_a_producer_that_comes_while_another_does_changes_nothing_that_is_known(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(world.store, options=ON)
    await send(world, "p", 0)
    await world.registry.unload_topic(world.name)
    recover, late = Deduplication.recover, asyncio.Event()

    async def read_late(log: Log[object], options: TopicOptions) -> Deduplication:
        found = await recover(log, options)
        await late.wait()
        return found

    with monkeypatch.context() as slowly:
        slowly.setattr(Deduplication, "recover", read_late)
        second = asyncio.ensure_future(world.producer(name="q"))
        for _ in range(20):
            await asyncio.sleep(0)
    await send(world, "p", 1)
    late.set()
    (await second).close()
    stored = (await world.topic()).log.end
    await send(world, "p", 1)
    assert (await world.topic()).log.end == stored


STEP = st.sampled_from(["unloaded", "killed", "trimmed", "truncated"]) | st.tuples(
    st.sampled_from("pq"), st.integers(0, 5), st.integers(0, 2), st.sampled_from([None, 0, 1])
)
"""The topic goes to another owner, or what no subscription needs is deleted; or an entry: its
producer, its first sequence id, how many follow in its batch, and which chunk of two it is, if any.
"""


FIVE: list[str | tuple[str, int, int, int | None]]
FIVE = [*(("p", number, 0, None) for number in range(4)), ("q", 0, 0, None)]
"""The newest ledger has no entry of the producer that was there first."""


@settings(deadline=None, max_examples=80)
@given(st.lists(STEP, max_size=20))
@example(script=[*FIVE, "trimmed", "killed", FIVE[0]])
@example(script=[*FIVE, "truncated", "killed", FIVE[0]])
def test_each_message_is_stored_once_by_all_owners_together(
    script: list[str | tuple[str, int, int, int | None]],
) -> None:
    asyncio.run(_play(script))


async def _play(script: list[str | tuple[str, int, int, int | None]]) -> None:
    """New is what begins behind all that its producer has stored, and each chunk but a last one,
    which alone counts as stored.
    """
    store = MemoryLedgerStore(ledger_entries=2)
    world = World(store, options=ON)
    highest = dict.fromkeys("pq", -1)
    kept: list[tuple[int, str]] = []
    for number, step in enumerate(script):
        if isinstance(step, str):
            if step in ("trimmed", "truncated"):
                topic = await world.topic()
                await (topic.trim() if step == "trimmed" else topic.truncate())
                continue
            if step == "unloaded":
                await world.registry.unload_topic(world.name)
            else:
                # As a process that is killed: what was stored since the last save is read again.
                world.registry.abandon()
            world = World(store, options=ON)
            continue
        name, first, more, chunk = step
        producer, due = await world.producer(name=name), len(world.wire.receipted) + 1
        assert producer.last_sequence_id == highest[name]
        ids = first, first + more
        fields = {"producer_name": name, "sequence_id": first, "highest_sequence_id": ids[1]}
        is_chunk = chunk is not None
        if is_chunk:
            fields |= {"uuid": f"{name}{first}", "chunk_id": chunk, "num_chunks_from_msg": 2}
        body = entry(number, **fields)
        producer.publish([Send(producer.producer_id, *ids, 1, is_chunk, body)], len(body))
        await world.wire.until(partial(_has, world.wire.receipted, due))
        is_new = first > highest[name] or chunk == 0
        assert (world.wire.receipted[-1][-1] >= 0) is is_new
        if is_new:
            highest[name] = ids[1] if chunk != 0 else highest[name]
            kept.append((world.wire.receipted[-1][3], str(number)))
        producer.close()
    consumer, oldest = await world.consumer(), (await world.topic()).log.ledgers[0].ledger_id
    left = [body for ledger, body in kept if ledger >= oldest]
    await world.wire.until(lambda: len(world.wire.deliveries) >= len(left))
    assert world.wire.payloads(consumer) == left
    assert set((await world.topic()).subscriptions) == {"s"}


async def test_no_subscription_may_have_the_cursors_name(store: MemoryLedgerStore) -> None:
    with pytest.raises(BrokerError) as refused:
        await World(store, options=ON).consumer(subscription="pulsar.dedup")
    assert refused.value.code is ServerError.NotAllowedError


async def test_without_it_everything_is_stored(store: MemoryLedgerStore) -> None:
    world = World(store)
    assert [at[1] for at in await send(world, "p", 0, 0)] == [0, 1]
    assert (await world.producer(name="p")).last_sequence_id == -1


async def test_when_it_is_turned_off_what_is_sent_again_is_stored_again() -> None:
    policies: dict[str, object] = {"deduplicationEnabled": True}

    async def read(_: TopicName) -> dict[str, object]:
        return policies

    world = World(MemoryLedgerStore(), policies=read)
    for is_on in (True, False):
        policies["deduplicationEnabled"] = is_on
        sent = await send(world, "p", 0, 0)
        assert [at[1] >= 0 for at in sent] == ([True, False] if is_on else [True, True])
        assert ((await world.topic()).deduplication is not None) is is_on


async def test_the_next_owner_reads_nothing_again_of_what_the_ids_are_saved_for(
    store: MemoryLedgerStore,
) -> None:
    world = World(store, options=ON)
    await send(world, "p", 0, 1, 2)
    await world.registry.unload_topic(world.name)
    log = (await world.topic()).log
    saved = log.cursors["pulsar.dedup"]
    assert (log.index(saved.mark_delete) + 1, saved.properties) == (log.end, {"p": "2"})


async def test_what_the_log_has_not_answered_yet_is_refused(store: MemoryLedgerStore) -> None:
    world = World(store, options=ON)
    producer = await world.producer(name="p")
    for _ in range(2):
        publish(producer, 7, 7, entry("x", producer_name="p", sequence_id=7))
    ((_, sequence_id, error),) = world.wire.errors
    assert (sequence_id, error.code) == (7, ServerError.PersistenceError)
    await world.wire.until(lambda: len(world.wire.receipted) == 1)


async def test_beyond_the_limit_the_producer_is_forgotten_that_is_silent_for_longest(
    store: MemoryLedgerStore,
) -> None:
    world = World(store, options=replace(ON, dedup_producers=2, dedup_entries=1))
    for name, number in (("first", 5), ("silent", 5), ("first", 6), ("last", 5)):
        await send(world, name, number)
    for name, number, is_new in (("first", 6, False), ("last", 5, False), ("silent", 5, True)):
        ((_, at),) = await send(world, name, number)
        assert (at >= 0) is is_new, name
    assert world.wire.errors == []


async def test_what_was_on_its_way_when_the_ids_were_read_is_stored_once() -> None:
    """It is turned on for a topic that is loaded; its producer gets no receipt, and sends again."""
    options = [TopicOptions()]
    world = World(MemoryLedgerStore(), policies=AsyncMock(return_value={}), live=lambda: options[0])
    old = await world.producer(name="p")
    options[0] = ON
    topic, body = await world.topic(), entry("x", producer_name="p")
    publish(old, 0, 0, body)
    await topic.make_ready(ProducerRequest(0))
    await world.wire.until(lambda: len(world.wire.receipted) == 1)
    publish(old, 0, 0, body)
    await world.wire.until(lambda: len(world.wire.receipted) == 2)
    assert topic.log.end == 1


def test_after_a_refusal_what_was_stored_before_is_known_still() -> None:
    known, wire = Deduplication({"p": 5}, ON), Wire()
    producer = cast("Producer", SimpleNamespace(name="p", producer_id=1, sink=wire))
    sends = [Send(1, number, number, 1, False, b"") for number in range(3, 9)]
    assert known.admit(producer, sends) == sends[3:]
    known.refuse("p")
    assert known.admit(producer, sends) == sends[3:]
    assert [each[1] for each in wire.receipted] == [3, 4, 5] * 2
    assert wire.errors == []


def test_a_producer_is_gone_from_when_it_left_last() -> None:
    log = cast("Log[object]", SimpleNamespace(end=0, position=lambda _: None))
    log.save_cursor = lambda _state: None  # type: ignore[method-assign]
    known = Deduplication({"p": 5}, replace(ON, dedup_inactive_minutes=10))
    for now_s, attached in ((0, ""), (300, "p"), (400, ""), (999, ""), (1000, "")):
        known.forget_inactive(log, attached, now_s)
        assert known.stored == {"p": 5}
    known.forget_inactive(log, "", 1000.1)
    assert known.stored == {}
    known.commit("p", 6)
    known.forget_inactive(log, "", 1001)
    assert known.stored == {"p": 6}, "it came back between two looks: its time begins again"


@pytest.mark.parametrize("killed", [False, True])
async def test_what_was_stored_since_the_ids_were_saved_is_stored_once(
    store: MemoryLedgerStore, killed: bool
) -> None:
    world = World(store, options=replace(ON, dedup_entries=2))
    await send(world, "p", 0, 1, 2)
    if killed:
        world.registry.abandon()
    else:
        await world.registry.unload_topic(world.name)
    world = World(store, options=ON)
    assert [at[1] >= 0 for at in await send(world, "p", 2, 3)] == [False, True]


async def test_the_ids_are_saved_with_the_entry_that_completes_the_count() -> None:
    known = Deduplication({}, replace(ON, dedup_entries=7))
    assert not known.is_due(6)
    assert known.is_due(1)


async def test_a_producer_that_is_forgotten_has_its_entry_on_the_way_still_refused(
    store: MemoryLedgerStore,
) -> None:
    world = World(store, options=ON)
    producer = await world.producer(name="p")
    known = Deduplication({"p": 5}, replace(ON, dedup_producers=1))
    again = [Send(producer.producer_id, 6, 6, 1, False, entry("x"))]
    assert known.admit(producer, again) == again
    known.commit("q", 0)
    known.save((await world.topic()).log)
    assert list(known.stored) == ["q"]
    assert known.admit(producer, again) == []
    ((_, sequence_id, error),) = world.wire.errors
    assert (sequence_id, error.code) == (6, ServerError.PersistenceError)


@pytest.mark.parametrize(
    ("policies", "options", "saved_after_s"),
    [
        ({}, ON, 120),
        ({"deduplicationSnapshotIntervalSeconds": 10}, ON, 10),
        ({}, replace(ON, dedup_snapshot_s=30), 30),
        ({"deduplicationSnapshotIntervalSeconds": 0}, ON, None),
    ],
)
async def test_the_ids_are_saved_once_the_interval_of_snapshots_has_passed(
    store: MemoryLedgerStore,
    policies: dict[str, int],
    options: TopicOptions,
    saved_after_s: int | None,
) -> None:
    """The first ones at once; those that are saved already are not saved again."""

    async def read(_: object) -> dict[str, int]:
        return policies

    world = World(store, options=options, policies=read)
    upkeep = TopicUpkeep(world.registry, lambda: options, BackgroundTasks())
    topic = await world.topic()
    await send(world, "p", 1)
    await upkeep.save_sequence_ids()
    saved = topic.log.cursors.get(CURSOR)
    assert (saved is None) is (saved_after_s is None)
    await send(world, "p", 2)
    for wait_s, number in ((0, "1"), ((saved_after_s or 1000) - 1, "1"), (1.1, "2")):
        world.registry.wall.advance(wait_s)
        await upkeep.save_sequence_ids()
        saved = topic.log.cursors.get(CURSOR)
        assert saved is None or saved.properties == {"p": number}
    assert (saved is None) is (saved_after_s is None)
    topic.log.drop_cursor(CURSOR)
    world.registry.wall.advance(1000)
    await upkeep.save_sequence_ids()
    assert CURSOR not in topic.log.cursors


async def test_a_producer_is_forgotten_that_was_gone_for_its_time(store: MemoryLedgerStore) -> None:
    options = replace(ON, dedup_inactive_minutes=10)
    world = World(store, options=options)
    upkeep = TopicUpkeep(world.registry, lambda: options, BackgroundTasks())
    await send(world, "gone", 5)
    await send(world, "back", 5)
    await world.producer(name="attached")
    topic = await world.topic()
    known = topic.deduplication
    known.commit("attached", 5)
    await upkeep.forget_producers()
    world.registry.wall.advance(300)
    await world.producer(name="back")
    await upkeep.forget_producers()
    world.registry.wall.advance(301)
    await upkeep.forget_producers()
    assert {*known.stored} == {"back", "attached"}
    assert {*topic.log.cursors[CURSOR].properties} == {"back", "attached"}


async def test_what_a_disk_refused_may_be_sent_again(store: MemoryLedgerStore) -> None:
    ledgers = FaultableLedgers(store)
    world = World(ledgers, options=ON)  # type: ignore[arg-type]
    producer = await world.producer(name="p")
    ledgers.disk.is_full = True
    publish(producer, 7, 7, entry("x", producer_name="p", sequence_id=7))
    await world.wire.until(lambda: bool(world.wire.closed_producers))
    ((_, _, error),) = world.wire.errors
    assert error.code is ServerError.PersistenceError
    ledgers.disk.is_full = False
    ((_, at),) = await send(world, "p", 7)
    assert at >= 0
    assert len(world.wire.errors) == 1


def test_unsaved_ids_are_saved_once_the_interval_is_over_to_the_second() -> None:
    saves: list[object] = []
    log = SimpleNamespace(save_cursor=saves.append, position=lambda index: (0, index), end=3)
    known = Deduplication({"p": 2}, ON)
    for now_s, every_s, stored, saved in (
        (1000, 120, 0, 0),
        (1000, 120, 1, 1),
        (1119.9, 120, 1, 1),
        (1120, 0, 0, 1),
        (1120, 120, 0, 2),
        (2000, 120, 0, 2),
    ):
        known.is_due(stored)
        known.save_when_old(cast("Log[object]", log), now_s, every_s)
        assert len(saves) == saved, now_s
