"""All stores behind one fixture, and a listener that writes down what it hears."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from counterpoise.metadata import MemoryTree
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.grouplog import Log
from counterpoise.storage.ledger_store import LedgerStore
from counterpoise.storage.managed.store import ManagedLedgerStore
from counterpoise.storage.managed_options import ManagedLedgerOptions
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import EntryGroup, Lost, StorageError
from tests.bookkeeper.memory_ledgers import MemoryBookKeeper
from tests.stuck import pytest_asyncio_loop_factories  # noqa: F401 - a hook
from tests.waiting import WITHIN_S

Brokers = Callable[[], LedgerStore]
"""Makes another broker's access to the same stored logs."""


class Heard:
    """Listens to one log."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.contexts: list[object] = []
        self.positions: list[tuple[int, int]] = []
        self.error: StorageError | None = None
        self.refusals: list[StorageError] = []
        self.lost_contexts: list[object] = []
        self.damage: list[Lost] = []
        self._changed = asyncio.Event()

    def committed(self, group: EntryGroup[object]) -> None:
        assert group.first == len(self.entries) + self.offset(group)
        self.entries += group.entries
        self.contexts += group.contexts
        self.positions += [
            (group.ledger_id, group.first_entry + n) for n in range(len(group.entries))
        ]
        self._changed.set()

    def offset(self, group: EntryGroup[object]) -> int:
        if not hasattr(self, "_offset"):
            self._offset = group.first - len(self.entries)
        return self._offset

    def refused(self, error: StorageError, contexts: Sequence[object]) -> None:
        self.refusals.append(error)
        self.lost_contexts += contexts
        self._changed.set()

    def lost(self, lost: Lost) -> None:
        self.damage.append(lost)

    def failed(self, error: StorageError, contexts: Sequence[object]) -> None:
        self.error = error
        self.lost_contexts += contexts
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


async def write(log: Log[object], heard: Heard, *entries: bytes) -> None:
    """Append and wait until all is committed."""
    wanted = len(heard.entries) + len(entries)
    for entry in entries:
        log.append(entry, 1, entry)
    await heard.until(lambda: len(heard.entries) == wanted)


async def everything(log: Log[object]) -> list[bytes]:
    """All entries of a log, through `cached` and `read` alike."""
    found: list[bytes] = []
    index = log.begin
    while index < log.end:
        chunk = log.cached(index) or await log.read(index, 300)
        entries = list(chunk.entries)[index - chunk.first :][: log.end - index]
        assert entries, f"nothing at {index} below {log.end}"
        found += entries
        index += len(entries)
    return found


@pytest.fixture(params=["memory", "files", "managed"])
async def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Brokers]:
    """Every call gives one more broker's store; ledgers roll over early."""
    if request.param == "memory":
        shared = MemoryLedgerStore(ledger_entries=4)
        yield lambda: shared
        return
    made: list[LedgerStore] = []
    tree = MemoryTree()
    bookkeeper = MemoryBookKeeper(tree)

    def make() -> LedgerStore:
        if request.param == "files":
            made.append(FileLedgerStore(tmp_path / "ledgers", ledger_bytes=40, cache_bytes=500))
        else:
            made.append(
                ManagedLedgerStore(
                    tree.open(),
                    bookkeeper.client(),
                    options=ManagedLedgerOptions(ledger_entries=4, min_rollover_min=0),
                    cache_bytes=500,
                )
            )
        return made[-1]

    yield make
    for store in made:
        await store.close()


async def settled(store: FileLedgerStore) -> None:
    """Wait for all that goes on beside reading and writing."""
    tasks = store._tasks  # private: what no reader or writer waits for
    for _ in range(3):
        while tasks:
            await asyncio.wait(tasks)
        # What is to be tidied up is looked at when a timer says so, here at once.
        await asyncio.sleep(0)
