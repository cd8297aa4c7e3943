"""Entries are read undamaged or not at all, whatever bookies do, and never with a flag."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from counterpoise.bookkeeper import bookie_frames
from counterpoise.bookkeeper.bookie_connection import BookieConnection
from counterpoise.bookkeeper.bookie_registry import BookieState, RegisteredBookie, read_registry
from counterpoise.bookkeeper.bookies import BookieReadOptions, Bookies
from counterpoise.bookkeeper.errors import (
    BookieError,
    EntryUnreadable,
    MissingEntry,
    NotThisCluster,
)
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata, read_ledger_metadata
from counterpoise.bookkeeper.ledger_paths import check_layout
from counterpoise.bookkeeper.ledger_reading import LedgerEnd, ledger_end, read_entry
from counterpoise.bookkeeper.ledger_rows import LedgerCluster
from counterpoise.metadata import MemoryTree
from tests.bookkeeper.fake_bookie import BookieDisk, Misbehaviour
from tests.bookkeeper.fake_cluster import (
    PATIENT,
    SOON,
    FakeCluster,
    metadata_bytes,
    stored_entry,
    though_silent,
)
from tests.ports import free_ports
from tests.quota.jumping import on_jumping_loop, pass_time
from tests.waiting import WITHIN_S, until

PAYLOADS = [b"payload %d" % number for number in range(10)]


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster().serve() as made:
        yield made
        assert all(each.flags <= {0} for each in made.bookies.values()), "a ledger was fenced"


async def metadata(reading: LedgerCluster, number: int = 7) -> LedgerMetadata:
    found = await reading.metadata(number)
    assert found is not None
    return found


async def test_every_entry_comes_from_the_first_bookie_of_its_write_set(
    cluster: FakeCluster,
) -> None:
    await cluster.ledger(7, PAYLOADS)
    async with cluster.reading() as reading:
        ledger = await metadata(reading)
        found = [await read_entry(reading.bookies, ledger, entry) for entry in range(10)]
    assert [each.payload for each in found] == PAYLOADS
    asked = {name: each.requests for name, each in cluster.bookies.items()}
    assert asked == {
        "b1": [(7, 0), (7, 3), (7, 6), (7, 9)],
        "b2": [(7, 1), (7, 4), (7, 7)],
        "b3": [(7, 2), (7, 5), (7, 8)],
    }


async def test_equal_requests_at_once_are_each_answered(cluster: FakeCluster) -> None:
    await cluster.ledger(7, PAYLOADS)
    async with cluster.reading() as reading, asyncio.timeout(WITHIN_S):
        reads = [reading.bookies.read("b1", 7, 0) for _ in range(4)]
        found = await asyncio.gather(*reads)
    assert found == [cluster.bookies["b1"].stored[7, 0]] * 4
    assert cluster.bookies["b1"].requests == [(7, 0)] * 4


@pytest.mark.parametrize("how", [Misbehaviour.SILENCE, Misbehaviour.HANGS_UP])
async def test_equal_requests_of_a_bookie_that_fails_all_fail(
    cluster: FakeCluster, how: Misbehaviour
) -> None:
    await cluster.ledger(7, PAYLOADS)
    cluster.bookies["b1"].misbehaves[7, 0] = how
    async with cluster.reading(SOON) as reading, asyncio.timeout(WITHIN_S):
        reads = [reading.bookies.read("b1", 7, 0) for _ in range(4)]
        found = await though_silent(asyncio.gather(*reads, return_exceptions=True))
    assert [type(each) for each in found] == [BookieError] * 4


@pytest.mark.parametrize("how", Misbehaviour, ids=lambda each: each.name)
async def test_the_next_bookie_is_asked_when_one_misbehaves(
    cluster: FakeCluster, how: Misbehaviour
) -> None:
    await cluster.ledger(7, PAYLOADS)
    cluster.bookies["b1"].misbehaves[7, 0] = how
    cluster.bookies["b1"].stored[7, 1] = cluster.bookies["b2"].stored[7, 1]
    async with cluster.reading(SOON if how is Misbehaviour.SILENCE else PATIENT) as reading:
        found = await though_silent(read_entry(reading.bookies, await metadata(reading), 0))
    assert found.payload == PAYLOADS[0]
    assert (7, 0) in cluster.bookies["b1"].requests
    assert (7, 0) in cluster.bookies["b2"].requests


@pytest.mark.parametrize("how", Misbehaviour, ids=lambda each: each.name)
async def test_an_entry_is_lost_only_when_all_say_so_or_have_it_damaged(
    cluster: FakeCluster, how: Misbehaviour
) -> None:
    await cluster.ledger(7, PAYLOADS)
    for name in ("b1", "b2"):
        cluster.bookies[name].misbehaves[7, 0] = how
        cluster.bookies[name].stored[7, 1] = cluster.bookies["b2"].stored[7, 1]
    async with cluster.reading(SOON if how is Misbehaviour.SILENCE else PATIENT) as reading:
        with pytest.raises(EntryUnreadable) as raised:
            await though_silent(read_entry(reading.bookies, await metadata(reading), 0))
    assert raised.value.lost == (how in {Misbehaviour.WRONG_DIGEST, Misbehaviour.WRONG_ID})
    assert "b1" in str(raised.value)
    assert "b2" in str(raised.value)


async def test_an_entry_that_no_bookie_has_is_lost(cluster: FakeCluster) -> None:
    await cluster.ledger(7, PAYLOADS)
    for each in cluster.bookies.values():
        each.stored.pop((7, 4), None)
    async with cluster.reading() as reading:
        with pytest.raises(EntryUnreadable, match="7:4 is lost") as raised:
            await read_entry(reading.bookies, await metadata(reading), 4)
    assert raised.value.lost


async def test_an_entry_on_bookies_that_are_gone_is_not_lost(cluster: FakeCluster) -> None:
    await cluster.ledger(7, PAYLOADS, segments=((0, ("gone-1", "gone-2")),))
    async with cluster.reading() as reading:
        with pytest.raises(EntryUnreadable, match="not readable now") as raised:
            await read_entry(reading.bookies, await metadata(reading), 0)
    assert not raised.value.lost


async def test_a_bookie_that_was_silent_is_asked_last(cluster: FakeCluster) -> None:
    await cluster.ledger(7, PAYLOADS)
    cluster.bookies["b1"].always = Misbehaviour.SILENCE
    async with cluster.reading(SOON) as reading:
        ledger = await metadata(reading)
        for entry in (0, 3, 6, 9):
            found = await though_silent(read_entry(reading.bookies, ledger, entry))
            assert found.payload == PAYLOADS[entry]
    assert cluster.bookies["b1"].requests == [(7, 0)]


async def test_the_bookie_that_failed_last_is_asked_last(cluster: FakeCluster) -> None:
    async with cluster.reading() as reading:
        for name in ("b2", "b1"):
            reading.bookies.avoid(name)
        assert reading.bookies.in_order(["b1", "b2", "b3"]) == ["b3", "b2", "b1"]


async def test_each_segment_is_read_from_its_own_ensemble(cluster: FakeCluster) -> None:
    segments = ((0, ("b1", "gone")), (4, ("b1", "b2")), (7, ("b3", "b2")))
    await cluster.ledger(7, PAYLOADS, segments=segments)
    async with cluster.reading() as reading:
        ledger = await metadata(reading)
        found = [await read_entry(reading.bookies, ledger, entry) for entry in range(10)]
    assert [each.payload for each in found] == PAYLOADS
    assert {entry for _, entry in cluster.bookies["b3"].requests} <= {7, 8, 9}


async def test_the_end_of_a_closed_ledger_asks_no_bookie(cluster: FakeCluster) -> None:
    await cluster.ledger(7, PAYLOADS)
    async with cluster.reading() as reading:
        end = await ledger_end(reading.bookies, await metadata(reading))
    assert end == LedgerEnd(9, 9, sum(map(len, PAYLOADS)))
    assert not any(each.requests for each in cluster.bookies.values())


async def test_bookies_that_all_failed_lately_are_asked_for_the_end_again(
    cluster: FakeCluster,
) -> None:
    await cluster.ledger(7, PAYLOADS, open_=True)
    async with cluster.reading() as reading:
        ledger = await metadata(reading)
        first, *others = dict.fromkeys(ledger.bookies())
        for name in others:
            reading.bookies.avoid(name)
        await ledger_end(reading.bookies, ledger)
        assert [name for name, each in cluster.bookies.items() if each.requests] == [first]
        reading.bookies.avoid(first)
        assert (await ledger_end(reading.bookies, ledger)).last_stored == 9
        assert {name for name, each in cluster.bookies.items() if each.requests} >= {first, *others}


async def test_the_end_of_an_open_ledger_is_what_bookies_have(cluster: FakeCluster) -> None:
    await cluster.ledger(7, PAYLOADS, open_=True)
    async with cluster.reading() as reading:
        end = await ledger_end(reading.bookies, await metadata(reading))
    assert end == LedgerEnd(9, 8, sum(map(len, PAYLOADS)))


async def test_an_open_ledger_without_entries_has_none(cluster: FakeCluster) -> None:
    await cluster.ledger(7, [], open_=True)
    async with cluster.reading() as reading:
        end = await ledger_end(reading.bookies, await metadata(reading))
    assert end == LedgerEnd(-1, -1, 0)


async def test_a_segment_without_entries_ends_where_the_one_before_did(
    cluster: FakeCluster,
) -> None:
    segments = ((0, ("b1", "b2")), (10, ("b3", "b2")))
    await cluster.ledger(7, PAYLOADS, segments=segments, open_=True)
    async with cluster.reading() as reading:
        end = await ledger_end(reading.bookies, await metadata(reading))
    assert end == LedgerEnd(9, 9, sum(map(len, PAYLOADS)))
    # None of the bookies that are written to now has the last entry of those before.
    segments = ((0, ("b1", "b2", "b3")), (10, ("b3", "gone-1", "gone-2")))
    await cluster.ledger(7, PAYLOADS, segments=segments, open_=True)
    cluster.bookies["b3"].stored.pop((7, 9), None)
    async with cluster.reading() as reading:
        end = await ledger_end(reading.bookies, await metadata(reading))
    assert end == LedgerEnd(9, 9, sum(map(len, PAYLOADS)))


async def test_the_end_is_taken_from_those_that_answer(cluster: FakeCluster) -> None:
    await cluster.ledger(7, PAYLOADS, open_=True)
    cluster.bookies["b1"].always = Misbehaviour.SILENCE
    cluster.bookies["b2"].always = Misbehaviour.WRONG_DIGEST
    async with cluster.reading(SOON) as reading:
        end = await though_silent(ledger_end(reading.bookies, await metadata(reading)))
    assert (end.last_stored, end.last_confirmed) == (8, 7), "what b3 has; 9 is on the other two"


async def test_an_open_ledger_of_which_no_bookie_answers_has_no_known_end(
    cluster: FakeCluster,
) -> None:
    await cluster.ledger(7, PAYLOADS, segments=((0, ("b1", "gone")),), open_=True)
    cluster.bookies["b1"].always = Misbehaviour.HANGS_UP
    async with cluster.reading() as reading:
        with pytest.raises(EntryUnreadable, match=r"b1.*gone"):
            await ledger_end(reading.bookies, await metadata(reading))


@pytest.mark.parametrize(
    ("registered", "why"),
    [
        ({}, "it is gone"),
        ({"b": RegisteredBookie("b", BookieState.READ_WRITE, "", 0)}, "does not say where"),
    ],
)
async def test_a_bookie_without_an_address_is_not_connected_to(
    registered: dict[str, RegisteredBookie], why: str
) -> None:
    with pytest.raises(BookieError, match=why):
        await Bookies(registered, PATIENT).read("b", 7, 0)


class Heard:
    """What became of requests: the entries that were asked for."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.errors: dict[int, str] = {}

    def answered(self, _: str, answers: Sequence[bookie_frames.BookieAnswer]) -> None:
        self.answers += [each.entry for each in answers]

    def unanswered(self, _: str, request: bookie_frames.BookieRequest, error: BookieError) -> None:
        self.errors[request.entry] = str(error)


