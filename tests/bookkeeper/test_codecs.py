"""Bytes of the metadata store and of bookies: what is right is read, all else is named."""

import contextlib
import struct
import zlib
from dataclasses import replace

import pytest
from google.protobuf import text_format
from hypothesis import example, given
from hypothesis import strategies as st

from counterpoise.bookkeeper.bookie_frames import (
    AnswerDecoder,
    BadFrame,
    BookieAnswer,
    read_request,
)
from counterpoise.bookkeeper.bookie_registry import address
from counterpoise.bookkeeper.errors import BadStoredEntry, UnreadableNode
from counterpoise.bookkeeper.ledger_metadata import (
    DigestType,
    LedgerMetadata,
    LedgerState,
    read_ledger_metadata,
    write_ledger_metadata,
)
from counterpoise.bookkeeper.ledger_owners import ledger_owner
from counterpoise.bookkeeper.ledger_paths import SHORT_IDS, ledger_at, ledger_path
from counterpoise.bookkeeper.managed_ledgers import parse_managed_ledger, topic_of
from counterpoise.bookkeeper.proto import ledgers_pb2, managed_pb2
from counterpoise.bookkeeper.stored_entry import EntryDigest, StoredEntry
from tests.bookkeeper.fake_cluster import LONG_AGO, crc32c, metadata_bytes, of_topic, stored_entry

IDS = st.integers(0, 2**63 - 1) | st.integers(SHORT_IDS - 2, SHORT_IDS + 2)
TWO_SEGMENTS = ((0, ("a:1", "b:1", "c:1")), (17, ("a:1", "d:1", "c:1")))
LEDGER = metadata_bytes(
    TWO_SEGMENTS, (2, 2), last=20, length=900, custom=of_topic("t/n/persistent/x")
)


def read(value: bytes) -> LedgerMetadata:
    return read_ledger_metadata(5, "/ledgers/00/0000/L0005", value)


@given(IDS)
def test_a_path_and_its_ledger(ledger: int) -> None:
    assert ledger_at("/ledgers", ledger_path("/ledgers", ledger)) == ledger


@pytest.mark.parametrize(
    ("ledger", "path"),
    [
        (1, "/ledgers/00/0000/L0001"),
        (123456789, "/ledgers/01/2345/L6789"),
        (2**31 - 2, "/ledgers/21/4748/L3646"),
        (2**31 - 1, "/ledgers/000/0000/0021/4748/L3647"),
        (2**63 - 1, "/ledgers/922/3372/0368/5477/L5807"),
    ],
)
def test_where_java_puts_a_ledger(ledger: int, path: str) -> None:
    assert ledger_path("/ledgers", ledger) == path


@pytest.mark.parametrize(
    "path",
    [
        "/ledgers/LAYOUT",
        "/ledgers/00/0000",
        "/ledgers/000/0000/0000/0000/L0001",  # a short id at a long path
        "/ledgers/99/9999/L9999",  # a long id at a short path
        "/ledgers/cookies/127.0.0.1:3181",
    ],
)
def test_other_nodes_are_no_ledgers(path: str) -> None:
    assert ledger_at("/ledgers", path) is None


def test_metadata_of_format_3() -> None:
    found = read(LEDGER)
    assert (found.state, found.last_entry, found.length) == (LedgerState.CLOSED, 20, 900)
    assert (found.ensemble_size, found.write_quorum, found.ack_quorum) == (3, 2, 2)
    assert (found.digest, found.created_ms) == (DigestType.CRC32C, LONG_AGO)
    assert found.write_set(0) == ("a:1", "b:1")
    assert found.write_set(16) == ("b:1", "c:1")
    assert found.write_set(17) == ("c:1", "a:1")
    assert found.write_set(18) == ("a:1", "d:1")
    assert found.bookies() == ("a:1", "b:1", "c:1", "d:1")
    assert [entries for _, entries in found.spans(20)] == [17, 4]
    assert [entries for _, entries in found.spans(3)] == [4, 0]
    assert ledger_owner(found.custom).topic == "persistent://t/n/x"


