"""Logs of Pulsar's brokers and of former owners: read as they are or untouched; what is deleted."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import NoReturn

import pytest

from counterpoise.bookkeeper.client_port import LedgerListener
from counterpoise.bookkeeper.cursors import (
    CursorNode,
    CursorPositions,
    parse_cursor_node,
    write_cursor_node,
    write_positions,
)
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.ledger_paths import ledger_ids
from counterpoise.bookkeeper.managed_ledgers import parse_managed_ledger
from counterpoise.bookkeeper.proto import managed_pb2 as pb
from counterpoise.bookkeeper.quorums import Quorums
from counterpoise.metadata import MemoryStore, MemoryTree, StoreUnavailable
from counterpoise.metadata.port import Stored
from counterpoise.names.position import Position
from counterpoise.storage.managed.store import ManagedLedgerStore
from counterpoise.storage.managed.takeover import UnsupportedLog
from counterpoise.storage.managed_options import ManagedLedgerOptions
from counterpoise.storage.port import CursorState, LogFencedError, Lost, StorageError
from tests.bookkeeper.memory_ledgers import MemoryBookKeeper, MemoryClient, MemoryWriter
from tests.storage.conftest import Heard, everything, write
from tests.waiting import WITHIN_S, turns

NAME = "t/n/persistent/x"
PATH = f"/managed-ledgers/{NAME}"
OPTIONS = ManagedLedgerOptions(ledger_entries=3, min_rollover_min=0)


COMPACTED = (("CompactedTopicLedger", 7),)
"""What Pulsar writes into a cursor's state when it has compacted the topic."""


class Client(MemoryClient):
    """One that can be kept from creating ledgers."""

    creates = True
    refused = 0
    deleted: tuple[int, ...] = ()
    """Every ledger whose deletion was asked for, in order."""

    async def delete(self, ledger: int) -> None:
        self.deleted += (ledger,)
        await super().delete(ledger)

    async def create(
        self, purpose: Mapping[str, bytes], listener: LedgerListener, quorums: Quorums | None = None
    ) -> MemoryWriter:
        if not self.creates:
            self.refused += 1
            raise BookKeeperError("too few bookies take writes")
        return await super().create(purpose, listener, quorums)


class Cluster:
    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.metadata: MemoryStore = self.tree.open()
        self.bookkeeper = MemoryBookKeeper(self.tree)
        self.now = 0.0
        self.sessions: list[MemoryStore] = []
        """Of the brokers, in the order in which they began."""
        self.clients: list[Client] = []

    def broker(self, options: ManagedLedgerOptions = OPTIONS) -> ManagedLedgerStore:
        self.sessions.append(self.tree.open())
        self.clients.append(Client(self.bookkeeper))
        return ManagedLedgerStore(
            self.sessions[-1],
            self.clients[-1],
            options=options,
            cache_bytes=1,
            now=lambda: self.now,
        )

    async def ledger(self, *entries: bytes) -> int:
        """A ledger that another program has written and left open."""
        client = self.bookkeeper.client()
        heard = type("Deaf", (), {"confirmed": print, "ended": print})
        writer = await client.create({}, heard)  # type: ignore[arg-type]
        self.bookkeeper.ledgers[writer.ledger].entries += entries
        return writer.ledger


def node(
    name: str,
    *texts: tuple[str, str],
    ledger: int = -1,
    compacted: tuple[tuple[str, int], ...] = (),
) -> tuple[str, bytes]:
    cursor = CursorNode(name, ledger, CursorPositions(Position(0, 0), numbers=compacted), texts)
    return name, write_cursor_node(f"{PATH}/{name}", b"", cursor, 1)


