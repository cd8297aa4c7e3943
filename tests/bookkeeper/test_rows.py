"""Rows about ledgers, entries and cursors: every figure in its own column, and what is missing."""

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace

import pytest

from counterpoise.bookkeeper import space
from counterpoise.bookkeeper.broker_metadata import entry_begin
from counterpoise.bookkeeper.compression import UNPACKED_MAX, unpack
from counterpoise.bookkeeper.cursors import (
    NO_LEDGER,
    CursorNode,
    CursorPositions,
    EntryCount,
    write_positions,
)
from counterpoise.bookkeeper.entry_rows import EntryChoice, EntryRow, entry_rows
from counterpoise.bookkeeper.ledger_metadata import (
    DigestType,
    LedgerMetadata,
    LedgerSegment,
    LedgerState,
)
from counterpoise.bookkeeper.ledger_reading import LedgerEnd
from counterpoise.bookkeeper.ledger_rows import date, ledger_row
from counterpoise.bookkeeper.managed_ledgers import managed_ledger_names
from counterpoise.bookkeeper.messages import NOT_BATCHED, decode_entry
from counterpoise.bookkeeper.replication import bookie_rows, copies_left, replication_rows
from counterpoise.metadata import MemoryTree
from counterpoise.names.position import Position
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata, SingleMessageMetadata
from tests.bookkeeper.fake_cluster import FakeCluster, of_topic, state_entry

TOPIC = "t/n/persistent/x"
LEDGER = LedgerMetadata(
    7,
    LedgerState.IN_RECOVERY,
    3,
    2,
    0,
    -1,
    (LedgerSegment(0, ("b", "a", "c", "d")), LedgerSegment(5, ("b", "a", "c", "e"))),
    DigestType.CRC32C,
    b"",
    1_600_000_000_123,
    {"application": b"pulsar", "component": b"schema", "pulsar/schemaId": b"t/n/x"},
)


def test_a_ledgers_row() -> None:
    row = ledger_row(LEDGER, LedgerEnd(last_stored=9, last_confirmed=6, length=100), "offloaded")
    assert (row.ledger, row.kind, row.topic, row.state) == (
        7,
        "schema",
        "persistent://t/n/x",
        "in recovery",
    )
    assert (row.entries, row.unconfirmed, row.bytes, row.stored_bytes) == (10, 3, 100, 300)
    assert (row.quorums, row.segments, row.bookies) == ("4/3/2", 2, "a,b,c,d,e")
    assert (row.created, row.note) == ("2020-09-13T12:26:40.123Z", "offloaded")
    unknown = ledger_row(LEDGER, "no answer", "offloaded")
    assert (unknown.entries, unknown.bytes, unknown.stored_bytes) == (-1, -1, -1)
    assert unknown.note == "offloaded; no answer"


@pytest.mark.parametrize(("ms", "text"), [(0, ""), (1, "1970-01-01T00:00:00.001Z")])
def test_a_time_is_written_to_its_millisecond(ms: int, text: str) -> None:
    assert date(ms) == text
    assert date(10**18) == f"{10**18} ms"


def entry(
    *messages: SingleMessageMetadata | bytes, body: bytes | None = None, **more: object
) -> bytes:
    """A producer's entry of one message, or of a batch of these."""
    metadata = MessageMetadata(
        producer_name="p", sequence_id=40, publish_time=1_600_000_000_000, event_time=5, **more
    )
    if messages and not isinstance(messages[0], bytes):
        parts = []
        for number, each in enumerate(messages):
            assert isinstance(each, SingleMessageMetadata)
            payload = b"m%d" % number
            each.payload_size = len(payload)
            head = each.SerializeToString()
            parts.append(struct.pack(">I", len(head)) + head + payload)
        metadata.num_messages_in_batch = len(messages)
        body = b"".join(parts)
    head = metadata.SerializeToString()
    return struct.pack(">I", len(head)) + head + (body or b"")


