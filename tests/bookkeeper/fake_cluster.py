"""A cluster of fake bookies; its metadata is in memory, as BookKeeper and Pulsar write it."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from counterpoise.bookkeeper.bookie_registry import read_registry
from counterpoise.bookkeeper.bookies import BookieReadOptions, Bookies
from counterpoise.bookkeeper.ledger_rows import LedgerCluster
from counterpoise.bookkeeper.proto import ledgers_pb2 as ledgers
from counterpoise.bookkeeper.proto import managed_pb2 as managed
from counterpoise.metadata import MemoryStore, MemoryTree
from counterpoise.names.position import Position
from tests.bookkeeper.fake_bookie import FakeBookie
from tests.waiting import pause

T = TypeVar("T")

PATIENT = BookieReadOptions(speculative_s=60.0, timeout_s=90.0, connect_s=60.0, avoided_s=600.0)
"""Nothing here is slow but the machine; only a bookie that is silent on purpose is waited for."""
SOON = BookieReadOptions(speculative_s=5.0, timeout_s=15.0, connect_s=60.0, avoided_s=600.0)
"""For `though_silent`: more than a machine stands still, and less than a deadline of a test."""
LONG_AGO = 1_600_000_000_000
Segments = Sequence[tuple[int, Sequence[str]]]


async def though_silent(work: Awaitable[T]) -> T:
    """What ``work`` returns, though a bookie is silent: to wait for that one takes no time.

    Whenever nothing has happened for some turns of the loop, in which everything that is not
    silent would have answered, five seconds are skipped.
    """
    loop, working = asyncio.get_running_loop(), asyncio.ensure_future(work)
    while not working.done():
        for _ in range(20):
            await pause()
        if not working.done():
            now = loop.time
            loop.time = lambda now=now: now() + SOON.speculative_s  # type: ignore[method-assign, misc]
    return await working


def crc32c(data: bytes) -> int:
    """Castagnoli's polynomial, a bit at a time: so slow that nothing else is written so."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def stored_entry(ledger: int, entry: int, confirmed: int, length: int, payload: bytes) -> bytes:
    header = struct.pack(">qqqq", ledger, entry, confirmed, length)
    return header + struct.pack(">I", crc32c(header + payload)) + payload


def metadata_bytes(
    segments: Segments,
    quorums: tuple[int, int],
    *,
    last: int | None = None,
    length: int = 0,
    custom: Mapping[str, str] | None = None,
    created_ms: int = LONG_AGO,
) -> bytes:
    """A ledger's metadata in format 3; closed at ``last`` if that is given."""
    found = ledgers.LedgerMetadataFormat(
        quorumSize=quorums[0],
        ackQuorumSize=quorums[1],
        ensembleSize=len(segments[0][1]),
        length=length if last is not None else 0,
        lastEntryId=-1 if last is None else last,
        state=ledgers.LedgerMetadataFormat.OPEN if last is None else 3,
        digestType=ledgers.LedgerMetadataFormat.CRC32C,
        password=b"",
        ctime=created_ms,
    )
    for first, ensemble in segments:
        found.segment.add(firstEntryId=first, ensembleMember=ensemble)
    for key, value in (custom or {}).items():
        found.customMetadata.add(key=key, value=value.encode())
    body = found.SerializeToString()
    size = len(body)
    head = b""
    while size >= 0x80:
        head += bytes([size & 0x7F | 0x80])
        size >>= 7
    return b"BookieMetadataFormatVersion\t3\n" + head + bytes([size]) + body


def of_topic(name: str, cursor: str = "") -> dict[str, str]:
    """What Pulsar writes into the metadata of a ledger of a topic or of a cursor."""
    more = {"pulsar/cursor": cursor} if cursor else {}
    return {
        "application": "pulsar",
        "component": "managed-ledger",
        "pulsar/managed-ledger": name,
        **more,
    }


