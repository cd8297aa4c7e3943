"""Logs on BookKeeper whose bookies, brokers and metadata fail, beside a model of what is owed.

No acknowledged entry is lost and none comes twice, order is kept, a fenced owner acknowledges
nothing after its successor began, cursors never go back past what was reported as saved, and what
is left after a close in order has no orphan.
"""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.bookkeeper.cursors import cursor_names, read_cursor_node
from counterpoise.bookkeeper.ledger_paths import ledger_ids
from counterpoise.bookkeeper.managed_ledgers import read_managed_ledger
from counterpoise.metadata import MemoryTree
from counterpoise.storage.grouplog import Log
from counterpoise.storage.managed.store import ManagedLedgerStore
from counterpoise.storage.managed_options import ManagedLedgerOptions
from counterpoise.storage.port import (
    NO_POSITION,
    CursorState,
    EntryGroup,
    LogFencedError,
    Lost,
    Position,
    StorageError,
)
from tests.bookkeeper.memory_ledgers import MemoryBookKeeper, MemoryClient

NAME = "t/n/persistent/x"
OPTIONS = ManagedLedgerOptions(
    ledger_entries=5, min_rollover_min=0, cursor_entries=3, mark_deletes_per_s=1e6
)


class Owner:
    """One broker that has, or had, the log."""

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.client: MemoryClient = world.bookkeeper.client()
        self.client.payload_max = 100
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

    def refused(self, error: StorageError, contexts: Sequence[bytes]) -> None:
        self.world.refusals.update(contexts)

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
        self.deleted: set[bytes] = set()
        self.unknown: set[bytes] = set()
        self.refusals: set[bytes] = set()
        self.saved = NO_POSITION
        self.trimmed: dict[int, Position] = {}
        """By ledger that may have been deleted: how far the cursor was by then."""
        self.unreachable = False
        """Whether some broker did not reach the bookies: what it could not delete stays."""
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
        # What could not be deleted in time is there again.
        self.acknowledged[:0] = [entry for entry in found if entry in self.deleted]
        self.deleted.difference_update(found)
        owed = set(self.acknowledged)
        kept = [entry for entry in found if entry in owed]
        assert len(set(found)) == len(found), "an entry is there twice"
        assert kept == self.acknowledged, "an acknowledged entry is missing or out of order"
        assert {*found} - owed <= self.unknown
        # Whatever the successor found is stored for good; what it did not find never comes back.
        self.acknowledged = found
        self.unknown.clear()
        marks = log.cursors.get("s")
        mark = marks.mark_delete if marks is not None else NO_POSITION
        assert mark >= self.saved, "the cursor went back"
        left = {each.ledger_id for each in log.ledgers}
        for ledger, known in self.trimmed.items():
            assert ledger in left or mark >= known, "what was known of deleted entries went, too"
        self.saved = mark

    def append(self, owner: Owner, count: int, size: int = 6) -> None:
        for _ in range(count):
            entry = b"%0*d" % (size, next(self.numbers))
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

    async def check_ends(self) -> None:
        """Every closed ledger has what is listed of it, for those who go by its own end.

        It may have more only where clients were answered that what they sent was not stored.
        """
        node = await read_managed_ledger(self.bookkeeper.store, NAME)
        for each in node.ledgers:
            stored = self.bookkeeper.ledgers[each.ledger].entries
            if each.closed_ms:
                assert {*stored[each.entries :]} <= self.refusals

    async def orphans(self) -> set[int]:
        """Ledgers that no node names."""
        store = self.bookkeeper.store
        node = await read_managed_ledger(store, NAME)
        named = {each.ledger for each in node.ledgers}
        for name in await cursor_names(store, NAME):
            cursor = await read_cursor_node(store, NAME, name)
            named.add(cursor.ledger)
        return {i async for ids in ledger_ids(store, "/ledgers") for i in ids} - named


