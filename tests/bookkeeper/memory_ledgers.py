"""BookKeeper in memory: ledgers that brokers share, each through a client that can misbehave."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from counterpoise.bookkeeper.client_port import EntryTooLarge, LedgerListener, LedgerOver
from counterpoise.bookkeeper.errors import BookKeeperError, EntryUnreadable, NoSuchLedger
from counterpoise.bookkeeper.ledger_paths import ledger_path
from counterpoise.bookkeeper.quorums import Quorums
from counterpoise.metadata import MemoryTree, NotFound
from tests.bookkeeper.fake_cluster import metadata_bytes


class MemoryLedger:
    """What bookies and the metadata have of a ledger."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.entries: list[bytes] = []
        self.closed = False
        self.fenced = False
        """Recovered, or its bookies failed: its writer is refused."""
        self.lost: set[int] = set()


class MemoryBookKeeper:
    """The cluster. Its ledgers have their nodes in a tree, for those who look for orphans there."""

    def __init__(self, tree: MemoryTree) -> None:
        self.store = tree.open()
        self.ledgers: dict[int, MemoryLedger] = {}
        self.numbers = 0
        self.answers = asyncio.Event()
        """Confirmations are withheld while it is clear."""
        self.answers.set()

    def client(self) -> MemoryClient:
        """One broker's access."""
        return MemoryClient(self)

    def fence(self, number: int) -> None:
        """Do what auto-recovery does to a healthy writer."""
        ledger = self.ledgers[number]
        ledger.fenced = ledger.closed = True

    def find(self, number: int) -> MemoryLedger:
        ledger = self.ledgers.get(number)
        if ledger is None:
            raise NoSuchLedger(number)
        return ledger


class MemoryClient:
    """`LedgerClient` of one broker."""

    def __init__(self, cluster: MemoryBookKeeper) -> None:
        self.cluster = cluster
        self.vanished = False
        """It reaches nothing any more: every call fails."""
        self.fails_in: int | None = None
        """Behind so many entries one ends its ledger: it is not stored, or its answer is lost."""
        self.unanswered_in: int | None = None
        self.payload_max = 5 << 20
        """The largest entry, and how many were sent."""
        self.sent = 0
        self.quorums: list[Quorums | None] = []
        """Of the ledgers that it created."""

    def reach(self) -> None:
        if self.vanished:
            raise BookKeeperError("no bookie can be reached")

    async def create(
        self, purpose: Mapping[str, bytes], listener: LedgerListener, quorums: Quorums | None = None
    ) -> MemoryWriter:
        self.reach()
        cluster = self.cluster
        self.quorums.append(quorums)
        number, cluster.numbers = cluster.numbers, cluster.numbers + 1
        custom = {key: value.decode() for key, value in purpose.items()}
        value = metadata_bytes([(0, ["b1", "b2"])], (2, 2), custom=custom)
        cluster.ledgers[number] = MemoryLedger(number)
        await cluster.store.put(ledger_path("/ledgers", number), value)
        return MemoryWriter(self, cluster.ledgers[number], listener)

    async def recover(self, ledger: int) -> MemoryReader:
        self.reach()
        await asyncio.sleep(0)
        found = self.cluster.find(ledger)
        found.fenced = found.closed = True
        return MemoryReader(self, found, None)

    async def read_open(self, writer: MemoryWriter) -> MemoryReader:
        self.reach()
        return MemoryReader(self, writer.stored, writer)

    async def delete(self, ledger: int) -> None:
        self.reach()
        await asyncio.sleep(0)
        gone = self.cluster.ledgers.pop(ledger, None)
        if gone is not None:
            gone.fenced = True
            with contextlib.suppress(NotFound):
                await self.cluster.store.delete(ledger_path("/ledgers", ledger))

    async def close(self) -> None:
        self.vanished = True


def _counted(left: int | None) -> tuple[bool, int | None]:
    """Whether it is this one, and what is left until then."""
    return left == 0, left - 1 if left else None


class MemoryWriter:
    """`LedgerWriter`."""

    def __init__(
        self, client: MemoryClient, stored: MemoryLedger, listener: LedgerListener
    ) -> None:
        self.client = client
        self.stored = stored
        self.listener = listener
        self.last_confirmed = -1
        self.length = 0
        self._pending: list[bytes] = []
        self._over = False
        self._sending: asyncio.Task[None] | None = None

    @property
    def ledger(self) -> int:
        return self.stored.number

    def add(self, *payloads: bytes) -> int:
        if self._over:
            raise LedgerOver(f"ledger {self.ledger} is over")
        if max(map(len, payloads)) > self.client.payload_max:
            raise EntryTooLarge(f"an entry of {max(map(len, payloads))} bytes")
        first = self.last_confirmed + 1 + len(self._pending)
        self.client.sent += len(payloads)
        self._pending += payloads
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send())
        return first

    async def _send(self) -> None:
        await asyncio.sleep(0)
        await self.client.cluster.answers.wait()
        while self._pending and not self._over:
            client, stored = self.client, self.stored
            fails, client.fails_in = _counted(client.fails_in)
            if stored.fenced or client.vanished or fails:
                self._end("fenced" if stored.fenced else "too few bookies answer")
                break
            payload = self._pending[0]
            stored.entries.append(payload)
            unanswered, client.unanswered_in = _counted(client.unanswered_in)
            if unanswered:
                # Every other time auto-recovery is quicker than this writer.
                stored.closed = len(stored.entries) % 2 == 0
                self._end("the answer is lost")
                break
            del self._pending[0]
            self.last_confirmed += 1
            self.length += len(payload)
            self.listener.confirmed(self.last_confirmed)
        self._sending = None

    def _end(self, why: str) -> None:
        if not self._over:
            self._over = True
            self.listener.ended(LedgerOver(f"ledger {self.ledger}: {why}"))

    async def close(self) -> None:
        self.client.reach()
        await asyncio.sleep(0)
        self._over = True
        stored = self.client.cluster.find(self.ledger)
        if stored.closed and len(stored.entries) != self.last_confirmed + 1:
            raise BookKeeperError(f"ledger {self.ledger} was closed elsewhere")
        stored.closed = stored.fenced = True
        del stored.entries[self.last_confirmed + 1 :]


class MemoryReader:
    """`LedgerReader`."""

    def __init__(
        self, client: MemoryClient, stored: MemoryLedger, writer: MemoryWriter | None
    ) -> None:
        self.client = client
        self.stored = stored
        self.writer = writer

    @property
    def ledger(self) -> int:
        return self.stored.number

    @property
    def last_entry(self) -> int:
        return self.writer.last_confirmed if self.writer else len(self.stored.entries) - 1

    @property
    def length(self) -> int:
        return sum(map(len, self.stored.entries[: self.last_entry + 1]))

    async def read(self, first: int, last: int) -> list[bytes]:
        self.client.reach()
        await asyncio.sleep(0)
        stored = self.client.cluster.find(self.ledger)
        assert 0 <= first <= last <= self.last_entry, (first, last, self.last_entry)
        for entry in range(first, last + 1):
            if entry in stored.lost:
                raise EntryUnreadable(self.ledger, entry, ["no bookie has it"], lost=True)
        return stored.entries[first : last + 1]