@pytest.mark.parametrize("version", [b"1", b"4", b"30"])
def test_metadata_of_a_format_that_is_not_known_is_refused(version: bytes) -> None:
    other = LEDGER.replace(b"Version\t3", b"Version\t" + version)
    with pytest.raises(UnreadableNode, match=f"format {version.decode()} of a ledger's metadata"):
        read(other)


def test_metadata_of_format_2_is_the_same_message_as_text() -> None:
    message = ledgers_pb2.LedgerMetadataFormat()
    message.ParseFromString(LEDGER.partition(b"\n")[2][2:])
    text = text_format.MessageToString(message).encode()
    assert read(b"BookieMetadataFormatVersion\t2\n" + text) == read(LEDGER)


@given(st.integers(0, len(LEDGER) - 1))
def test_metadata_that_is_cut_off_is_named(size: int) -> None:
    with pytest.raises(UnreadableNode, match="/ledgers/00/0000/L0005"):
        read(LEDGER[:size])


@given(st.binary(max_size=60), st.sampled_from([b"2", b"3"]), st.integers(0, 200), st.integers())
@example(b"\xff" * 12, b"3", 0, 0)
def test_hostile_metadata_is_named(junk: bytes, version: bytes, at: int, bit: int) -> None:
    """Junk, and the right bytes with one changed: read as something whole, or refused."""
    changed = bytearray(LEDGER)
    changed[at % len(changed)] ^= 1 << bit % 8
    for value in (b"BookieMetadataFormatVersion\t" + version + b"\n" + junk, bytes(changed), junk):
        try:
            found = read(value)
        except UnreadableNode:
            continue
        assert len(found.write_set(10**15)) == found.write_quorum
        assert found.last_entry >= -1


@pytest.mark.parametrize(
    ("segments", "quorums"),
    [
        (((0, ("a", "b")),), (3, 2)),
        (((0, ("a", "b")),), (1, 2)),
        (((0, ("a", "b")), (0, ("a", "c"))), (2, 2)),
        (((3, ("a", "b")),), (2, 2)),
        (((0, ("a", "b")), (5, ("a",))), (2, 2)),
        (((0, ()),), (0, 0)),
    ],
)
def test_metadata_that_no_reader_can_rely_on_is_refused(
    segments: tuple[tuple[int, tuple[str, ...]], ...], quorums: tuple[int, int]
) -> None:
    with pytest.raises(UnreadableNode):
        read(metadata_bytes(segments, quorums))


def test_the_digest_of_metadata_without_a_password_is_the_default_of_brokers() -> None:
    """Java takes both from its own settings then."""
    message = ledgers_pb2.LedgerMetadataFormat()
    message.ParseFromString(LEDGER.partition(b"\n")[2][2:])
    message.digestType = ledgers_pb2.LedgerMetadataFormat.CRC32
    text = text_format.MessageToString(message).encode()
    assert read(b"BookieMetadataFormatVersion\t2\n" + text).digest is DigestType.CRC32
    message.ClearField("password")
    text = text_format.MessageToString(message).encode()
    assert read(b"BookieMetadataFormatVersion\t2\n" + text).digest is DigestType.CRC32C


def test_no_end_is_written_of_an_open_ledger() -> None:
    closed = read(LEDGER)
    assert read(write_ledger_metadata(closed)) == closed
    written = write_ledger_metadata(replace(closed, state=LedgerState.OPEN))
    message = ledgers_pb2.LedgerMetadataFormat()
    message.ParseFromString(written.partition(b"\n")[2][2:])
    assert (message.length, message.lastEntryId) == (0, -1)


def test_an_open_ledgers_length_does_not_count() -> None:
    message = ledgers_pb2.LedgerMetadataFormat()
    message.ParseFromString(LEDGER.partition(b"\n")[2][2:])
    message.state = ledgers_pb2.LedgerMetadataFormat.OPEN
    text = text_format.MessageToString(message).encode()
    found = read(b"BookieMetadataFormatVersion\t2\n" + text)
    assert (found.closed, found.length, found.last_entry) == (False, 0, -1)


STORED = stored_entry(7, 3, 2, 5, b"hello")