class Story:
    """What may happen; ``number`` says how much of it."""

    def __init__(self) -> None:
        self.world = World()

    async def append(self, number: int) -> None:
        self.world.append(self.world.owner, number + 1)

    async def append_too_large(self, number: int) -> None:
        """An entry that bookies do not take, behind others of its group."""
        self.world.append(self.world.owner, number)
        self.world.append(self.world.owner, 1, 101)

    async def refuse_what_is_stored(self, number: int) -> None:
        """The bookies have an entry that nobody hears of, and no ledger can begin after it."""
        world, client = self.world, self.world.owner.client
        world.bookkeeper.answers.set()
        client.unanswered_in = number % 2
        await self.append(number)
        for _ in range(20):
            await asyncio.sleep(0)
            if client.unanswered_in is None:
                break
        await self.vanish(0)
        for _ in range(5):
            await asyncio.sleep(0)
        await self.vanish(1)

    async def wait(self, _: int) -> None:
        self.world.bookkeeper.answers.set()
        await self.world.owner.log.drain()

    async def read(self, _: int) -> None:
        """What was acknowledged is there for its owner, too."""
        self.world.bookkeeper.answers.set()
        log, found = self.world.owner.log, list[bytes]()
        begin = log.begin
        try:
            while begin + len(found) < log.end:
                found += (await log.read(begin + len(found), 40)).entries
        except StorageError:
            return
        assert found == self.world.acknowledged[: len(found)]

    async def save(self, _: int) -> None:
        self.world.bookkeeper.answers.set()
        await self.world.acknowledge(self.world.owner)

    async def fence(self, number: int) -> None:
        """Auto-recovery fences one of the newest ledgers."""
        ledgers = list(self.world.bookkeeper.ledgers)
        self.world.bookkeeper.fence(ledgers[-1 - number % len(ledgers)])

    async def fail(self, number: int) -> None:
        self.world.owner.client.fails_in = number

    async def leave_unanswered(self, number: int) -> None:
        self.world.owner.client.unanswered_in = number

    async def withhold(self, _: int) -> None:
        self.world.bookkeeper.answers.clear()

    async def take_over(self, _: int) -> None:
        self.world.bookkeeper.answers.set()
        await self.world.take_over()

    async def wake_zombie(self, number: int) -> None:
        """A former owner goes on as if nothing had happened."""
        zombie = self.world.owners[number % len(self.world.owners)]
        if zombie is not self.world.owner and hasattr(zombie, "log"):
            self.world.append(zombie, number)
            self.world.bookkeeper.answers.set()
            await self.world.acknowledge(zombie)

    async def vanish(self, number: int) -> None:
        """The owner reaches no bookie, or reaches them again."""
        self.world.unreachable = True
        self.world.owner.client.vanished = number % 2 == 0

    async def set_properties(self, number: int) -> None:
        """An administrator changes the log's node."""
        path, store = f"/managed-ledgers/{NAME}", self.world.bookkeeper.store
        stored, codec = await store.get(path), self.world.owner.store.topics
        record = replace(codec.read(stored.value), properties={"number": str(number)})
        await store.put(path, codec.write(record, stored.value))

    async def trim(self, number: int) -> None:
        """The cursor goes to the end, and what is before it is deleted."""
        log = self.world.owner.log
        before, ledgers, mark = log.begin, log.ledgers, log.position(log.end - 1)
        log.save_cursor(CursorState("s", mark))
        log.trim(log.end - number)
        self.world.deleted.update(self.world.acknowledged[: log.begin - before])
        del self.world.acknowledged[: log.begin - before]
        gone = {each.ledger_id for each in ledgers if each.entries}
        gone -= {each.ledger_id for each in log.ledgers}
        self.world.trimmed |= dict.fromkeys(gone, mark)

    async def run(self, steps: list[tuple[str, int]]) -> None:
        world = self.world
        await world.take_over()
        for name, number in steps:
            await getattr(self, name)(number)
            await asyncio.sleep(0)
        world.bookkeeper.answers.set()
        for owner in world.owners:
            owner.client.vanished = False
            owner.client.fails_in = owner.client.unanswered_in = None
        last = world.owner
        while world.owner is last:
            # Fails where the other one begins a ledger between.
            await world.take_over()
        for owner in world.owners:
            if hasattr(owner, "log"):
                await owner.log.close()
        assert await world.owner.store.is_released(NAME)
        assert world.unreachable or not await world.orphans()
        await world.check_ends()


STEPS = [name for name in vars(Story) if not name.startswith("_") and name != "run"]


@settings(max_examples=800)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 6)), max_size=40))
def test_whatever_fails_nothing_acknowledged_is_lost(steps: list[tuple[str, int]]) -> None:
    asyncio.run(Story().run(steps))