async def test_a_client_that_is_closed_goes_on_connecting_to_no_bookie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()

    async def connect_without_end(*_: object) -> None:
        await loop.create_future()

    monkeypatch.setattr(loop, "create_connection", connect_without_end)
    here = RegisteredBookie("b", BookieState.READ_WRITE, "127.0.0.1", 3181)
    bookies, before = Bookies({"b": here}, PATIENT), asyncio.all_tasks()
    bookies.send("b", [bookie_frames.read_request(7, 0)], Heard())
    await asyncio.sleep(0)
    bookies.close()
    (connecting,) = asyncio.all_tasks() - before
    await asyncio.wait([connecting], timeout=WITHIN_S)
    assert connecting.cancelled()


class Wire(asyncio.Transport):
    """A connection to a bookie that says what a test has it say."""

    def writelines(self, _: object) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass


@on_jumping_loop
async def test_silence_is_noticed_in_time_whatever_was_answered_before() -> None:
    connection, heard = BookieConnection("b", bookie_frames.FRAME_MAX, timeout_s=10.0), Heard()
    connection.connection_made(Wire())
    for entry in range(3):
        request = bookie_frames.read_request(7, entry)
        connection.send([request], heard)
        await pass_time(4)
        if entry < 2:
            connection.data_received(BookieDisk().answer(request.frame[4:]))
    await pass_time(5.9)
    assert (heard.answers, heard.errors) == ([0, 1], {})
    await pass_time(0.2)
    assert heard.errors == {2: "bookie b: no answer within 10 s"}


