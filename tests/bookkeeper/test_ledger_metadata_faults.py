"""The client while the metadata store fails, loses answers, or has another writer."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from counterpoise.bookkeeper.bookie_frames import ADD, FENCED, OK, BookieAnswer
from counterpoise.bookkeeper.bookies import Bookies
from counterpoise.bookkeeper.client import BookieLedgerClient, LedgerClientOptions
from counterpoise.bookkeeper.client.bookie_directory import BookieDirectory, NotEnoughBookies
from counterpoise.bookkeeper.client.ledger_ids import LedgerIdGenerator
from counterpoise.bookkeeper.client.ledger_writer import BookieLedgerWriter
from counterpoise.bookkeeper.client_port import EntryTooLarge, LedgerOver
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.ledger_metadata import (
    LedgerMetadata,
    LedgerState,
    read_ledger_metadata,
    write_ledger_metadata,
)
from counterpoise.bookkeeper.ledger_paths import SHORT_IDS, ledger_path
from counterpoise.bookkeeper.quorums import Quorums
from counterpoise.metadata import BadVersion, SessionEvent, StoreUnavailable
from counterpoise.metadata.port import SessionListener, Unsubscribe
from tests.bookkeeper.fake_bookie import Misbehaviour
from tests.bookkeeper.fake_cluster import PATIENT, FakeCluster
from tests.bookkeeper.test_ledger_client import Confirmed, written
from tests.broker.misbehaving_store import MisbehavingStore
from tests.waiting import found as found_at_last
from tests.waiting import until


class Once:
    """A fault of the first writes of a ledger's node, so many of them."""

    def __init__(self, times: int = 1) -> None:
        self.left = times
        self.happened = 0

    def __call__(self, operation: str, path: str) -> bool:
        if operation != "put" or not self.left or "/L" not in path:
            return False
        self.left -= 1
        self.happened += 1
        return True


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster().serve() as made:
        yield made


@pytest.fixture
def store(cluster: FakeCluster) -> MisbehavingStore:
    return MisbehavingStore(cluster.tree)


@pytest.fixture
async def client(store: MisbehavingStore) -> AsyncIterator[BookieLedgerClient]:
    options = LedgerClientOptions(bookies=PATIENT, metadata_s=60.0)
    opened = await BookieLedgerClient.open(store, options, Random(1))
    yield opened
    await opened.close()


async def lose_a_bookie(cluster: FakeCluster, ledger: int) -> None:
    """The first one of the ledger's ensemble hangs up from now on."""
    found, _ = await read(cluster, ledger)
    cluster.bookies[found.segments[0].ensemble[0]].always = Misbehaviour.HANGS_UP


async def change(cluster: FakeCluster, ledger: int, **values: object) -> tuple[LedgerMetadata, int]:
    """Another client changes the ledger's metadata; returns it, and the version before."""
    found, version = await read(cluster, ledger)
    other = replace(found, **values)
    path = ledger_path("/ledgers", ledger)
    await cluster.store.put(path, write_ledger_metadata(other), expected_version=version)
    return other, version


async def read(cluster: FakeCluster, ledger: int) -> tuple[LedgerMetadata, int]:
    path = ledger_path("/ledgers", ledger)
    found = await cluster.store.get(path)
    return read_ledger_metadata(ledger, path, found.value), found.version


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_changes_survive_lost_requests_and_answers(
    cluster: FakeCluster, store: MisbehavingStore, client: BookieLedgerClient, lost: str
) -> None:
    writer, heard = await written(client, b"0")
    faults = []

    def fail_next() -> None:
        fault = Once()
        faults.append(fault)
        if lost == "request":
            store.fails = fault
        else:
            store.fails_afterwards = fault

    fail_next()
    await lose_a_bookie(cluster, writer.ledger)
    writer.add(b"1")
    await heard.until(1)
    changed, version = await read(cluster, writer.ledger)
    assert [each.first for each in changed.segments] == [0, 1]
    assert version == 1, "one change, and written once"
    fail_next()
    await writer.close()
    closed, version = await read(cluster, writer.ledger)
    assert (closed.state, closed.last_entry, version) == (LedgerState.CLOSED, 1, 2)
    assert [each.happened for each in faults] == [1, 1]