@pytest.mark.parametrize(
    ("feature", "cursor"),
    [
        ("long-term storage", None),
        ("a compacted ledger", node("__compaction", compacted=COMPACTED)),
        ("geo-replication", node("pulsar.repl.west")),
        ("delayed messages", node("s", ("#pulsar.internal.delayed.bucket_1_2", "77"))),
    ],
)
async def test_features_that_are_not_here_are_refused_and_the_log_stays(
    feature: str, cursor: tuple[str, bytes] | None
) -> None:
    cluster = Cluster()
    ledger = await cluster.ledger(b"a", b"b")
    info = pb.ManagedLedgerInfo()
    listed = info.ledgerInfo.add(ledgerId=ledger)
    if cursor is None:
        listed.offloadContext.complete = False
    else:
        await cluster.metadata.put(f"{PATH}/{cursor[0]}", cursor[1])
    await cluster.metadata.put(PATH, info.SerializeToString())
    before = await cluster.metadata.get(PATH)
    with pytest.raises(UnsupportedLog, match=feature):
        await cluster.broker().open(NAME, "ours", Heard())
    assert await cluster.metadata.get(PATH) == before
    assert not cluster.bookkeeper.ledgers[ledger].fenced
    assert list(cluster.bookkeeper.ledgers) == [ledger]


@pytest.mark.parametrize("compacted", [COMPACTED, ()], ids=["compacted", "never compacted"])
async def test_a_topic_is_refused_once_it_is_compacted_and_not_because_it_may_be(
    compacted: tuple[tuple[str, int], ...],
) -> None:
    """Only the cursor's ledger has its latest state."""
    cluster = Cluster()
    state = CursorPositions(Position(0, 0), numbers=compacted)
    ledger = await cluster.ledger(b"a", b"b")
    info = pb.ManagedLedgerInfo()
    info.ledgerInfo.add(ledgerId=ledger)
    await cluster.metadata.put(PATH, info.SerializeToString())
    name, value = node("__compaction", ledger=await cluster.ledger(write_positions(state)))
    await cluster.metadata.put(f"{PATH}/{name}", value)
    if compacted:
        with pytest.raises(UnsupportedLog, match="a compacted ledger"):
            await cluster.broker().open(NAME, "ours", Heard())
        assert not cluster.bookkeeper.ledgers[ledger].fenced
        return
    log = await cluster.broker().open(NAME, "ours", Heard())
    assert await everything(log) == [b"a", b"b"]
    assert list(log.cursors) == ["__compaction"]
    await log.close()


async def test_what_another_broker_put_before_an_entry_is_not_delivered() -> None:
    cluster = Cluster()
    ledger = await cluster.ledger(b"\x0e\x02\x00\x00\x00\x02\x08\x01an entry", b"another")
    info = pb.ManagedLedgerInfo()
    info.ledgerInfo.add(ledgerId=ledger)
    await cluster.metadata.put(PATH, info.SerializeToString())
    log = await cluster.broker().open(NAME, "ours", Heard())
    assert await everything(log) == [b"an entry", b"another"]
    assert log.position(0) == (ledger, 0)
    await log.close()


async def test_lost_entries_keep_their_place_and_are_named() -> None:
    cluster, heard = Cluster(), Heard()
    log = await cluster.broker().open(NAME, "ours", heard)
    for number in range(8):
        await write(log, heard, b"%d" % number)
    ledgers = [each.ledger_id for each in log.ledgers]
    cluster.bookkeeper.ledgers[ledgers[0]].lost.add(1)
    del cluster.bookkeeper.ledgers[ledgers[1]]
    assert await everything(log) == [b"0", b"", b"2", b"", b"", b"", b"6", b"7"]
    assert heard.damage == [Lost(ledgers[0], 1, 1), Lost(ledgers[1], 0, 2)]
    assert list(log.lost) == heard.damage
    await log.close()


async def test_a_deleted_log_leaves_no_ledger_of_its_own_or_of_its_cursors() -> None:
    cluster, heard = Cluster(), Heard()
    store = cluster.broker()
    log = await store.open(NAME, "ours", heard)
    for number in range(8):
        await write(log, heard, b"%d" % number)
        log.save_cursor(CursorState("s", log.position(number)))
        await log.cursors_saved()
    ids = [i async for some in ledger_ids(cluster.metadata, "/ledgers") for i in some]
    assert len(ids) > len(log.ledgers), "its cursor has one"
    await log.close()
    assert await store.is_released(NAME)
    await store.delete(NAME)
    assert [i async for some in ledger_ids(cluster.metadata, "/ledgers") for i in some] == []
    assert not await store.exists(NAME)
    assert [each async for each in nodes_of_the_log(cluster.metadata)] == []