def test_a_stored_entry() -> None:
    digest = EntryDigest(DigestType.CRC32C)
    assert digest.open(7, 3, STORED) == StoredEntry(7, 3, 2, 5, b"hello")
    assert digest.open(7, None, STORED).entry == 3
    assert stored_entry(7, 0, -1, 5, b"hello")[32:36].hex() == "9e3e717b"


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        (DigestType.CRC32, "00000000" + f"{zlib.crc32(b'headerpayload'):08x}"),
        (DigestType.CRC32C, f"{crc32c(b'headerpayload'):08x}"),
        (DigestType.DUMMY, ""),
    ],
)
def test_digests_are_over_header_and_payload(kind: DigestType, digest: str) -> None:
    assert EntryDigest(kind).of(b"header", b"payload").hex() == digest


@given(st.integers(0, 8 * len(STORED) - 1))
def test_one_bit_anywhere_breaks_the_digest(bit: int) -> None:
    changed = bytearray(STORED)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadStoredEntry, match="digest"):
        EntryDigest(DigestType.CRC32C).open(7, 3, bytes(changed))


@given(st.integers(0, len(STORED) - 1))
def test_a_stored_entry_that_is_cut_off(size: int) -> None:
    with pytest.raises(BadStoredEntry):
        EntryDigest(DigestType.CRC32C).open(7, 3, STORED[:size])


@pytest.mark.parametrize(("ledger", "entry"), [(7, 4), (8, 3)])
def test_an_entry_of_another_place_is_refused(ledger: int, entry: int) -> None:
    with pytest.raises(BadStoredEntry, match="it is entry 7:3"):
        EntryDigest(DigestType.CRC32C).open(ledger, entry, STORED)


def test_a_request_has_no_flag() -> None:
    assert read_request(7, -1).frame.hex() == "00000014020200000000000000000007" + "ff" * 8


def frame(code: int, ledger: int, entry: int, stored: bytes = b"") -> bytes:
    body = struct.pack(">BBHiqq", 2, 2, 0, code, ledger, entry) + stored
    return struct.pack(">i", len(body)) + body


@given(
    st.lists(st.tuples(st.integers(0, 107), st.integers(0, 9), st.binary(max_size=40)), max_size=6),
    st.lists(st.integers(1, 30)),
)
def test_answers_come_out_however_they_are_cut(
    answers: list[tuple[int, int, bytes]], cuts: list[int]
) -> None:
    data = b"".join(frame(code, 7, entry, stored) for code, entry, stored in answers)
    decoder = AnswerDecoder()
    found: list[BookieAnswer] = []
    for cut in cuts:
        found += decoder.receive(data[:cut])
        data = data[cut:]
    found += decoder.receive(data)
    assert found == [BookieAnswer(2, code, 7, entry, stored) for code, entry, stored in answers]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1, "it has no such ledger"),
        (2, "it has no such entry"),
        (100, "it refused the request (100)"),
        (101, "it could not read or write its disk (101)"),
        (103, "it does not speak version 2 of the protocol (103)"),
        (104, "the ledger is fenced (104)"),
        (105, "it is read-only (105)"),
        (106, "it has too many requests (106)"),
        (107, "it does not know the ledger's state (107)"),
        (999, "it answered 999"),
    ],
)
def test_what_a_bookie_answers_is_said_in_words(code: int, reason: str) -> None:
    [answer] = AnswerDecoder().receive(frame(code, 7, 3))
    assert answer.reason == reason


def test_the_largest_frame_is_taken_and_one_of_another_operation_is_not() -> None:
    stored = b"x" * (1000 - 24)
    assert AnswerDecoder(1000).receive(frame(0, 7, 3, stored))[0].stored == stored
    assert AnswerDecoder().receive(struct.pack(">i", 5 * 1024 * 1024 + 10 * 1024)) == []
    with pytest.raises(BadFrame, match="an answer of version 2 to operation 3"):
        AnswerDecoder().receive(struct.pack(">iBBHiqq", 24, 2, 3, 0, 0, 7, 3))