class Answers:
    """Bookies of which each answers a read as a test has it, or never; and how they are avoided."""

    def __init__(self, **answers: bytes | BookieError | None) -> None:
        self.answers = answers
        self.options = BookieReadOptions(speculative_s=0.01)
        self.avoided: list[str] = []
        self.asked: list[str] = []

    async def read(self, bookie: str, ledger: int, entry: int) -> bytes:
        self.asked.append(bookie)
        answer = self.answers[bookie]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, BookieError):
            raise answer
        return answer or b""

    def in_order(self, bookies: Sequence[str]) -> list[str]:
        return list(bookies)

    def is_avoided(self, bookie: str) -> bool:
        return bookie in self.avoided

    def avoid(self, bookie: str) -> None:
        self.avoided.append(bookie)


def on(*bookies: str) -> LedgerMetadata:
    """An open ledger whose entries are on all of these."""
    value = metadata_bytes(((0, bookies),), (len(bookies), 1))
    return read_ledger_metadata(7, "/ledgers/00/0000/L0007", value)


@pytest.mark.parametrize("order", [("b1", "b2"), ("b2", "b1")])
async def test_an_entry_that_one_bookie_may_have_is_not_lost_whichever_answers_last(
    order: tuple[str, str],
) -> None:
    bookies = Answers(b1=BookieError("b1", "no connection"), b2=MissingEntry("b2", "no such entry"))
    with pytest.raises(EntryUnreadable) as raised:
        await read_entry(bookies, on(*order), 0)  # type: ignore[arg-type]
    assert not raised.value.lost