def test_a_batch_is_its_messages_each_with_its_own_figures() -> None:
    first = SingleMessageMetadata(event_time=11, sequence_id=99, partition_key="k")
    first.properties.add(key="a", value="b")
    found = decode_entry(entry(first, SingleMessageMetadata(compacted_out=True)))
    assert [(each.batch_index, each.batch_size, each.payload, each.size) for each in found] == [
        (0, 2, b"m0", 2),
        (1, 2, b"m1", 2),
    ]
    assert [(each.sequence_id, each.event_ms, each.key) for each in found] == [
        (99, 11, "k"),
        (41, 0, ""),
    ]
    assert [each.publish_ms for each in found] == [1_600_000_000_000] * 2
    assert (found[0].properties, found[1].note) == ((("a", "b"),), "compacted out")


def test_the_last_message_of_a_batch_may_be_empty() -> None:
    head = SingleMessageMetadata(payload_size=0, partition_key="k").SerializeToString()
    body = struct.pack(">I", len(head)) + head
    [found] = decode_entry(entry(body=body, num_messages_in_batch=1))
    assert (found.batch_index, found.payload, found.key, found.note) == (0, b"", "k", "")


def test_a_single_message_says_what_else_there_is_to_it() -> None:
    chunk = entry(body=b"part", num_chunks_from_msg=3, chunk_id=1, deliver_at_time=9)
    [found] = decode_entry(chunk)
    assert (found.batch_index, found.event_ms, found.payload) == (NOT_BATCHED, 5, b"part")
    assert found.note == "chunk 2 of 3; delayed"
    [found] = decode_entry(entry(body=b"x", txnid_least_bits=7, txnid_most_bits=2, marker_type=1))
    assert found.note == "marker 1; transaction 2:7"


def test_an_encrypted_batch_is_left_as_it_is() -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    metadata.encryption_keys.add(key="k", value=b"v")
    metadata.num_messages_in_batch = 3
    head = metadata.SerializeToString()
    [found] = decode_entry(struct.pack(">I", len(head)) + head + b"secret")
    assert (found.payload, found.batch_size, found.note) == (b"secret", 3, "encrypted")


def test_a_checksum_that_does_not_match_is_noted_and_the_message_shown() -> None:
    plain = entry(body=b"x")
    [found] = decode_entry(b"\x0e\x01" + struct.pack(">I", 1) + plain)
    assert (found.payload, found.note) == (b"x", "its checksum does not match")


@pytest.mark.parametrize(
    ("payload", "begin"),
    [(b"x", 0), (b"\x0e\x02\0\0\0\x03abcrest", 9), (b"\x0e\x02\0\0\x01\0", 262)],
)
def test_where_the_producers_entry_begins(payload: bytes, begin: int) -> None:
    assert entry_begin(payload) == begin


@pytest.mark.parametrize("size", [9, 11])
def test_data_of_another_size_than_announced_is_refused(size: int) -> None:
    packed = zlib.compress(b"x" * 10)
    assert unpack("ZLIB", packed, 10) == b"x" * 10
    with pytest.raises(ValueError, match=rf"ZLIB data of \d+ bytes, not {size}"):
        unpack("ZLIB", packed, size)


def test_no_more_is_unpacked_than_is_allowed_whatever_a_header_says() -> None:
    assert unpack("NONE", b"x", UNPACKED_MAX) == b"x"
    for size in (UNPACKED_MAX + 1, -1):
        with pytest.raises(ValueError, match=f"{size} bytes of compressed data, at most 67108864"):
            unpack("NONE", b"x", size)


async def rows_of(
    cluster: FakeCluster, ledgers: Sequence[int], choice: EntryChoice | None = None
) -> list[EntryRow]:
    async with cluster.reading() as reading:
        return [
            row
            async for rows in entry_rows(reading, ledgers, choice or EntryChoice())
            for row in rows
        ]