async def nodes_of_the_log(metadata: MemoryStore, path: str = "") -> AsyncIterator[str]:
    """Every node, of whatever is kept in the metadata store, that is named after the log."""
    if path.endswith(NAME):
        yield path
    for name in await metadata.children(path or "/"):
        async for each in nodes_of_the_log(metadata, f"{path}/{name}"):
            yield each


@pytest.mark.parametrize("goes", ["dropped", "closed"])
async def test_a_cursors_ledger_that_its_node_may_not_name_goes_with_the_cursor(
    monkeypatch: pytest.MonkeyPatch, goes: str
) -> None:
    """Whether the node was written is unknown, so the ledger had to stay."""
    cluster, heard, options = Cluster(), Heard(), replace(OPTIONS, node_ranges_max=1)
    store = cluster.broker(options)
    log = await store.open(NAME, "ours", heard)
    await write(log, heard, *[b"%d" % number for number in range(3)])
    log.save_cursor(CursorState("s", log.position(0)))
    await log.cursors_saved()
    log.save_cursor(CursorState("s", log.position(1)))
    with monkeypatch.context() as away:

        async def unanswered(path: str, *_: object, **__: object) -> int:
            raise StoreUnavailable(f"put {path}", "the connection was lost")

        away.setattr(cluster.sessions[-1], "put", unanswered)
        with pytest.raises(StorageError, match="the connection was lost"):
            await log.cursors_saved()
    assert len(cluster.bookkeeper.ledgers) > 1, "a node may name it"
    if goes == "dropped":
        log.drop_cursor("s")
        await log.cursors_saved()
    else:
        await log.close()
    assert list(cluster.bookkeeper.ledgers) == [log.ledgers[-1].ledger_id]


async def test_a_former_owner_that_goes_on_late_leaves_the_log_to_its_successor() -> None:
    cluster, heard = Cluster(), Heard()
    first = await cluster.broker().open(NAME, "first", heard)
    await write(first, heard, b"a", b"b")
    for index in (0, 1):
        first.save_cursor(CursorState("s", first.position(index)))
        await first.cursors_saved()
    store = cluster.broker()
    second = await store.open(NAME, "second", Heard())
    first.drop_cursor("s")
    with pytest.raises(LogFencedError):
        await first.cursors_saved()
    with pytest.raises(LogFencedError):
        first.append(b"late", 1, b"late")
    await first.close()
    assert not await store.is_released(NAME)
    assert list(second.cursors) == ["s"]
    stored = await cluster.metadata.get(PATH)
    *closed, written = parse_managed_ledger(NAME, stored.value).ledgers
    assert [(each.entries, bool(each.closed_ms)) for each in closed] == [(2, True)]
    assert not written.closed_ms, "every other one would be recovered again and again"
    third = await cluster.broker().open(NAME, "third", Heard())
    assert third.cursors["s"].mark_delete == third.position(1)
    assert await everything(third) == [b"a", b"b"]
    await third.close()
    assert await store.is_released(NAME)


