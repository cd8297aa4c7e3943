"""The client over sockets and a metadata store: what it writes is there, whatever bookies do."""

import asyncio
import json
from collections.abc import AsyncIterator
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.bookkeeper.bookies import BookieReadOptions
from counterpoise.bookkeeper.client import BookieLedgerClient, LedgerClientOptions
from counterpoise.bookkeeper.client.bookie_directory import BookieDirectory
from counterpoise.bookkeeper.client.rack_placement import RackPolicy
from counterpoise.bookkeeper.client_port import LedgerOver, LedgerWriter
from counterpoise.bookkeeper.errors import BookKeeperError, NoSuchLedger
from counterpoise.bookkeeper.ledger_metadata import (
    LedgerMetadata,
    LedgerState,
    read_ledger_metadata,
)
from counterpoise.bookkeeper.ledger_paths import ledger_path
from counterpoise.bookkeeper.proto import ledgers_pb2
from counterpoise.bookkeeper.quorums import Quorums
from counterpoise.storage.ledger_index import IndexedLedger
from counterpoise.storage.managed.current_ledger import CurrentLedger
from counterpoise.storage.managed.ledger_reads import LedgerReads
from tests import waiting
from tests.bookkeeper.fake_bookie import Misbehaviour
from tests.bookkeeper.fake_cluster import PATIENT, SOON, FakeCluster, metadata_bytes, though_silent
from tests.ports import free_ports

QUORUMS = Quorums()
PURPOSE = {"application": b"pulsar", "component": b"managed-ledger"}


class Confirmed:
    """A listener whose news can be awaited."""

    def __init__(self) -> None:
        self.last: list[int] = []
        self.error: BookKeeperError | None = None
        self._changed = asyncio.Event()

    def confirmed(self, last: int) -> None:
        self.last.append(last)
        self._changed.set()

    def ended(self, error: BookKeeperError) -> None:
        assert self.error is None
        self.error = error
        self._changed.set()

    async def until(self, last: int) -> None:
        async with asyncio.timeout(waiting.WITHIN_S):
            while not self.last or self.last[-1] < last:
                assert self.error is None
                self._changed.clear()
                await self._changed.wait()

    async def until_ended(self) -> BookKeeperError:
        async with asyncio.timeout(waiting.WITHIN_S):
            while self.error is None:
                self._changed.clear()
                await self._changed.wait()
        return self.error


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster().serve() as made:
        yield made


@pytest.fixture
async def client(cluster: FakeCluster) -> AsyncIterator[BookieLedgerClient]:
    opened = await open_client(cluster)
    yield opened
    await opened.close()


async def open_client(
    cluster: FakeCluster, bookies: BookieReadOptions = PATIENT, quorums: Quorums = QUORUMS
) -> BookieLedgerClient:
    made = LedgerClientOptions(bookies=bookies, quorums=quorums)
    return await BookieLedgerClient.open(cluster.tree.open(), made, Random(1))


async def written(client: BookieLedgerClient, *entries: bytes) -> tuple[LedgerWriter, Confirmed]:
    """A new ledger with these entries, all of them confirmed."""
    heard = Confirmed()
    writer = await client.create({}, heard)
    for each in entries:
        writer.add(each)
    await heard.until(len(entries) - 1)
    return writer, heard


async def metadata(cluster: FakeCluster, writer: LedgerWriter) -> LedgerMetadata:
    path = ledger_path("/ledgers", writer.ledger)
    found = await cluster.store.get(path)
    return read_ledger_metadata(writer.ledger, path, found.value)


async def test_what_is_written_is_read(cluster: FakeCluster, client: BookieLedgerClient) -> None:
    heard = Confirmed()
    writer = await client.create(PURPOSE, heard)
    payloads = [b"entry %d" % number for number in range(100)]
    assert [writer.add(each) for each in payloads] == list(range(100))
    await heard.until(99)
    assert heard.last == sorted(set(heard.last))
    assert (writer.last_confirmed, writer.length) == (99, sum(map(len, payloads)))
    reader = await client.read_open(writer)
    assert await reader.read(0, 200) == payloads
    found = await metadata(cluster, writer)
    assert (found.state, found.custom) == (LedgerState.OPEN, PURPOSE)
    await writer.close()
    found = await metadata(cluster, writer)
    assert (found.state, found.last_entry, found.length) == (LedgerState.CLOSED, 99, writer.length)
    reader = await client.recover(writer.ledger)
    assert await reader.read(90, 99) == payloads[90:]
    with pytest.raises(LedgerOver):
        writer.add(b"late")
    assert all(not each.fenced for each in cluster.bookies.values())


