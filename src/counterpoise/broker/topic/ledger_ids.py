"""Ledger ids that are unique in the cluster, reserved in ranges from one metadata node.

The node contains the next free id. A broker reserves a range by compare-and-set, uses its ids
without a further request, and reserves the next range before the range ends. A log's new ledger
needs an id above those of its other ledgers. So opening a topic waits for the metadata store only
if its former broker had a later range, once for all topics of a move. Ids that a broker reserved
and did not use are never used.
"""

import asyncio
import threading
from collections import deque
from typing import Final

from counterpoise.broker.base import paths
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.metadata import BadVersion, MetadataError, MetadataStore
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.storage.ledger_store import LedgerStore
from counterpoise.storage.port import StorageError

RANGE: Final = 1000
"""How many ledger ids a broker reserves in the metadata store at once."""
RANGES_MAX: Final = 3
"""How many reserved ranges are kept; when one more is reserved, the oldest is dropped."""


class ClusterLedgerIds:
    """Ledger ids that are unique in the cluster: a broker reserves ranges in the metadata store."""

    def __init__(
        self,
        metadata: MetadataStore,
        ledgers: LedgerStore,
        background: BackgroundTasks,
        *,
        at_once: int = RANGE,
    ) -> None:
        """``ledgers``: if no range was ever reserved, the first one starts above the ids stored
        there.

        ``at_once``: the size of a range; with half of it left for a log the next is reserved.
        """
        self._at_once = at_once
        self._metadata = metadata
        self._ledgers = ledgers
        self._background = background
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._left: deque[range] = deque(maxlen=RANGES_MAX)
        """What is left of each reserved range, ascending: its next id, and the end."""
        self._above = -1
        self._reserving: asyncio.Task[None] | None = None

    def next_id(self, above: int) -> int | None:
        """A new id larger than ``above``; None if no reserved range has one. Thread-safe."""
        with self._lock:
            taken = None
            for at, left in enumerate(self._left):
                if left.stop - 1 > above and left:
                    taken = max(left.start, above + 1)
                    self._left[at] = range(taken + 1, left.stop)
                    break
            # Ids of a log that came with a later range are not those of earlier ranges.
            usable = sum(len(left) for left in self._left if left.stop - 1 > above)
        if usable <= self._at_once // 2:
            self._loop.call_soon_threadsafe(self._reserve_soon)
        return taken

    async def fetch(self, above: int) -> None:
        """Reserve ranges until one has an id larger than ``above``.

        Raises `MetadataError` or `StorageError`, after which a later call tries again.
        """
        self._above = max(self._above, above)
        while not self._has(above):
            await asyncio.shield(self._reserve_soon())

    def _has(self, above: int) -> bool:
        with self._lock:
            return any(left and left.stop - 1 > above for left in self._left)

    def _reserve_soon(self) -> asyncio.Task[None]:
        if self._reserving is None or self._reserving.done():
            self._reserving = self._background.start(
                "reserving ledger ids", self._reserve(), expected=(MetadataError, StorageError)
            )
        return self._reserving

    async def _reserve(self) -> None:
        while True:
            node = await self._metadata.get(paths.LEDGER_IDS)
            if node is None:
                free, version = await self._ledgers.highest_ledger() + 1, MUST_NOT_EXIST
            else:
                free, version = _free_id(node.value), node.version
            first = max(free, self._above + 1)
            stop = first + self._at_once
            try:
                await self._metadata.put(
                    paths.LEDGER_IDS, str(stop).encode(), expected_version=version
                )
            except BadVersion:
                continue  # another broker has just reserved a range
            with self._lock:
                self._left.append(range(first, stop))
            return


def _free_id(value: bytes) -> int:
    if not value.isdigit():
        raise StorageError(
            f"the metadata node {paths.LEDGER_IDS} holds {value[:40]!r}, not the next free ledger "
            "id; delete it, and the next broker finds that id among the stored ledgers"
        )
    return int(value)