async def test_a_slow_bookie_is_left_once_another_has_answered() -> None:
    bookies = Answers(b1=None, b2=stored_entry(7, 0, -1, 1, b"x"))
    found = await read_entry(bookies, on("b1", "b2"), 0)  # type: ignore[arg-type]
    assert (found.payload, bookies.avoided) == (b"x", ["b1"])
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}, "it is still being read from b1"


async def test_a_bookie_that_does_not_say_its_last_entry_is_avoided() -> None:
    bookies = Answers(b1=None, b2=stored_entry(7, 4, 3, 5, b"x"))
    end = await ledger_end(bookies, on("b1", "b2"))  # type: ignore[arg-type]
    assert (end, bookies.avoided) == (LedgerEnd(4, 3, 5), ["b1"])
    bookies.asked.clear()
    await ledger_end(bookies, on("b1", "b2"))  # type: ignore[arg-type]
    assert bookies.asked == ["b2"]


async def test_a_bookie_that_fails_is_avoided_and_closing_ends_what_is_asked(
    cluster: FakeCluster,
) -> None:
    await cluster.ledger(7, PAYLOADS)
    cluster.bookies["b1"].always = Misbehaviour.HANGS_UP
    cluster.bookies["b2"].always = Misbehaviour.SILENCE
    async with cluster.reading() as reading, asyncio.timeout(WITHIN_S):
        bookies = reading.bookies
        with pytest.raises(BookieError):
            await bookies.read("b1", 7, 0)
        assert bookies.in_order(["b1", "b2", "b3"]) == ["b2", "b3", "b1"]
        waiting = asyncio.ensure_future(bookies.read("b2", 7, 1))
        await until(lambda: cluster.bookies["b2"].requests, "it was asked")
        bookies.close()
        with pytest.raises(BookieError, match="b2: closed"):
            await waiting