async def test_a_closed_ledger_is_read_from_bookies_to_which_it_was_copied_since(
    cluster: FakeCluster, client: BookieLedgerClient
) -> None:
    """Those that it was on at first have lost it: its messages were given up."""
    writer, _ = await written(client, b"a", b"b")
    await writer.close()
    reads, ledger = LedgerReads(client), IndexedLedger(writer.ledger, 0, 2, 2)
    current = cast("CurrentLedger", SimpleNamespace(ledger_id=-1))
    assert await reads.read(ledger, 0, 100, current) == [b"a", b"b"]
    former = set((await metadata(cluster, writer)).segments[0].ensemble)
    (copy,) = set(cluster.bookies) - former
    for name in former:
        cluster.bookies[copy].stored.update(cluster.bookies[name].stored)
        cluster.bookies[name].stored.clear()
    moved = metadata_bytes([(0, [copy])], (1, 1), last=1, length=2)
    await cluster.store.put(ledger_path("/ledgers", writer.ledger), moved)
    assert await reads.read(ledger, 0, 100, current) == [b"a", b"b"]


async def test_ledger_ids_differ_and_a_deleted_ledger_is_gone(
    cluster: FakeCluster, client: BookieLedgerClient
) -> None:
    writers = [await client.create({}, Confirmed()) for _ in range(3)]
    assert len({each.ledger for each in writers}) == 3
    for each in writers:
        await client.delete(each.ledger)
        await client.delete(each.ledger)
        with pytest.raises(NoSuchLedger):
            await client.recover(each.ledger)

    async def without_parents() -> bool:
        return "00" not in await cluster.store.children("/ledgers")

    await waiting.found(without_parents, "parents go with the last ledger")


async def test_an_open_ledger_is_fenced_and_closed_by_its_recovery(
    cluster: FakeCluster, client: BookieLedgerClient
) -> None:
    writer, heard = await written(client, *(b"%d" % number for number in range(10)))
    other = await open_client(cluster)
    reader = await other.recover(writer.ledger)
    assert reader.last_entry == 9
    assert await reader.read(0, 9) == [b"%d" % number for number in range(10)]
    writer.add(b"by a zombie")
    assert "fenced" in str(await heard.until_ended())
    with pytest.raises(LedgerOver):
        writer.add(b"another")
    await writer.close()  # at the same entry
    assert heard.last[-1] == 9
    await other.close()


async def test_a_writer_that_did_not_hear_everything_cannot_close_what_was_recovered(
    cluster: FakeCluster,
) -> None:
    client = await open_client(cluster, SOON)
    writer, heard = await written(client, b"first")
    silent = next(name for name, each in cluster.bookies.items() if each.adds)
    cluster.bookies[silent].misbehaves[writer.ledger, 1] = Misbehaviour.SILENCE
    writer.add(b"on one bookie")
    other = await open_client(cluster, SOON)
    reader = await though_silent(other.recover(writer.ledger))
    assert reader.last_entry == 1, "it is on the other bookie"
    await other.close()
    with pytest.raises(LedgerOver, match="closed it at entry 1"):
        await though_silent(writer.close())
    assert heard.last == [0]
    await client.close()


@pytest.mark.parametrize(
    "how", [Misbehaviour.HANGS_UP, Misbehaviour.IO_ERROR, Misbehaviour.SILENCE]
)
async def test_a_bookie_that_fails_is_replaced(cluster: FakeCluster, how: Misbehaviour) -> None:
    client = await open_client(cluster, SOON if how is Misbehaviour.SILENCE else PATIENT)
    writer, heard = await written(client, *(b"%d" % number for number in range(5)))
    before = await metadata(cluster, writer)
    gone = before.segments[0].ensemble[0]
    cluster.bookies[gone].always = how
    for number in range(5, 10):
        writer.add(b"%d" % number)
    await though_silent(heard.until(9))
    after = await metadata(cluster, writer)
    assert [each.first for each in after.segments] == [0, 5]
    assert set(after.segments[1].ensemble) == set(cluster.bookies) - {gone}
    reader = await client.read_open(writer)
    assert await reader.read(0, 9) == [b"%d" % number for number in range(10)]
    await writer.close()
    for _ in range(4):
        later = await client.create({}, Confirmed())
        ensemble = (await metadata(cluster, later)).segments[0].ensemble
        assert gone not in ensemble, "no new ledger has it for a while"
    await client.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "no\0host"])
