"""Logs on BookKeeper whose bookies, brokers and metadata fail, beside a model of what is owed.

No acknowledged entry is lost and none comes twice, order is kept, a fenced owner acknowledges
nothing after its successor began, cursors never go back past what was reported as saved, and what
is left after a close in order has no orphan.
"""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.bookkeeper.cursors import cursor_names, read_cursor_node
from counterpoise.bookkeeper.ledger_paths import ledger_ids
from counterpoise.bookkeeper.managed_ledgers import read_managed_ledger
from counterpoise.metadata import MemoryTree
from counterpoise.storage.managed.store import ManagedLedgerStore
from counterpoise.storage.managed_options import ManagedLedgerOptions
from counterpoise.storage.port import (
    NO_POSITION,
    CursorState,
    EntryGroup,
    Log,
    LogFencedError,
    Lost,
    StorageError,
)
from tests.bookkeeper.memory_ledgers import MemoryBookKeeper, MemoryClient

NAME = "t/n/persistent/x"
OPTIONS = ManagedLedgerOptions(
    ledger_entries=5, min_rollover_min=0, cursor_entries=3, mark_deletes_per_s=1e6
)


class Owner:
    """One broker that has, or had, the log."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.client: MemoryClient = world.bookkeeper.client()
        self.store = ManagedLedgerStore(
            world.tree.open(), self.client, options=OPTIONS, cache_bytes=200
        )
        self.name = f"broker-{number}"
        self.log: Log[bytes]
        self.fenced = False

    async def open(self) -> None:
        self.log = await self.store.open(NAME, self.name, self)

    def committed(self, group: EntryGroup[bytes]) -> None:
        world = self.world
        assert world.owner is self, f"{self.name} acknowledges after {world.owner.name} began"
        for entry in group.contexts:
            world.unknown.discard(entry)
            world.acknowledged.append(entry)

    def refused(self, error: StorageError, contexts: object) -> None:
        pass

    def failed(self, error: StorageError, contexts: object) -> None:
        self.fenced = isinstance(error, LogFencedError)

    def lost(self, lost: Lost) -> None:
        raise AssertionError(lost)


class World:
    """The cluster, its owners in a row, and what is owed to clients."""

    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.bookkeeper = MemoryBookKeeper(self.tree)
        self.owners: list[Owner] = []
        self.owner: Owner
        self.acknowledged: list[bytes] = []
        self.unknown: set[bytes] = set()
        self.saved = NO_POSITION
        #: Whether some broker did not reach the bookies: what it could not delete stays.
        self.unreachable = False
        self.numbers = itertools.count()

    async def take_over(self) -> None:
        """Another broker opens the log; all that the former one acknowledges until then counts."""
        successor = Owner(self, len(self.owners))
        self.owners.append(successor)
        before = getattr(self, "owner", None)
        try:
            await successor.open()
        except StorageError:
            return
        assert before is None or before is self.owner
        self.owner = successor
        await self.check()

    async def check(self) -> None:
        """What the log has is all that was acknowledged, in order, and what nobody knows of."""
        log = self.owner.log
        found: list[bytes] = []
        while log.begin + len(found) < log.end:
            index = log.begin + len(found)
            chunk = log.cached(index) or await log.read(index, 40)
            found += list(chunk.entries)[index - chunk.first :]
        del found[log.end - log.begin :]
        owed = set(self.acknowledged)
        kept = [entry for entry in found if entry in owed]
        assert len(set(found)) == len(found), "an entry is there twice"
        assert kept == self.acknowledged, "an acknowledged entry is missing or out of order"
        assert {*found} - owed <= self.unknown
        marks = log.cursors.get("s")
        mark = marks.mark_delete if marks is not None else NO_POSITION
        assert mark >= self.saved, "the cursor went back"
        self.saved = mark

    def append(self, owner: Owner, count: int) -> None:
        for _ in range(count):
            entry = b"%06d" % next(self.numbers)
            self.unknown.add(entry)
            try:
                owner.log.append(entry, 1, entry)
            except StorageError:
                self.unknown.discard(entry)

    async def acknowledge(self, owner: Owner) -> None:
        """Save a cursor at the end of the log; reported as saved, it must be found."""
        log = owner.log
        mark = log.position(log.end - 1)
        log.save_cursor(CursorState("s", mark))
        try:
            await log.cursors_saved()
        except StorageError:
            return
        if owner is self.owner:
            self.saved = max(self.saved, mark)

    async def orphans(self) -> set[int]:
        """Ledgers that no node names."""
        store = self.bookkeeper.store
        node = await read_managed_ledger(store, NAME)
        assert node is not None
        named = {each.ledger for each in node.ledgers}
        for name in await cursor_names(store, NAME):
            cursor = await read_cursor_node(store, NAME, name)
            assert cursor is not None
            named.add(cursor.ledger)
        return {i async for ids in ledger_ids(store, "/ledgers") for i in ids} - named


STEPS = (
    *("append", "append", "append", "wait", "wait", "save", "save", "fence", "fail", "unanswered"),
    *("withhold", "take over", "zombie", "vanish", "properties", "trim"),
)


async def live(seed: int) -> None:
    rng, world = random.Random(seed), World()
    await world.take_over()
    for _ in range(rng.randint(5, 40)):
        owner = world.owner
        match rng.choice(STEPS):
            case "append":
                world.append(owner, rng.randint(1, 7))
            case "wait":
                world.bookkeeper.answers.set()
                await owner.log.drain()
            case "save":
                world.bookkeeper.answers.set()
                await world.acknowledge(owner)
            case "fence":
                numbers = list(world.bookkeeper.ledgers)
                world.bookkeeper.fence(rng.choice(numbers))
            case "fail":
                owner.client.failing = rng.randint(1, 3)
            case "unanswered":
                owner.client.unanswered = rng.randint(1, 2)
            case "withhold":
                world.bookkeeper.answers.clear()
            case "take over":
                world.bookkeeper.answers.set()
                await world.take_over()
            case "zombie" if len(world.owners) > 1:
                zombie = rng.choice(world.owners[:-1])
                if hasattr(zombie, "log"):
                    world.append(zombie, 2)
                    world.bookkeeper.answers.set()
                    await world.acknowledge(zombie)
            case "vanish":
                world.unreachable = True
                owner.client.vanished = not owner.client.vanished
            case "properties":
                path = f"/managed-ledgers/{NAME}"
                store = world.bookkeeper.store
                stored = await store.get(path)
                assert stored is not None
                value = owner.store.topics.write(
                    owner.store.topics.read(stored.value), stored.value
                )
                await store.put(path, value)
            case "trim":
                kept = owner.log.end - 3
                before = owner.log.begin
                owner.log.trim(kept)
                del world.acknowledged[: owner.log.begin - before]
        await asyncio.sleep(0)
    world.bookkeeper.answers.set()
    for owner in world.owners:
        owner.client.vanished = False
        owner.client.failing = owner.client.unanswered = 0
    await world.take_over()
    for owner in world.owners:
        if hasattr(owner, "log"):
            await owner.log.close()
    assert await world.owner.store.is_released(NAME)
    assert world.unreachable or not await world.orphans()


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_whatever_fails_nothing_acknowledged_is_lost(seed: int) -> None:
    asyncio.run(live(seed))