@pytest.mark.parametrize(
    "does", ["trims", "trims twice", "has another owner", "has another owner that trims", "is gone"]
)
async def test_a_successor_whose_list_was_changed_meanwhile(
    monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    """It takes what its former owner left; anything else fences it, and it can try again."""
    cluster, heard = Cluster(), Heard()
    former = await cluster.broker().open(NAME, "former", heard)
    await write(former, heard, *[b"%d" % number for number in range(3)])
    for number in range(3, 11):
        await write(former, heard, b"%d" % number)
    store = cluster.broker()
    session, left = cluster.sessions[-1], 2 if does == "trims twice" else 1
    put = session.put

    async def put_late(path: str, *args: object, **how: object) -> int:
        nonlocal left
        if path == PATH and left:
            left -= 1
            if does.startswith("trims"):
                former.trim(6 - 3 * left)
                await former.cursors_saved()
                await turns()
            elif does == "is gone":
                await cluster.metadata.delete(PATH)
            else:
                another = await cluster.broker().open(NAME, "another", Heard())
                another.trim(9 if does.endswith("trims") else 0)
                await turns()
        return await put(path, *args, **how)  # type: ignore[arg-type]

    before = set(cluster.bookkeeper.ledgers)
    with monkeypatch.context() as late:
        late.setattr(session, "put", put_late)
        if does.startswith("trims"):
            log = await store.open(NAME, "successor", Heard())
            assert left == 0
            assert await everything(log) == [b"%d" % number for number in range(6, 11)]
            node = await cluster.metadata.get(PATH)
            listed = [each.ledger for each in parse_managed_ledger(NAME, node.value).ledgers]
            assert sorted(cluster.bookkeeper.ledgers) == listed
            await log.close()
            return
        with pytest.raises(LogFencedError):
            await store.open(NAME, "successor", Heard())
    if does == "is gone":
        assert set(cluster.bookkeeper.ledgers) == before, "what it had created is deleted"
    else:
        count = 2 if does.endswith("trims") else 11
        assert len(await everything(await store.open(NAME, "successor", Heard()))) == count


async def test_what_is_used_no_longer_is_deleted_with_its_last_use() -> None:
    """A ledger of an owner that wrote nothing, a cursor's former ones, that of a dropped cursor."""
    cluster = Cluster()
    for _ in range(3):
        log = await cluster.broker().open(NAME, "ours", Heard())
        assert len(cluster.bookkeeper.ledgers) == 1
        await log.close()
    heard, options = Heard(), replace(OPTIONS, cursor_entries=2)
    log = await cluster.broker(options).open(NAME, "ours", heard)
    await write(log, heard, b"a", b"b")
    for turn in range(9):
        log.save_cursor(CursorState("s", log.position(turn % 2)))
        await log.cursors_saved()
        assert len(cluster.bookkeeper.ledgers) <= 2, "the log's, and the cursor's present one"
    last = max(cluster.bookkeeper.ledgers)
    assert last - log.ledgers[-1].ledger_id == 4, "the first state is in the node, two in each"
    sent = cluster.clients[-1].sent
    await log.flush()
    assert cluster.clients[-1].sent == sent, "nothing has changed"
    log.drop_cursor("s")
    await log.cursors_saved()
    assert list(cluster.bookkeeper.ledgers) == [log.ledgers[-1].ledger_id]
    await log.close()


async def test_the_properties_of_a_cursor_that_has_a_ledger_outlive_its_owner() -> None:
    """They are in its node, which is written again when they change, and not for each position."""
    cluster, heard = Cluster(), Heard()
    log = await cluster.broker().open(NAME, "dead", heard)
    await write(log, heard, b"0", b"1", b"2")
    versions = []
    for properties in ({}, {}, {"team": "a"}, {"team": "b"}, {"team": "b"}, {}):
        state = CursorState("s", log.position(len(versions) % 3), (), properties)
        log.save_cursor(state)
        await log.cursors_saved()
        node = await cluster.metadata.get(f"{PATH}/s")
        versions.append(node.version)
        # As its next owner would find it if this one died now.
        found = parse_cursor_node(f"{PATH}/s", node.value)
        assert dict(found.texts) == properties
    # The first state is in the node itself, and the second one begins a ledger that it names.
    assert versions == [0, 1, 2, 3, 3, 4]


@pytest.mark.parametrize("is_away", [False, True])
@pytest.mark.parametrize("saves", [1, 2, 3])
async def test_what_a_successor_has_not_read_of_a_cursor_is_not_reported_as_saved(
    monkeypatch: pytest.MonkeyPatch, saves: int, is_away: bool
) -> None:
    """A new cursor's node, one that names its first ledger, one with new properties.

    The successor comes while the node is written. However often it is tried after that, and though
    the log's node cannot be read the first time.
    """
    cluster, heard = Cluster(), Heard()
    log = await cluster.broker().open(NAME, "former", heard)
    await write(log, heard, b"0", b"1", b"2")
    session = cluster.sessions[-1]
    put, get, came = session.put, session.get, False

    async def put_late(path: str, *args: object, **how: object) -> int:
        nonlocal came
        if path == f"{PATH}/s" and not came:
            came = True
            await cluster.broker().open(NAME, "successor", Heard())
        return await put(path, *args, **how)  # type: ignore[arg-type]

    async def get_late(path: str) -> Stored | None:
        nonlocal is_away
        if path == PATH and came and is_away:
            is_away = False
            raise StoreUnavailable(f"get {path}", "the connection was lost")
        return await get(path)

    for count in range(saves):
        log.save_cursor(CursorState("s", log.position(count), (), {"saved": str(count)}))
        if count < saves - 1:
            await log.cursors_saved()
    with monkeypatch.context() as late:
        late.setattr(session, "put", put_late)
        late.setattr(session, "get", get_late)
        for _ in range(3):
            with pytest.raises(StorageError):
                await log.cursors_saved()
    assert came
    assert isinstance(heard.error, LogFencedError)
    await log.close()


async def test_a_log_is_released_until_its_next_owner_begins_however_that_ends() -> None:
    cluster = Cluster()
    store = cluster.broker()
    assert not await store.is_released(NAME)
    for _ in range(2):
        for _ in range(4):
            log = await cluster.broker().open(NAME, "ours", Heard())
            assert not await store.is_released(NAME)
            await log.close()
            assert await store.is_released(NAME)
        await cluster.broker().open(NAME, "dies", Heard())
        assert not await store.is_released(NAME)


async def test_a_log_whose_ledger_could_not_be_closed_is_not_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of it is stored, and its next owner has to recover it."""
    cluster, heard = Cluster(), Heard()
    store = cluster.broker()
    log = await store.open(NAME, "ours", heard)
    await write(log, heard, b"0", b"1")

    async def close(_: MemoryWriter) -> None:
        raise BookKeeperError("no bookie can be reached")

    with monkeypatch.context() as broken:
        broken.setattr(MemoryWriter, "close", close)
        await log.close()
    assert not await store.is_released(NAME)
    log = await cluster.broker().open(NAME, "next", Heard())
    assert await everything(log) == [b"0", b"1"]
    await log.close()
    assert await store.is_released(NAME)


async def test_a_ledger_is_deleted_once() -> None:
    """With the trim that drops it, or with the next if that fails; later ones leave it alone."""
    cluster, heard = Cluster(), Heard()
    log = await cluster.broker().open(NAME, "ours", heard)
    for number in range(12):
        await write(log, heard, b"%d" % number)
    ledgers = [each.ledger_id for each in log.ledgers]
    for end in (3, 4, 6, 9):
        log.save_cursor(CursorState("s", log.position(end)))
        log.trim(end)
        await log.cursors_saved()
        await turns()
    node = await cluster.metadata.get(PATH)
    listed = [each.ledger for each in parse_managed_ledger(NAME, node.value).ledgers]
    assert listed == ledgers[3:]
    assert [each for each in cluster.clients[-1].deleted if each in ledgers] == ledgers[:3]
    await log.close()


async def test_a_cursor_too_large_for_its_node_stays_in_its_ledger() -> None:
    cluster, heard, options = Cluster(), Heard(), replace(OPTIONS, node_ranges_max=1)
    log = await cluster.broker(options).open(NAME, "ours", heard)
    await write(log, heard, *[b"%d" % number for number in range(3)])
    ranges = tuple((log.position(at), log.position(at)) for at in (0, 2))
    for acked in (ranges[:1], ranges):
        log.save_cursor(CursorState("s", log.position(-1), acked))
        await log.cursors_saved()
    await log.close()
    assert len(cluster.bookkeeper.ledgers) == 2
    again = await cluster.broker(options).open(NAME, "ours", Heard())
    assert again.cursors["s"].acked == ranges
    await again.close()


@pytest.mark.parametrize(("ranges", "ledgers"), [(1, 1), (2, 2)])
async def test_a_new_cursor_has_a_ledger_only_if_its_node_is_too_small(
    ranges: int, ledgers: int
) -> None:
    cluster, heard, options = Cluster(), Heard(), replace(OPTIONS, node_ranges_max=1)
    log = await cluster.broker(options).open(NAME, "ours", heard)
    await write(log, heard, *[b"%d" % number for number in range(4)])
    acked = tuple((log.position(at), log.position(at)) for at in (1, 3)[:ranges])
    log.save_cursor(CursorState("s", log.position(-1), acked))
    await log.cursors_saved()
    assert len(cluster.bookkeeper.ledgers) == ledgers
    await log.close()


async def test_a_ledger_without_entries_is_used_however_old_it_is() -> None:
    cluster, heard = Cluster(), Heard()
    log = await cluster.broker().open(NAME, "ours", heard)
    first = log.ledgers[0].ledger_id
    cluster.now += 1e6
    await write(log, heard, b"0")
    assert heard.positions == [(first, 0)]
    await log.close()


async def test_a_ledger_grows_on_while_none_can_be_created_and_that_is_tried_now_and_then() -> None:
    cluster, heard = Cluster(), Heard()
    log = await cluster.broker().open(NAME, "ours", heard)
    client = cluster.clients[-1]
    client.creates = False
    tried: list[int] = []
    for number in range(9):
        await write(log, heard, b"%d" % number)
        tried.append(client.refused)
    assert tried[-1] == 1
    cluster.now += 11.0
    client.creates = True
    await write(log, heard, b"9")
    await write(log, heard, b"10")
    assert log.ledgers[0].entries >= 9
    assert len(log.ledgers) == 2
    assert await everything(log) == [b"%d" % number for number in range(11)]
    await log.close()


async def test_a_log_that_cannot_save_its_cursors_says_so_when_it_is_closed() -> None:
    cluster, heard = Cluster(), Heard()
    log = await cluster.broker().open(NAME, "ours", heard)
    await write(log, heard, b"a")
    log.save_cursor(CursorState("s", log.position(0)))
    cluster.sessions[-1].lose()
    with pytest.raises(StorageError):
        await log.close()


async def test_a_ledger_that_the_store_may_have_listed_is_not_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer to the write of the list is lost, and nothing can be read until the owner ends."""
    cluster, heard, listed = Cluster(), Heard(), asyncio.Event()
    log = await cluster.broker().open(NAME, "ours", heard)
    await write(log, heard, b"0", b"1", b"2")
    session, put = cluster.sessions[-1], cluster.sessions[-1].put

    async def away(path: str, *_: object, **__: object) -> NoReturn:
        raise StoreUnavailable(path, "no answer")

    async def put_unanswered(path: str, value: bytes, *, expected_version: int) -> NoReturn:
        await put(path, value, expected_version=expected_version)
        for name in ("put", "get"):
            monkeypatch.setattr(session, name, away)
        listed.set()
        await away(path)

    monkeypatch.setattr(session, "put", put_unanswered)
    log.append(b"3", 1, b"3")
    async with asyncio.timeout(WITHIN_S):
        await listed.wait()
        with contextlib.suppress(StorageError):
            await log.close()
    stored = await cluster.metadata.get(PATH)
    assert stored is not None
    ended, following = parse_managed_ledger(NAME, stored.value).ledgers
    there = [ended.ledger, following.ledger]
    assert ended.closed_ms == pytest.approx(time.time() * 1000, abs=60_000)
    assert set(there) <= set(cluster.bookkeeper.ledgers)