@pytest.mark.parametrize("size", [-1, 0, 23, 1001, 5 * 1024 * 1024, 2**31 - 1])
def test_a_frame_of_a_size_that_none_has_ends_the_connection(size: int) -> None:
    with pytest.raises(BadFrame, match="nettyMaxFrameSizeBytes"):
        AnswerDecoder(1000).receive(struct.pack(">i", size))


def test_where_bookies_listen() -> None:
    info = ledgers_pb2.BookieServiceInfoFormat()
    info.endpoints.add(id="http", port=8000, host="h", protocol="http")
    info.endpoints.add(id="bookie", port=3181, host="10.0.0.1", protocol="bookie-rpc")
    assert address("any-id", info.SerializeToString()) == ("10.0.0.1", 3181)
    assert address("old-host:3182", b"") == ("old-host", 3182)
    assert address("any-id", b"") == ("", 0)
    assert address("old-host:65535", b"") == ("old-host", 65535)
    assert address("old-host:65536", b"") == ("", 0)
    assert address("old-host:99999", b"") == ("", 0)
    assert address("old-host:3182", b"\xff\xff") == ("", 0)
    info.endpoints[1].port = 65535
    assert address("any:1", info.SerializeToString()) == ("10.0.0.1", 65535)
    info.endpoints[1].port = 99999
    assert address("any:1", info.SerializeToString()) == ("", 0)


def managed(count: int) -> managed_pb2.ManagedLedgerInfo:
    info = managed_pb2.ManagedLedgerInfo()
    for ledger in range(1, count + 1):
        info.ledgerInfo.add(ledgerId=ledger, entries=10, size=100, timestamp=LONG_AGO)
    return info


@pytest.mark.parametrize("kind", ["NONE", "ZLIB"])
def test_a_managed_ledger_that_is_compressed(kind: str) -> None:
    plain = managed(50).SerializeToString()
    header = managed_pb2.CompressedHeader(
        compressionType=managed_pb2.ZnodeCompression.Value(kind), uncompressedSize=len(plain)
    ).SerializeToString()
    packed = zlib.compress(plain) if kind == "ZLIB" else plain
    value = b"\x47\x78" + struct.pack(">i", len(header)) + header + packed
    assert parse_managed_ledger("x", value) == parse_managed_ledger("x", plain)
    with pytest.raises(UnreadableNode, match="/managed-ledgers/x"):
        parse_managed_ledger("x", value[:-9])


def test_a_managed_ledger_that_was_just_created_lists_nothing() -> None:
    assert parse_managed_ledger("x", b"").ledgers == ()


@given(st.binary(max_size=80))
def test_hostile_managed_ledgers_are_named(value: bytes) -> None:
    for each in (value, b"\x47\x78" + value):
        with contextlib.suppress(UnreadableNode):
            assert parse_managed_ledger("x", each).name == "x"


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("t/n/persistent/a%2Fb+c", "persistent://t/n/a/b c"),
        ("prop/cluster/ns/persistent/x", "prop/cluster/ns/persistent/x"),
        ("something", "something"),
    ],
)
def test_the_topic_of_a_managed_ledger(name: str, topic: str) -> None:
    assert topic_of(name) == topic


@pytest.mark.parametrize(
    ("custom", "owner"),
    [
        (of_topic("t/n/persistent/x"), ("pulsar", "messages", "persistent://t/n/x", "")),
        (of_topic("t/n/persistent/x", "a%2Fb"), ("pulsar", "cursor", "persistent://t/n/x", "a/b")),
        (
            {"application": "pulsar", "component": "schema", "pulsar/schemaId": "t/n/x"},
            ("pulsar", "schema", "persistent://t/n/x", ""),
        ),
        (
            {
                "application": "pulsar",
                "component": "compacted-ledger",
                "pulsar/compactedTopic": "persistent://t/n/x",
            },
            ("pulsar", "compacted-ledger", "persistent://t/n/x", ""),
        ),
        ({"application": "distributedlog"}, ("distributedlog", "", "", "")),
        ({}, ("", "", "", "")),
    ],
)
def test_whose_a_ledger_is(custom: dict[str, str], owner: tuple[str, ...]) -> None:
    found = ledger_owner({key: value.encode() for key, value in custom.items()})
    assert (found.application, found.kind, found.topic, found.cursor) == owner