async def test_a_bookie_that_takes_no_connection_is_replaced(
    cluster: FakeCluster, host: str
) -> None:
    info = ledgers_pb2.BookieServiceInfoFormat()
    info.endpoints.add(id="x", port=free_ports(), host=host, protocol="bookie-rpc")
    await cluster.put("/ledgers/available/dead", info.SerializeToString())
    client, heard = await open_client(cluster, quorums=Quorums(3, 3, 2)), Confirmed()
    writer = await client.create({}, heard)
    assert "dead" in (await metadata(cluster, writer)).segments[0].ensemble
    writer.add(b"0")
    await heard.until(0)
    assert set((await metadata(cluster, writer)).segments[0].ensemble) == set(cluster.bookies)
    await client.close()


async def test_without_enough_bookies_nothing_is_acknowledged_and_the_ledger_ends(
    cluster: FakeCluster, client: BookieLedgerClient
) -> None:
    writer, heard = await written(client, b"first")
    for name in list(cluster.bookies)[1:]:
        cluster.bookies[name].always = Misbehaviour.HANGS_UP
    for _ in range(5):
        writer.add(b"more")
    end = str(await heard.until_ended())
    assert "no other bookie" in end
    assert "it hung up" in end, "why a bookie counts as failed"
    assert heard.last == [0]
    for each in cluster.bookies.values():
        each.always = None
    await writer.close()
    found = await metadata(cluster, writer)
    assert (found.state, found.last_entry, found.length) == (LedgerState.CLOSED, 0, 5)
    again = Confirmed()
    writer = await client.create({}, again)
    writer.add(b"goes on")
    await again.until(0)
    await writer.close()


async def test_recovery_without_an_ack_quorum_fails_and_can_be_tried_again(
    cluster: FakeCluster, client: BookieLedgerClient
) -> None:
    writer, _heard = await written(client, b"first")
    ensemble = (await metadata(cluster, writer)).segments[0].ensemble
    other = await open_client(cluster)
    for name in ensemble:
        cluster.bookies[name].always = Misbehaviour.HANGS_UP
    with pytest.raises(BookKeeperError, match="cannot be fenced"):
        await other.recover(writer.ledger)
    for name in ensemble:
        cluster.bookies[name].always = None
    assert (await other.recover(writer.ledger)).last_entry == 0
    await other.close()


async def test_a_bookie_that_refuses_what_a_recovery_writes_gets_no_ledger_afterwards(
    cluster: FakeCluster, client: BookieLedgerClient
) -> None:
    writer, _heard = await written(client, b"first")
    refuses, _ = (await metadata(cluster, writer)).segments[0].ensemble
    cluster.bookies[refuses].always = Misbehaviour.IO_ERROR
    other = await open_client(cluster)
    assert (await other.recover(writer.ledger)).last_entry == 0
    for _ in range(8):
        next_one = await other.create({}, Confirmed())
        assert refuses not in (await metadata(cluster, next_one)).segments[0].ensemble
    await other.close()


async def test_a_bookie_that_has_no_entry_behind_the_last_gets_ledgers_as_before(
    cluster: FakeCluster, client: BookieLedgerClient
) -> None:
    writer, _heard = await written(client, b"first")
    there = (await metadata(cluster, writer)).segments[0].ensemble
    other = await open_client(cluster)
    assert (await other.recover(writer.ledger)).last_entry == 0
    ensembles = []
    for _ in range(12):
        next_one = await other.create({}, Confirmed())
        ensembles.append(set((await metadata(cluster, next_one)).segments[0].ensemble))
    assert set(there) in ensembles
    await other.close()


