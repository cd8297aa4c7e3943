"""What storing costs: an append under load, a commit when idle, taking a log over, reading."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figure
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import EntryGroup, Lost, StorageError

ENTRY = b"x" * 150
PENDING_MAX = 20_000
BURST = 400
"""Entries a connection hands over in one turn of the loop at full speed."""


class Committed:
    """Counts what is committed."""

    def __init__(self) -> None:
        self.entries = 0
        self.groups = 0
        self.wanted = 0
        self.reached = asyncio.Event()

    def committed(self, group: EntryGroup[None]) -> None:
        self.entries += len(group.entries)
        self.groups += 1
        if self.entries >= self.wanted:
            self.reached.set()

    def refused(self, error: StorageError, contexts: Sequence[None]) -> None:
        raise error

    def lost(self, lost: Lost) -> None:
        raise AssertionError(lost)

    def failed(self, error: StorageError, contexts: Sequence[None]) -> None:
        raise error

    async def until(self, entries: int) -> None:
        self.wanted = entries
        self.reached.clear()
        if self.entries < entries:
            await self.reached.wait()


async def saturated(log: Log[None], heard: Committed, count: int) -> tuple[float, float]:
    """Seconds and CPU seconds of ``count`` appends, as fast as they go."""
    started, cpu = time.perf_counter(), time.process_time()
    sent = 0
    while sent < count:
        for _ in range(BURST):
            log.append(ENTRY, 1, None)
        sent += BURST
        await asyncio.sleep(0)
        while sent - heard.entries > PENDING_MAX:  # noqa: ASYNC110 - turns of the loop
            await asyncio.sleep(0)
    await heard.until(sent)
    return (time.perf_counter() - started) / sent, (time.process_time() - cpu) / sent


async def idle(log: Log[None], heard: Committed, count: int) -> list[float]:
    """Seconds from append to commit, one at a time."""
    samples = []
    for _ in range(count):
        started = time.perf_counter()
        log.append(ENTRY, 1, None)
        await heard.until(heard.entries + 1)
        samples.append(time.perf_counter() - started)
    return sorted(samples)


async def measure(root: Path, count: int) -> list[Figure]:
    store, heard = FileLedgerStore(root), Committed()
    log = await store.open("t/n/persistent/x", "bench", heard)
    wall, cpu = await saturated(log, heard, count)
    alone = await idle(log, heard, 300)
    await log.close()

    started = time.perf_counter()
    log = await store.open("t/n/persistent/x", "next", Committed())
    takeover = time.perf_counter() - started
    started, index = time.perf_counter(), log.begin
    while index < log.end:
        index += len((await log.read(index, 1 << 20)).entries)
    reading = (time.perf_counter() - started) / index
    await log.close()
    await store.close()
    return [
        Figure("append, group commit on disk", 1 / wall, "entries/s"),
        Figure("append, CPU", cpu * 1e6, "µs/entry"),
        Figure("append to commit, idle, median", statistics.median(alone) * 1e3, "ms"),
        Figure("append to commit, idle, p99", alone[int(len(alone) * 0.99)] * 1e3, "ms"),
        Figure("take a closed log over", takeover * 1e3, "ms"),
        Figure("read back, checksums verified", 1 / reading, "entries/s"),
    ]


def run(*, quick: bool, out: Path) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="counterpoise-bench-") as root:
        return asyncio.run(measure(Path(root), 50_000 if quick else 400_000))