async def test_a_ledger_goes_on_when_the_store_was_away_during_an_ensemble_change(
    cluster: FakeCluster, store: MisbehavingStore, client: BookieLedgerClient
) -> None:
    writer, heard = await written(client, b"0")
    store.go_away()
    tried = asyncio.Event()

    def note(operation: str, _: str) -> bool:
        if operation == "put":
            tried.set()
        return False

    store.hangs = note
    await lose_a_bookie(cluster, writer.ledger)
    writer.add(b"1")
    async with asyncio.timeout(30):
        await tried.wait()
    assert heard.last == [0], "nothing is acknowledged meanwhile"
    store.come_back()
    await heard.until(1)
    await writer.close()


async def test_a_change_of_earlier_segments_by_another_client_is_kept(
    cluster: FakeCluster, client: BookieLedgerClient
) -> None:
    """As when auto-recovery replaces a bookie in a segment that is complete."""
    writer, heard = await written(client, b"0")
    other, _version = await change(cluster, writer.ledger, custom={"changed": b"by another client"})
    await lose_a_bookie(cluster, writer.ledger)
    writer.add(b"1")
    await heard.until(1)
    changed, _ = await read(cluster, writer.ledger)
    assert changed.custom == other.custom
    assert len(changed.segments) == 2
    await writer.close()


@pytest.mark.parametrize("state", [LedgerState.IN_RECOVERY, LedgerState.CLOSED])
async def test_a_ledger_that_another_client_recovers_is_over(
    cluster: FakeCluster, client: BookieLedgerClient, state: LedgerState
) -> None:
    writer, heard = await written(client, b"0")
    _other, version = await change(cluster, writer.ledger, state=state, last_entry=7, length=70)
    await lose_a_bookie(cluster, writer.ledger)
    writer.add(b"1")
    assert isinstance(await heard.until_ended(), LedgerOver)
    with pytest.raises(LedgerOver, match="another client"):
        await writer.close()
    assert heard.last == [0]
    assert (await read(cluster, writer.ledger))[1] == version + 1, "nothing was written over it"