async def test_an_entry_that_is_no_message_says_what_its_ledger_is_for() -> None:
    schema = {"application": "pulsar", "component": "schema", "pulsar/schemaId": "t/n/x"}
    async with FakeCluster().serve() as cluster:
        await cluster.ledger(1, [b"?"], custom=schema)
        await cluster.ledger(2, [b"?"])
        named, unnamed = await rows_of(cluster, (1, 2))
    assert named.note == "no message: schema"
    assert unnamed.note.startswith("no message: ")
    assert unnamed.note != "no message: "
    assert not named.unreadable


async def test_a_ledger_without_entries_takes_no_space_on_its_bookies() -> None:
    async with FakeCluster().serve() as cluster:
        await cluster.ledger(1, [])
        await cluster.ledger(2, [], open_=True)
        async with cluster.reading() as reading:
            found = await bookie_rows(reading)
    assert [(row.ledgers, row.open_ledgers, row.stored_bytes) for row in found] == [(2, 1, 0)] * 3


async def test_entries_are_shown_from_a_position_on() -> None:
    async with FakeCluster().serve() as cluster:
        for number in (1, 2, 3):
            await cluster.ledger(number, [entry(body=b"x")] * 3, custom=of_topic(TOPIC))
        found = await rows_of(cluster, (1, 2, 3), EntryChoice(Position(2, 1)))
        assert [(row.ledger, row.entry) for row in found] == [
            (2, 1),
            (2, 2),
            (3, 0),
            (3, 1),
            (3, 2),
        ]


async def test_an_entrys_row_has_its_times_and_says_what_is_not_certain() -> None:
    async with FakeCluster().serve() as cluster:
        await cluster.ledger(1, [entry(body=b"x")] * 2, custom=of_topic(TOPIC), open_=True)
        await cluster.put("/ledgers/00/0000/L0004", b"damaged")
        found = await rows_of(cluster, (1, 4, 9), EntryChoice(with_payload=True))
    assert [(row.entry, row.unconfirmed, row.unreadable) for row in found] == [
        (0, False, False),
        (1, True, False),
        (-1, False, True),
        (-1, False, True),
    ]
    assert (found[0].published, found[0].event_time) == (
        "2020-09-13T12:26:40.000Z",
        "1970-01-01T00:00:00.005Z",
    )
    assert (found[0].bytes, base64.b64decode(found[0].payload)) == (1, b"x")
    assert "L0004: not a ledger's metadata" in found[2].note
    assert found[3].note == "BookKeeper has no such ledger"


async def test_a_cursors_entry_is_shown_as_its_state() -> None:
    async with FakeCluster().serve() as cluster:
        state = state_entry(Position(5, 7), ranges=[(Position(5, 8), Position(5, 9))])
        held = write_positions(CursorPositions(Position(5, 6), bits=((5, (0b0110,)), (6, (1,)))))
        states = [state, state_entry(Position(5, 8)), held]
        await cluster.ledger(1, states, custom=of_topic(TOPIC, "s"))
        found = await rows_of(cluster, (1,))
    assert [row.note for row in found] == [
        "acknowledged up to 5:7, 1 ranges beyond it",
        "acknowledged up to 5:8",
        "acknowledged up to 5:6, 2 ranges beyond it",
    ]


def test_what_is_acknowledged_beyond_is_in_order_whichever_way_it_is_stored() -> None:
    bits = ((3, (0b0110,)),)
    found = CursorPositions(
        Position(1, 0), ((Position(5, 1), Position(5, 3)), (Position(4, -1), Position(4, 0))), bits
    ).acknowledged
    assert found == (
        (Position(3, 1), Position(3, 2)),
        (Position(4, 0), Position(4, 0)),
        (Position(5, 2), Position(5, 3)),
    )


def test_only_numbers_name_ledgers_of_delayed_messages() -> None:
    bucket = "#pulsar.internal.delayed.bucket"
    texts = ((f"{bucket}_1", "6"), (f"{bucket}_2", "-7"), (f"{bucket}_3", "\u00b2"), ("own", "8"))
    node = CursorNode("s", NO_LEDGER, CursorPositions(Position(1, 0)), texts)
    assert node.delayed_ledgers == [6]


