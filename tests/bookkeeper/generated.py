"""A cluster of any number of ledgers, made as it is asked for: time and memory of each subject.

`python -m tests.bookkeeper.generated LEDGERS SUBJECT` shows it, and says on stderr what it took.
"""

import asyncio
import re
import resource
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from counterpoise.app.row_output import row_output
from counterpoise.app.verbs.storage import SUBJECTS
from counterpoise.bookkeeper.bookie_registry import read_registry
from counterpoise.bookkeeper.bookies import BookieReadOptions, Bookies
from counterpoise.bookkeeper.ledger_rows import LedgerCluster
from counterpoise.bookkeeper.proto import managed_pb2
from counterpoise.metadata.port import Stored
from tests.bookkeeper.fake_cluster import metadata_bytes, of_topic

A_TOPIC = 10
"""Ledgers of a topic: eight with messages, one of a cursor, one that only some topics refer to."""
A_NAMESPACE = 1000
ORPHAN_EVERY = 100
"""One topic of so many does not refer to its last ledger."""
_LEAF = re.compile(r"/ledgers/(\d\d)/(\d{4})/L(\d{4})")
_TOPIC = re.compile(r"/managed-ledgers/t/ns-(\d+)/persistent/topic-(\d+)")


class GeneratedStore:
    """The metadata of so many ledgers, without holding any of it."""

    def __init__(self, ledgers: int) -> None:
        self.ledgers = ledgers
        self.topics = ledgers // A_TOPIC

    async def get(self, path: str) -> Stored | None:
        await asyncio.sleep(0)
        value = self._value(path)
        return None if value is None else Stored(value, 0, False, False)

    def _value(self, path: str) -> bytes | None:
        if leaf := _LEAF.fullmatch(path):
            ledger = int("".join(leaf.groups()))
            return self._ledger(ledger) if ledger < self.ledgers else None
        if path.endswith("/sub"):
            topic = int(path.split("/")[-2].removeprefix("topic-"))
            cursor = managed_pb2.ManagedCursorInfo(cursorsLedgerId=topic * A_TOPIC + 8)
            return cursor.SerializeToString()
        if found := _TOPIC.fullmatch(path):
            topic = int(found[2])
            info = managed_pb2.ManagedLedgerInfo()
            for at in (*range(8), *([9] if topic % ORPHAN_EVERY else [])):
                ledger = topic * A_TOPIC + at
                info.ledgerInfo.add(ledgerId=ledger, entries=10, size=100, timestamp=1)
            return info.SerializeToString()
        return None

    def _ledger(self, ledger: int) -> bytes:
        topic, at = divmod(ledger, A_TOPIC)
        name = f"t/ns-{topic // A_NAMESPACE}/persistent/topic-{topic}"
        ensemble = [f"bookie-{(ledger + step) % 7}:3181" for step in range(3)]
        custom = of_topic(name, "sub" if at == 8 else "")
        return metadata_bytes([(0, ensemble)], (2, 2), last=9, length=100, custom=custom)

    async def children(self, path: str) -> list[str]:
        parts = path.strip("/").split("/")
        if parts[0] == "ledgers":
            return self._ledger_children(parts[1:])
        if parts[0] != "managed-ledgers":
            return []
        match len(parts):
            case 1:
                return ["t"]
            case 2:
                return [f"ns-{each}" for each in range(-(-self.topics // A_NAMESPACE))]
            case 3:
                return ["persistent"]
            case 4:
                first = int(parts[2].removeprefix("ns-")) * A_NAMESPACE
                last = min(first + A_NAMESPACE, self.topics)
                return [f"topic-{each}" for each in range(first, last)]
        return ["sub"] if len(parts) == 5 else []

    def _ledger_children(self, parts: Sequence[str]) -> list[str]:
        if not parts:
            return ["00", "LAYOUT", "available", "cookies"]
        if not parts[0].isdigit():
            return []
        if len(parts) == 1:
            return [f"{each:04d}" for each in range(-(-self.ledgers // 10_000))]
        begin = int(parts[1]) * 10_000
        return [f"L{each:04d}" for each in range(min(10_000, self.ledgers - begin))]

    async def close(self) -> None:
        """Nothing to end."""


async def show(ledgers: int, subject: str, parquet: Path | None) -> int:
    """The rows of a subject, written; gives their number."""
    store = GeneratedStore(ledgers)
    registry = await read_registry(store, "/ledgers")
    bookies = Bookies(registry.registered, BookieReadOptions())
    cluster = LedgerCluster(store, bookies, registry, "/ledgers", ask_bookies=False)
    args = Namespace(topic=None, by="topic", grace=3600.0)
    shown = SUBJECTS[subject]
    count = 0
    with row_output(shown.row, as_json=True, parquet=parquet) as write:
        async for rows in shown.rows(cluster, args):
            write(rows)
            count += len(rows)
    return count


def main(ledgers: str, subject: str, *parquet: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    count = asyncio.run(show(int(ledgers), subject, Path(parquet[0]) if parquet else None))
    took = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sys.stderr.write(
        f"{subject}: {int(ledgers):,} ledgers, {count:,} rows, {took:.0f} s, "
        f"{peak / 1024:.0f} MiB at most, {before / 1024:.0f} of them before\n"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