async def test_an_unforeseen_error_of_the_store_ends_the_ledger_and_is_logged(
    cluster: FakeCluster,
    store: MisbehavingStore,
    client: BookieLedgerClient,
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer, heard = await written(client, b"0")

    def break_down(operation: str, _: str) -> bool:
        if operation == "put":
            raise RuntimeError("no rights")
        return False

    store.fails = break_down
    await lose_a_bookie(cluster, writer.ledger)
    writer.add(b"1")
    assert "no rights" in str(await heard.until_ended())
    await until(lambda: "its ensemble could not be changed" in caplog.text, "it is logged")


async def test_a_ledger_whose_creation_is_not_answered_is_no_ledger(
    store: MisbehavingStore, client: BookieLedgerClient
) -> None:
    store.fails_afterwards = Once()
    with pytest.raises(BookKeeperError, match="did not answer"):
        await client.create({}, Confirmed())
    writer = await client.create({}, Confirmed())
    await writer.close()


async def test_an_entry_that_no_bookie_takes_is_refused_and_the_ledger_goes_on(
    store: MisbehavingStore,
) -> None:
    options = LedgerClientOptions(bookies=replace(PATIENT, frame_max=1000))
    client = await BookieLedgerClient.open(store, options, Random(1))
    heard = Confirmed()
    writer = await client.create({}, heard)
    with pytest.raises(EntryTooLarge, match="873 bytes; bookies take 872"):
        writer.add(b"taken with others only", bytes(873))
    assert writer.add(bytes(872)) == 0
    await heard.until(0)
    await writer.close()
    await client.close()


async def test_a_store_that_is_away_is_an_error_of_bookkeepers_and_of_its_time(
    store: MisbehavingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is asked for; and once the store is back, the same client goes on."""
    listening: list[SessionListener] = []
    subscribe = store.subscribe_session

    def listen(listener: SessionListener) -> Unsubscribe:
        listening.append(listener)
        leave = subscribe(listener)
        return lambda: (listening.remove(listener), leave())[1]

    monkeypatch.setattr(store, "subscribe_session", listen)
    options = LedgerClientOptions(bookies=PATIENT, metadata_s=0.01)
    client = await BookieLedgerClient.open(store, options, Random(1))
    writer, _ = await written(client, b"0")
    store.fails = lambda _, __: True
    for asked in (
        lambda: client.create({}, Confirmed()),
        lambda: client.recover(writer.ledger),
        lambda: client.delete(writer.ledger),
        writer.close,
    ):
        with pytest.raises(BookKeeperError):
            await asked()
    store.fails = lambda _, __: False
    assert (await client.recover(writer.ledger)).last_entry == 0
    await client.close()
    assert not listening


async def test_a_change_that_always_comes_second_is_given_up(
    store: MisbehavingStore, client: BookieLedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, _ = await written(client, b"0")
    writes: list[str] = []

    async def comes_second(path: str, *_: object, **__: object) -> int:
        writes.append(path)
        raise BadVersion(path)

    monkeypatch.setattr(store, "put", comes_second)
    with pytest.raises(BookKeeperError, match="could not be changed in 16 attempts"):
        await client.recover(writer.ledger)
    assert writes == [ledger_path("/ledgers", writer.ledger)] * 16


async def test_ids_are_those_that_java_takes(cluster: FakeCluster) -> None:
    ids = LedgerIdGenerator(cluster.store, "/ledgers")
    assert [await ids.next_id() for _ in range(3)] == [0, 1, 2]

    async def deleted() -> bool:
        return await cluster.store.children("/ledgers/idgen") == []

    assert await found_at_last(deleted, "nodes of ids that are taken are deleted")


async def test_ids_beyond_31_bits_have_two_parts(cluster: FakeCluster) -> None:
    store = cluster.store
    cluster.tree.restore("/ledgers/idgen", b"", 0, SHORT_IDS)
    ids = LedgerIdGenerator(store, "/ledgers")
    assert [await ids.next_id() for _ in range(2)] == [1 << 32, (1 << 32) + 1]
    await store.put("/ledgers/idgen-long/HOB-0000000007", b"")
    assert await LedgerIdGenerator(store, "/ledgers").next_id() == 7 << 32
    assert await store.children("/ledgers/idgen-long") == ["HOB-0000000001", "HOB-0000000007"]
    cluster.tree.restore("/ledgers/idgen-long/HOB-0000000009", b"", 0, SHORT_IDS)
    assert await ids.next_id() == 10 << 32, "the low part of the greatest has no number left"


async def test_short_ids_are_asked_for_until_they_are_used_up(
    cluster: FakeCluster, store: MisbehavingStore
) -> None:
    """Whether they are is looked up once, and an id costs one request, or two."""
    short, ids = "/ledgers/idgen/ID-", LedgerIdGenerator(store, "/ledgers")
    for number, asked in enumerate((1, 1, 1, 0, 0)):
        if number == 2:
            cluster.tree.restore("/ledgers/idgen", b"", 0, SHORT_IDS)
        store.asked.clear()
        assert (await ids.next_id() >= SHORT_IDS) is (number >= 2)
        assert [path for _, path in store.asked].count(short) == asked
    other = LedgerIdGenerator(store, "/ledgers")
    store.asked.clear()
    assert await other.next_id() >= SHORT_IDS
    assert short not in [path for _, path in store.asked]


async def test_an_id_under_which_another_ledger_stands_is_not_taken_unless_it_is_the_clients(
    cluster: FakeCluster,
    store: MisbehavingStore,
    client: BookieLedgerClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await cluster.ledger(0, [b"of another client"])
    before = time.time()
    put = store.put

    async def sent_twice(path: str, *rest: Any, **more: Any) -> int:
        """The first answer was lost, and the second finds what the first request made."""
        await put(path, *rest, **more)
        return await put(path, *rest, **more)

    monkeypatch.setattr(store, "put", sent_twice)
    writer = await client.create({}, Confirmed())
    monkeypatch.undo()
    assert writer.ledger == 1
    found, _ = await read(cluster, writer.ledger)
    assert before - 1 < found.created_ms / 1000 < time.time() + 1
    assert (await client.recover(0)).last_entry == 0


async def test_what_was_confirmed_is_notified_of_before_a_ledger_is_closed_or_ends(
    cluster: FakeCluster, client: BookieLedgerClient
) -> None:
    """In one turn of the loop: the answer of the last bookie, and the end."""
    heard: list[object] = []

    class Order(Confirmed):
        def confirmed(self, last: int) -> None:
            heard.append(last)
            super().confirmed(last)

        def ended(self, error: BookKeeperError) -> None:
            heard.append(type(error))
            super().ended(error)

    for ends in (True, False):
        listener = Order()
        writer = await client.create({}, listener)
        assert isinstance(writer, BookieLedgerWriter)
        writer.add(b"0")
        answer = BookieAnswer(ADD, OK, writer.ledger, 0)
        for bookie in writer.metadata.write_set(0):
            writer.answered(bookie, [answer])
        if ends:
            writer.answered(writer.metadata.write_set(1)[0], [answer._replace(code=FENCED)])
            assert heard == [0, LedgerOver]
        else:
            closing = asyncio.ensure_future(writer.close())
            await closing
            assert heard == [0]
        heard.clear()


async def test_a_reader_reads_no_further_than_the_ledger_goes(
    cluster: FakeCluster, client: BookieLedgerClient
) -> None:
    writer, _ = await written(client, b"0", b"1")
    assert await (await client.read_open(writer)).read(1, 9) == [b"1"]
    await writer.close()
    reader = await client.recover(writer.ledger)
    assert await reader.read(1, 9) == [b"1"]
    assert (reader.last_entry, reader.length) == (1, 2)


async def register_another(cluster: FakeCluster) -> None:
    """A fourth bookie, under the address of the first."""
    found = await cluster.store.get("/ledgers/available/b1")
    assert found is not None
    await cluster.put("/ledgers/available/b4", found.value)


async def test_a_bookie_that_came_while_the_session_was_lost_is_known_afterwards(
    cluster: FakeCluster, store: MisbehavingStore, client: BookieLedgerClient
) -> None:
    back = asyncio.Event()
    store.subscribe_session(
        lambda event: back.set() if event is SessionEvent.SESSION_REESTABLISHED else None
    )
    store.lose_session()
    await register_another(cluster)
    store.come_back()
    async with asyncio.timeout(30):
        await back.wait()
    cluster.bookies["b4"] = cluster.bookies["b1"]
    await cluster.ledger(900, [b"0"], segments=((0, ("b4",)),), quorums=(1, 1), open_=True)
    assert (await client.recover(900)).last_entry == 0
    await client.create({}, Confirmed(), Quorums(4))


async def test_a_list_of_bookies_that_was_not_read_to_its_end_is_read_again(
    cluster: FakeCluster, store: MisbehavingStore, client: BookieLedgerClient
) -> None:
    """Whoever asked for it was cancelled meanwhile."""
    changed = asyncio.Event()
    store.subscribe(lambda _: changed.set())
    await register_another(cluster)
    async with asyncio.timeout(30):
        await changed.wait()
    asked = asyncio.Event()

    def hangs(operation: str, _: str) -> bool:
        asked.set()
        return True

    store.hangs = hangs
    creating = asyncio.create_task(client.create({}, Confirmed()))
    await asked.wait()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    store.hangs = lambda _, __: False
    await client.create({}, Confirmed(), Quorums(4))


async def test_the_list_of_bookies_is_not_read_again_for_what_happens_elsewhere(
    store: MisbehavingStore, client: BookieLedgerClient
) -> None:
    store.asked.clear()
    for _ in range(3):
        await client.create({}, Confirmed())
    assert not any(path.startswith("/ledgers/available") for _, path in store.asked)


async def test_a_list_of_bookies_that_could_not_be_read_is_read_again_and_used_meanwhile(
    cluster: FakeCluster, store: MisbehavingStore
) -> None:
    directory = BookieDirectory(store, "/ledgers", Random(1))
    store.fails = lambda *_: True
    with pytest.raises(StoreUnavailable):
        await directory.refresh()
    store.fails = lambda *_: False
    await directory.refresh()
    assert sorted(directory.registered) == ["b1", "b2", "b3"]
    await register_another(cluster)
    await until(lambda: directory.registered, "it is there")
    await asyncio.sleep(0)
    store.fails = lambda *_: True
    await directory.refresh()
    assert "b4" not in directory.registered, "the known list is used"
    store.fails = lambda *_: False
    await directory.refresh()
    assert "b4" in directory.registered
    directory.close()


async def test_a_bookie_that_comes_while_the_list_is_read_is_in_the_next(
    cluster: FakeCluster, store: MisbehavingStore
) -> None:
    store.takes_turns = 3
    found = await cluster.store.get("/ledgers/available/b1")
    assert found is not None
    for moment in range(12):
        directory = BookieDirectory(store, "/ledgers", Random(1))
        reading = asyncio.create_task(directory.refresh())
        for _ in range(moment):
            await asyncio.sleep(0)
        await cluster.put(f"/ledgers/available/comes-{moment}", found.value)
        await reading
        await asyncio.sleep(0)
        await directory.refresh()
        assert f"comes-{moment}" in directory.registered
        directory.close()


async def test_ledgers_go_to_bookies_that_take_writes_and_did_not_fail_lately(
    cluster: FakeCluster, store: MisbehavingStore
) -> None:
    await register_another(cluster)
    there = await cluster.store.get("/ledgers/available/b3")
    await cluster.store.delete("/ledgers/available/b3")
    await cluster.put("/ledgers/available/readonly/b3", there.value)
    directory = BookieDirectory(store, "/ledgers", Random(1))
    bookies = Bookies(directory.registered, PATIENT)
    await directory.refresh()
    bookies.avoid("b1")
    for _ in range(9):
        assert set(await directory.choose(Quorums(2), bookies)) == {"b2", "b4"}
    assert set(await directory.choose(Quorums(3), bookies)) == {"b1", "b2", "b4"}
    with pytest.raises(NotEnoughBookies, match="3 bookies take writes, and a ledger needs 4"):
        await directory.choose(Quorums(4), bookies)
    assert await directory.replace(("b1", "b2"), {"b2"}, 2, bookies) == ["b1", "b4"]
    assert await directory.replace(("b4", "b2"), {"b2"}, 2, bookies) == ["b4", "b2"]
    directory.close()


async def test_a_cluster_whose_racks_are_too_few_is_warned_of_once_until_that_is_over(
    cluster: FakeCluster, store: MisbehavingStore, caplog: pytest.LogCaptureFixture
) -> None:
    def racks(*of: str) -> bytes:
        return json.dumps({"g": {f"b{n}": {"rack": each} for n, each in enumerate(of, 1)}}).encode()

    directory = BookieDirectory(store, "/ledgers", Random(1))
    bookies = Bookies(directory.registered, PATIENT)

    async def choose(of: bytes) -> int:
        await cluster.put("/bookies", of)
        await asyncio.sleep(0)
        caplog.clear()
        await directory.choose(Quorums(2, 2, 2), bookies)
        return len(caplog.records)

    bookies.avoid("b3")
    spread, alone = racks("a", "b", "c"), racks("a", "a", "c")
    assert [await choose(each) for each in (spread, alone, alone, spread, alone)] == [0, 1, 0, 0, 1]
    directory.close()
