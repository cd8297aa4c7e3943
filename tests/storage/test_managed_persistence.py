"""The persistence of a log on BookKeeper: quorums of its next ledgers, and how often it saves."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.managed_ledgers import read_managed_ledger
from counterpoise.metadata import MemoryTree, MetadataError
from counterpoise.names.topic import TopicName
from counterpoise.storage.managed.store import ManagedLedgerStore
from counterpoise.storage.managed_options import ManagedLedgerOptions
from counterpoise.storage.port import CursorState, Persistence, Position, Quorums, StorageError
from tests.bookkeeper.memory_ledgers import MemoryBookKeeper, MemoryWriter
from tests.broker.topic.conftest import World
from tests.quota.jumping import on_jumping_loop, pass_time
from tests.storage.conftest import Heard, write

NAME = "t/n/persistent/x"
OPTIONS = ManagedLedgerOptions(ledger_entries=1, min_rollover_min=0, mark_deletes_per_s=0)
ONE = Quorums(1, 1, 1)


class OneBroker:
    """A broker whose ledgers take one entry each."""

    def __init__(self, options: ManagedLedgerOptions = OPTIONS) -> None:
        tree = MemoryTree()
        self.client = MemoryBookKeeper(tree).client()
        self.metadata = tree.open()
        self.store = ManagedLedgerStore(self.metadata, self.client, options=options, cache_bytes=1)


def kept(*quorums: int, per_s: float = 0.0) -> Persistence:
    return Persistence(Quorums(*quorums), per_s)


CHOICES = st.sampled_from([None, kept(1, 1, 1), kept(3, 2, 2), kept(3, 3, 2)])


@settings(max_examples=50)
@given(CHOICES, st.lists(st.lists(CHOICES, max_size=3), max_size=6))
async def test_each_ledger_is_on_as_many_bookies_as_when_it_was_begun(
    first: Persistence | None, between: list[list[Persistence | None]]
) -> None:
    broker, heard = OneBroker(), Heard()
    default = OPTIONS.persistence
    log = await broker.store.open(NAME, "a broker", heard, persistence=first)
    chosen, expected = first, [(first or default).quorums]
    await write(log, heard, b"the first ledger")
    for changes in between:
        for chosen in changes:
            log.set_persistence(chosen)
        await write(log, heard, b"another ledger")
        expected.append((chosen or default).quorums)
    assert broker.client.quorums == expected
    log.save_cursor(CursorState("s", Position(0, 0)))
    await log.cursors_saved()
    log.save_cursor(CursorState("s", Position(1, 0)))
    await log.cursors_saved()
    assert broker.client.quorums == [*expected, None], "cursors have the client's"
    await log.close()
    await broker.store.delete(NAME)
    assert broker.client.quorums[-1] == ONE, "a deletion needs no more bookies than it has to"


@on_jumping_loop
async def test_cursors_are_saved_as_often_as_the_policy_has_it() -> None:
    options = replace(OPTIONS, mark_deletes_per_s=0.01)
    broker, heard = OneBroker(options), Heard()
    log = await broker.store.open(NAME, "a broker", heard, persistence=kept(2, 2, 2, per_s=0.1))

    async def seconds_until_saved(entry: int) -> float:
        path, loop = f"/managed-ledgers/{NAME}/s", asyncio.get_running_loop()
        begun, sent = loop.time(), broker.client.sent
        before = await broker.metadata.get(path)
        log.save_cursor(CursorState("s", Position(0, entry)))
        while broker.client.sent == sent and await broker.metadata.get(path) == before:
            await pass_time(0.5)
        return loop.time() - begun

    assert await seconds_until_saved(0) <= 1
    assert 8 <= await seconds_until_saved(1) <= 12
    log.set_persistence(None)
    waiting = asyncio.create_task(seconds_until_saved(2))
    await pass_time(20)
    assert not waiting.done(), "broker.conf has it saved every 100 s"
    log.set_persistence(kept(2, 2, 2, per_s=1.0))
    assert await waiting <= 22
    await log.close()


async def test_what_cursors_know_of_entries_is_saved_before_these_are_deleted() -> None:
    """Such as producers' sequence ids: an owner that dies then must not store a message again.

    What stays because they cannot be saved is deleted with the next ledger.
    """
    broker, heard = OneBroker(replace(OPTIONS, mark_deletes_per_s=0.001)), Heard()
    log = await broker.store.open(NAME, "a broker", heard)
    for number in range(3):
        await write(log, heard, b"%d" % number)
        at = log.position(log.end - 1)
        log.save_cursor(CursorState("s", at, properties={"a producer": f"{number}"}))
        if number < 2:
            await log.cursors_saved()
    for can_save, before in ((False, 1), (True, log.end)):
        broker.client.vanished = not can_save
        log.trim(before)
        for _ in range(100):
            await asyncio.sleep(0)
        listed = (await read_managed_ledger(broker.metadata, NAME)).ledgers
        assert can_save or len(listed) > len(log.ledgers)
    assert [each.ledger for each in listed] == [each.ledger_id for each in log.ledgers]
    client = broker.client.cluster.client()
    successor = ManagedLedgerStore(broker.metadata, client, options=OPTIONS, cache_bytes=1)
    log = await successor.open(NAME, "another", heard)
    assert log.cursors["s"].properties == {"a producer": "2"}
    await log.close()


async def test_a_topic_closed_without_a_session_warns_of_redelivery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = OneBroker()
    world = World(broker.store)  # type: ignore[arg-type]
    await world.consumer()
    broker.metadata.lose()
    await world.registry.close()
    levels = {each.levelname for each in caplog.records}
    assert levels == {"WARNING"}, caplog.text
    assert f"{world.name}: closed without saving its last acknowledgements" in caplog.text


@on_jumping_loop
async def test_a_log_is_released_soon_although_its_ledgers_cannot_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its topic is not opened again here before that: the metadata store may be back by then."""
    broker, heard = OneBroker(), Heard()
    log = await broker.store.open(NAME, "a broker", heard)
    log.save_cursor(CursorState("s", Position(0, 0)))
    await log.cursors_saved()
    log.save_cursor(CursorState("s", Position(0, 1)))
    await log.cursors_saved()
    tried = 0

    async def close(_: MemoryWriter) -> None:
        nonlocal tried
        tried += 1
        await asyncio.Event().wait()

    monkeypatch.setattr(MemoryWriter, "close", close)
    loop = asyncio.get_running_loop()
    closing, begun = asyncio.create_task(log.close()), loop.time()
    while not closing.done():
        await pass_time(1)
    assert isinstance(closing.exception(), StorageError)
    assert tried == 4, "the ledgers of the topic and of its cursor, once more when it is given up"
    assert loop.time() - begun < 30


async def test_the_metadata_store_is_closed_though_bookies_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = OneBroker()

    async def away() -> None:
        raise BookKeeperError("no bookie answers")

    monkeypatch.setattr(broker.client, "close", away)
    await broker.store.close()
    with pytest.raises(MetadataError):
        await broker.metadata.get("/ledgers")


async def test_a_topic_has_the_policy_from_its_first_ledger_and_a_change_from_the_next() -> None:
    broker = OneBroker()
    said: dict[str, object] = {}

    def say(ensemble: int) -> None:
        said["persistence"] = {
            "bookkeeperEnsemble": ensemble,
            "bookkeeperWriteQuorum": 2,
            "bookkeeperAckQuorum": 1,
        }

    async def policies(_: TopicName) -> dict[str, object]:
        return said

    say(2)
    world = World(broker.store, policies=policies)  # type: ignore[arg-type]
    producer, registry = await world.producer(), world.registry
    await world.publish(producer, "first")
    say(3)
    await registry.policies_changed([world.name])
    await world.publish(producer, "second")
    await world.wire.until(lambda: len(world.wire.receipted) == 2)
    assert broker.client.quorums == [Quorums(2, 2, 1), Quorums(3, 2, 1)]
    await registry.close()