def test_a_backlog_is_never_less_than_nothing() -> None:
    """A range that is listed twice counts twice."""
    twice = ((Position(1, 0), Position(1, 2)),) * 2
    assert EntryCount([(1, 3)]).backlog(CursorPositions(Position(1, 0), twice)) == 0


async def test_a_namespace_may_be_called_persistent() -> None:
    store = MemoryTree().open()
    for name in ("t/persistent/persistent/x", "t/n/persistent/y", "t/c/n/persistent/z"):
        await store.put(f"/managed-ledgers/{name}", b"")
    found = [name async for names in managed_ledger_names(store) for name in names]
    assert sorted(found) == ["t/c/n/persistent/z", "t/n/persistent/y", "t/persistent/persistent/x"]


def test_of_an_open_ledger_every_place_may_have_entries() -> None:
    """Six entries are known of the last ensemble, and its seventh write set has lost two."""
    closed = replace(LEDGER, state=LedgerState.CLOSED, last_entry=4)
    assert copies_left(LEDGER, {"e"}) == 2
    assert copies_left(closed, {"e"}) == 3, "no entry was written to that ensemble"


async def test_a_mark_that_cannot_be_read_is_a_mark() -> None:
    async with FakeCluster().serve() as cluster:
        cut = b"ctime: 1600000000123\nreplica: 'b1'\nreplica: "
        whole = b"ctime: 1600000000123\nreplica: 'b3'"
        for number, mark in ((3, b"\xff"), (4, whole), (5, cut)):
            await cluster.ledger(number, [b"x"])
            path = f"/ledgers/underreplication/ledgers/0000/0000/0000/{number:04d}/urL{number:010d}"
            await cluster.put(path, mark)
        async with cluster.reading() as reading:
            found = [row async for rows in replication_rows(reading) for row in rows]
    assert [(row.ledger, row.marked_since, row.missing_on) for row in found] == [
        (3, "yes", ""),
        (4, "2020-09-13T12:26:40.123Z", "b3"),
        (5, "yes", ""),
    ]


def test_a_ledger_of_unknown_size_is_counted_and_adds_nothing() -> None:
    row = space.SpaceRow("t")
    row.add(LEDGER, LedgerEnd(9, 9, 100))
    row.add(LEDGER, "no answer")
    assert (row.ledgers, row.open_ledgers, row.unknown) == (2, 2, 1)
    assert (row.entries, row.bytes, row.stored_bytes) == (10, 100, 300)


SPACES = {
    space.BY_KIND: [("pulsar messages", 11, 1), ("pulsar cursor", 9, 0), ("(unknown)", 5, 0)],
    space.BY_TOPIC: [
        ("persistent://t/n/x", 11, 0),
        ("persistent://t/m/y", 9, 0),
        ("(unknown)", 5, 0),
        ("persistent://u/n/z", 0, 1),
    ],
    space.BY_NAMESPACE: [("t/n", 11, 0), ("t/m", 9, 0), ("(unknown)", 5, 0), ("u/n", 0, 1)],
    space.BY_TENANT: [("t", 20, 0), ("(unknown)", 5, 0), ("u", 0, 1)],
}


@pytest.mark.parametrize("by", SPACES)
async def test_the_largest_comes_first_by_whatever_is_asked_for(by: str) -> None:
    """Where bookies are not asked the size of what is open alone is not known."""
    async with FakeCluster().serve() as cluster:
        await cluster.ledger(1, [b"x"] * 11, custom=of_topic(TOPIC))
        await cluster.ledger(2, [b"x"] * 9, custom=of_topic("t/m/persistent/y", "s"))
        await cluster.ledger(3, [b"x"] * 5)
        await cluster.ledger(4, [b"x"] * 50, custom=of_topic("u/n/persistent/z"), open_=True)
        async with cluster.reading() as reading:
            reading.ask_bookies = False
            found = await space.space_rows(reading, by)
    assert [(row.name, row.bytes, row.unknown) for row in found] == SPACES[by]
