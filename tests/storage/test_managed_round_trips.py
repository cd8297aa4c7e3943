"""Round trips in a row of moving a log: every answer takes a second of a clock that jumps.

Requests that are sent together cost one round trip. Connections stand already. After a crash most
are the recovery's of the messages' ledger, an entry after the other: the cursor's is recovered
meanwhile.
"""

import asyncio
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from counterpoise.bookkeeper.client import BookieLedgerClient, LedgerClientOptions
from counterpoise.bookkeeper.proto import ledgers_pb2
from counterpoise.metadata import MemoryStore, MemoryTree
from counterpoise.metadata.port import Stored
from counterpoise.names.position import Position
from counterpoise.storage.grouplog import Log
from counterpoise.storage.managed.store import ManagedLedgerStore
from counterpoise.storage.managed_options import ManagedLedgerOptions
from counterpoise.storage.port import CursorState
from tests.bookkeeper.fake_bookie import BookieDisk
from tests.quota.jumping import JumpingLoop, pass_time
from tests.storage.conftest import Heard, everything, write

NAME = "t/n/persistent/x"
ROUND_TRIP_S = 1.0


class DistantTree(MemoryTree):
    """A metadata store whose answers take a round trip, from when `is_distant` on."""

    is_distant = False

    def open(self) -> MemoryStore:
        session = DistantStore(self)
        self._sessions.append(session)
        return session

    async def travel(self) -> None:
        if self.is_distant:
            await pass_time(ROUND_TRIP_S)


class DistantStore(MemoryStore):
    def __init__(self, tree: DistantTree) -> None:
        super().__init__(tree)
        self.distant = tree

    async def get(self, path: str) -> Stored | None:
        await self.distant.travel()
        return await super().get(path)

    async def put(self, path: str, value: bytes, **more: Any) -> int:
        await self.distant.travel()
        return await super().put(path, value, **more)

    async def put_next(self, prefix: str, value: bytes, *, ephemeral: bool) -> str:
        await self.distant.travel()
        return await super().put_next(prefix, value, ephemeral=ephemeral)

    async def delete(self, path: str, *, expected_version: int | None = None) -> None:
        await self.distant.travel()
        await super().delete(path, expected_version=expected_version)

    async def children(self, path: str) -> list[str]:
        await self.distant.travel()
        return await super().children(path)

    async def exists(self, path: str) -> bool:
        await self.distant.travel()
        return await super().exists(path)


class DistantBookie(asyncio.Transport):
    """A connection with a bookie whose answers take a round trip."""

    def __init__(self, disk: BookieDisk, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.disk = disk
        self.protocol = protocol

    def writelines(self, frames: Sequence[bytes]) -> None:  # type: ignore[override]
        data = b"".join(frames)
        asyncio.get_running_loop().call_later(ROUND_TRIP_S, self._answer, data)

    def _answer(self, data: bytes) -> None:
        while data:
            (size,) = struct.unpack_from(">i", data)
            self.protocol.data_received(self.disk.answer(data[4 : 4 + size]))
            data = data[4 + size :]

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass


class DistantLoop(JumpingLoop):
    """Ports are those of bookies in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.bookies = {port: BookieDisk() for port in (1, 2, 3)}

    async def create_connection(  # type: ignore[override]
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, **_: Any
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        protocol = factory()
        transport = DistantBookie(self.bookies[port], protocol)
        protocol.connection_made(transport)
        return transport, protocol


class DistantCluster:
    def __init__(self) -> None:
        self.tree = DistantTree()
        self.heard = Heard()

    async def register(self) -> None:
        store = self.tree.open()
        layout = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
        await store.put("/ledgers/LAYOUT", layout)
        for port in (1, 2, 3):
            info = ledgers_pb2.BookieServiceInfoFormat()
            info.endpoints.add(id="b", port=port, host="h", protocol="bookie-rpc")
            await store.put(f"/ledgers/available/b{port}", info.SerializeToString())

    async def broker(self) -> ManagedLedgerStore:
        """One that has served other logs before: it knows the bookies."""
        store = self.tree.open()
        client = await BookieLedgerClient.open(store, LedgerClientOptions(), Random(1))
        options = ManagedLedgerOptions(mark_deletes_per_s=0)
        made = ManagedLedgerStore(store, client, options=options, cache_bytes=1)
        await (await made.open("t/n/persistent/other", "x", Heard())).close()
        return made


async def served(cluster: DistantCluster, broker: ManagedLedgerStore) -> Log[object]:
    """A log with messages, and a cursor that was saved more than once."""
    log = await broker.open(NAME, "before", cluster.heard)
    await write(log, cluster.heard, b"0", b"1", b"2")
    for entry in (0, 1):
        log.save_cursor(CursorState("s", Position(log.ledgers[-1].ledger_id, entry)))
        await log.cursors_saved()
    return log


async def rounds(cluster: DistantCluster, work: Any) -> tuple[int, Any]:
    """What it gives, and how many round trips it takes, one after the other."""
    loop = asyncio.get_running_loop()
    cluster.tree.is_distant = True
    begun = loop.time()
    result = await work
    took = loop.time() - begun
    cluster.tree.is_distant = False
    return round(took / ROUND_TRIP_S), result


async def move(how: str) -> dict[str, int]:
    cluster = DistantCluster()
    await cluster.register()
    before, after = await cluster.broker(), await cluster.broker()
    log = await served(cluster, before)
    found = {}
    if how == "closed":
        found["close"], _ = await rounds(cluster, log.close())
    found["open"], taken = await rounds(cluster, after.open(NAME, "after", Heard()))
    assert await everything(taken) == [b"0", b"1", b"2"]
    assert taken.cursors["s"].mark_delete.entry_id == 1
    return found


@pytest.mark.parametrize(
    ("how", "expected"), [("closed", {"close": 4, "open": 5}), ("crashed", {"open": 17})]
)
def test_round_trips_of_a_move(how: str, expected: dict[str, int]) -> None:
    with asyncio.Runner(loop_factory=DistantLoop) as runner:
        assert runner.run(move(how)) == expected