async def test_a_cancelled_recovery_looks_for_no_other_bookie_any_more(
    cluster: FakeCluster, client: BookieLedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def search_without_end(*_: object) -> list[str]:
        began.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    monkeypatch.setattr(BookieDirectory, "replace", search_without_end)
    writer, _heard = await written(client, b"first")
    refuses, _ = (await metadata(cluster, writer)).segments[0].ensemble
    cluster.bookies[refuses].always = Misbehaviour.IO_ERROR
    recovering = asyncio.create_task(client.recover(writer.ledger))
    async with asyncio.timeout(waiting.WITHIN_S):
        await began.wait()
        recovering.cancel()
        await asyncio.wait([recovering])
        await ended.wait()


@settings(max_examples=10)
@given(st.lists(st.integers(1, 3), min_size=3, max_size=3).map(sorted))
async def test_a_ledger_has_the_quorums_that_it_was_created_with(sizes: list[int]) -> None:
    quorums = Quorums(*reversed(sizes))
    async with FakeCluster().serve() as cluster:
        client = await open_client(cluster)
        for wanted, expected in ((quorums, quorums), (None, Quorums(2, 2, 2))):
            writer = await client.create({}, Confirmed(), wanted)
            found = await metadata(cluster, writer)
            kept = Quorums(found.ensemble_size, found.write_quorum, found.ack_quorum)
            assert kept == expected
        await client.close()


async def test_a_cluster_with_too_few_bookies_is_named(cluster: FakeCluster) -> None:
    client = await open_client(cluster, quorums=Quorums(4))
    with pytest.raises(BookKeeperError, match="managedLedgerDefaultEnsembleSize"):
        await client.create({}, Confirmed())
    await client.close()


@pytest.mark.parametrize("sizes", [(2, 3, 2), (3, 2, 3), (2, 2, 0)])
def test_sizes_that_contradict_each_other_are_refused(sizes: tuple[int, int, int]) -> None:
    ensemble, write, ack = sizes
    with pytest.raises(ValueError, match=f"ensemble {ensemble}, write quorum {write} and ack"):
        Quorums(ensemble, write, ack)


async def test_a_client_reads_no_open_ledger_of_another_writer(client: BookieLedgerClient) -> None:
    class Elsewhere:
        ledger = 7

    with pytest.raises(BookKeeperError, match="ledger 7 is not written by this client"):
        await client.read_open(cast("LedgerWriter", Elsewhere()))


def racks_of(**racks: str) -> bytes:
    return json.dumps({"g": {bookie: {"rack": rack} for bookie, rack in racks.items()}}).encode()


async def test_copies_are_on_two_racks_also_after_a_bookie_is_replaced() -> None:
    async with FakeCluster().serve("b1", "b2", "b3", "b4") as cluster:
        await cluster.put("/bookies", racks_of(b1="/r1", b2="/r1", b3="/r2", b4="/r2"))
        client = await open_client(cluster)
        for _ in range(10):
            writer = await client.create({}, Confirmed())
            ensemble = (await metadata(cluster, writer)).segments[-1].ensemble
            assert {each in ("b1", "b2") for each in ensemble} == {True, False}
        heard = Confirmed()
        writer = await client.create({}, heard)
        first, second = (await metadata(cluster, writer)).segments[-1].ensemble
        cluster.bookies[first].always = Misbehaviour.HANGS_UP
        writer.add(b"entry")
        await heard.until(0)
        beside = {"b1": "b2", "b2": "b1", "b3": "b4", "b4": "b3"}
        found = await metadata(cluster, writer)
        assert found.segments[-1].ensemble == (beside[first], second)
        await client.close()


async def test_a_map_of_racks_that_changes_holds_for_the_next_ledger(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    session, changed = cluster.tree.open(), asyncio.Event()
    options = LedgerClientOptions(bookies=PATIENT)
    client = await BookieLedgerClient.open(session, options, Random(1))
    session.subscribe(lambda _: changed.set())
    for alone in ("b1", "b2", "b3", "b1"):
        racks = {each: "/r2" if each == alone else "/r1" for each in cluster.bookies}
        changed.clear()
        await cluster.put("/bookies", racks_of(**racks))
        async with asyncio.timeout(waiting.WITHIN_S):
            await changed.wait()
        for _ in range(5):
            writer = await client.create({}, Confirmed())
            assert alone in (await metadata(cluster, writer)).segments[-1].ensemble
    assert "racks" not in caplog.text
    await client.create({}, Confirmed(), Quorums(3, 2, 2))
    assert "/bookies: no choice of bookies has each entry on 2 racks" in caplog.text
    await client.close()


async def test_racks_that_are_enforced_refuse_a_ledger_that_has_too_few(
    cluster: FakeCluster,
) -> None:
    session, changed = cluster.tree.open(), asyncio.Event()
    await cluster.put("/bookies", racks_of(b1="/r1", b2="/r1", b3="/r2"))
    options = LedgerClientOptions(bookies=PATIENT, racks=RackPolicy(is_enforced=True))
    client = await BookieLedgerClient.open(session, options, Random(1))
    session.subscribe(lambda _: changed.set())
    refused = "bookkeeperClientEnforceMinNumRacksPerWriteQuorum"

    async def set_racks(value: bytes) -> None:
        changed.clear()
        await cluster.put("/bookies", value)
        async with asyncio.timeout(waiting.WITHIN_S):
            await changed.wait()

    for without in (racks_of(b1="/r1", b2="/r1"), b"{"):
        writer = await client.create({}, Confirmed())
        assert "b3" in (await metadata(cluster, writer)).segments[-1].ensemble
        with pytest.raises(BookKeeperError, match=refused):
            await client.create({}, Confirmed(), Quorums(3, 2, 2))
        # A bookie without a rack is none that differs, and a map that cannot be read has no racks.
        await set_racks(without)
        with pytest.raises(BookKeeperError, match=refused):
            await client.create({}, Confirmed())
        await set_racks(racks_of(b1="/r1", b2="/r1", b3="/r2"))
    await client.close()