@on_jumping_loop
async def test_a_bookie_is_avoided_for_as_long_as_is_set() -> None:
    bookies = Bookies({}, BookieReadOptions(avoided_s=60.0, reconnect_s=1.0))
    bookies.avoid("b1")
    await pass_time(59.0)
    assert bookies.is_avoided("b1")
    await pass_time(2.0)
    assert not bookies.is_avoided("b1")


async def test_a_refused_connection_is_said_once_with_its_own_reason() -> None:
    port = free_ports()
    registered = {"b1": RegisteredBookie("b1", BookieState.READ_WRITE, "127.0.0.1", port)}
    bookies = Bookies(registered, PATIENT)
    with pytest.raises(BookieError) as raised:
        await bookies.read("b1", 7, 0)
    assert f"127.0.0.1:{port}: " in str(raised.value)
    assert "no connection within" not in str(raised.value)


async def test_a_bookie_that_changes_over_counts_as_read_only() -> None:
    """It is in both places for a moment."""
    store = MemoryTree().open()
    for path in ("b1", "readonly/b1", "b2", "readonly/b3"):
        await store.put(f"/ledgers/available/{path}", b"")
    await store.put("/ledgers/cookies/b4", b"")
    registry = await read_registry(store, "/ledgers")
    assert {each: registry.state_of(each) for each in ("b1", "b2", "b3", "b4")} == {
        "b1": BookieState.READ_ONLY,
        "b2": BookieState.READ_WRITE,
        "b3": BookieState.READ_ONLY,
        "b4": BookieState.GONE,
    }
    assert registry.known == {"b4"}


@pytest.mark.parametrize(
    ("layout", "read"),
    [
        (b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1", True),
        (b"1\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1", False),
        (b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1", False),
    ],
)
async def test_only_the_layout_of_pulsars_clusters_is_read(layout: bytes, read: bool) -> None:
    store = MemoryTree().open()
    with pytest.raises(NotThisCluster, match="has no /ledgers"):
        await check_layout(store, "/ledgers")
    await store.put("/ledgers/LAYOUT", layout)
    if read:
        await check_layout(store, "/ledgers")
        return
    with pytest.raises(NotThisCluster, match="layout 2, is read"):
        await check_layout(store, "/ledgers")