def state_entry(
    mark: Position, ranges: Sequence[tuple[Position, Position]] = (), **numbers: int
) -> bytes:
    """An entry of a cursor's ledger: all up to ``mark``, and these ranges beyond it."""
    state = managed.PositionInfo(ledgerId=mark.ledger_id, entryId=mark.entry_id)
    for before, last in ranges:
        each = state.individualDeletedMessages.add()
        each.lowerEndpoint.ledgerId, each.lowerEndpoint.entryId = before
        each.upperEndpoint.ledgerId, each.upperEndpoint.entryId = last
    for name, value in numbers.items():
        state.properties.add(name=name, value=value)
    return state.SerializeToString()


class FakeCluster:
    """Three bookies, and whatever a test puts into them."""

    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.store: MemoryStore = self.tree.open()
        self.bookies: dict[str, FakeBookie] = {}

    @asynccontextmanager
    async def serve(self, *names: str) -> "AsyncIterator[FakeCluster]":
        async with AsyncExitStack() as stack:
            for name in names or ("b1", "b2", "b3"):
                bookie = await stack.enter_async_context(FakeBookie().serve())
                self.bookies[name] = bookie
                info = ledgers.BookieServiceInfoFormat()
                info.endpoints.add(id="web", port=1, host="nowhere", protocol="http")
                info.endpoints.add(
                    id="bookie", port=bookie.port, host="127.0.0.1", protocol="bookie-rpc"
                )
                await self.put(f"/ledgers/available/{name}", info.SerializeToString())
                await self.put(f"/ledgers/cookies/{name}", b"")
            await self.put(
                "/ledgers/LAYOUT",
                b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1",
            )
            yield self

    async def put(self, path: str, value: bytes) -> None:
        await self.store.put(path, value)

    @asynccontextmanager
    async def reading(self, options: BookieReadOptions = PATIENT) -> AsyncIterator[LedgerCluster]:
        registry = await read_registry(self.store, "/ledgers")
        bookies = Bookies(registry.registered, options)
        try:
            yield LedgerCluster(self.store, bookies, registry, "/ledgers")
        finally:
            bookies.close()

    async def ledger(
        self,
        number: int,
        payloads: Sequence[bytes],
        *,
        segments: Segments = ((0, ("b1", "b2", "b3")),),
        quorums: tuple[int, int] = (2, 2),
        open_: bool = False,
        custom: Mapping[str, str] | None = None,
        created_ms: int = LONG_AGO,
    ) -> None:
        """A ledger with these entries, on the bookies of their write sets that there are."""
        length = sum(map(len, payloads))
        last = None if open_ else len(payloads) - 1
        digits = f"{number:010d}"
        await self.put(
            f"/ledgers/{digits[:2]}/{digits[2:6]}/L{digits[6:]}",
            metadata_bytes(
                segments, quorums, last=last, length=length, custom=custom, created_ms=created_ms
            ),
        )
        so_far = 0
        for entry, payload in enumerate(payloads):
            so_far += len(payload)
            ensemble = [members for first, members in segments if first <= entry][-1]
            for step in range(quorums[0]):
                bookie = self.bookies.get(ensemble[(entry + step) % len(ensemble)])
                if bookie is not None:
                    stored = stored_entry(number, entry, entry - 1, so_far, payload)
                    bookie.stored[number, entry] = stored

    async def topic(self, name: str, *listed: tuple[int, int, int]) -> None:
        """A managed ledger that lists (ledger, entries, bytes); 0 entries: it is written."""
        info = managed.ManagedLedgerInfo()
        for ledger, entries, size in listed:
            if entries:
                info.ledgerInfo.add(ledgerId=ledger, entries=entries, size=size, timestamp=LONG_AGO)
            else:
                info.ledgerInfo.add(ledgerId=ledger, timestamp=0)
        await self.put(f"/managed-ledgers/{name}", info.SerializeToString())

    async def cursor(
        self, topic: str, name: str, mark_delete: tuple[int, int], ledger: int = -1, **numbers: int
    ) -> None:
        info = managed.ManagedCursorInfo(
            cursorsLedgerId=ledger,
            markDeleteLedgerId=mark_delete[0],
            markDeleteEntryId=mark_delete[1],
        )
        for number, value in numbers.items():
            info.properties.add(name=number, value=value)
        await self.put(f"/managed-ledgers/{topic}/{name}", info.SerializeToString())
