"""How many messages an entry holds is what its metadata says, if that can be."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.wire.entry import BATCH_MAX, BadEntry, build, chunk_of, delay_ms, messages_in
from counterpoise.wire.proto.metadata_pb2 import CompressionType, MessageMetadata

BASE = {"producer_name": "p", "sequence_id": 0, "publish_time": 1}


def entry_of(payload: bytes, **fields: object) -> bytes:
    return build(MessageMetadata(**BASE, **fields), payload)  # type: ignore[arg-type]


def test_no_batch_is_one_message_whatever_its_metadata_happens_to_contain() -> None:
    assert messages_in(entry_of(b"")) == 1
    assert messages_in(entry_of(b"", partition_key="XXX")) == 1
    assert messages_in(entry_of(b"X" * 9, ordering_key=b"\x58\x05")) == 1


def test_a_delay_is_what_metadata_that_can_be_read_asks_for() -> None:
    entry = entry_of(b"", deliver_at_time=9)
    assert (delay_ms(entry), delay_ms(entry_of(b""))) == (8, 0)
    assert delay_ms(entry[:-1]) == 0, "its metadata is cut off"


def test_the_last_chunk_of_a_message_is_the_one_before_their_number() -> None:
    chunks = [entry_of(b"", uuid="m", num_chunks_from_msg=3, chunk_id=at) for at in range(3)]
    assert [chunk_of(each) for each in chunks] == [("m", 0, False), ("m", 1, False), ("m", 2, True)]


def test_a_batch_of_one_may_be_empty() -> None:
    assert messages_in(entry_of(b"", num_messages_in_batch=1)) == 1


@pytest.mark.parametrize("count", [2, 10, 1000])
def test_a_batch(count: int) -> None:
    assert messages_in(entry_of(b"123456" * count, num_messages_in_batch=count)) == count


def test_a_compressed_batch_is_held_to_its_size_before() -> None:
    packed = {"compression": CompressionType.LZ4, "uncompressed_size": 600}
    assert messages_in(entry_of(b"!", num_messages_in_batch=100, **packed)) == 100
    with pytest.raises(BadEntry, match="holds 101 messages"):
        messages_in(entry_of(b"!", num_messages_in_batch=101, **packed))


@pytest.mark.parametrize("count", [0, -1, -(2**31), 3, 2**31 - 1])
def test_a_count_that_cannot_be(count: int) -> None:
    with pytest.raises(BadEntry, match=f"holds {count} messages"):
        messages_in(entry_of(b"123456" * 2, num_messages_in_batch=count))


def test_an_impossible_size_field_is_not_believed() -> None:
    lie = {"compression": CompressionType.ZSTD, "uncompressed_size": 2**32 - 1}
    with pytest.raises(BadEntry):
        messages_in(entry_of(b"!", num_messages_in_batch=BATCH_MAX + 1, **lie))


def test_large_metadata_is_looked_through_to_its_end() -> None:
    large = {"properties": [{"key": "k", "value": "v" * 70_000}]}
    assert messages_in(entry_of(b"123456" * 7, num_messages_in_batch=7, **large)) == 7


@pytest.mark.parametrize("raw", [b"X", b"XX", b"\x58\x02"])
def test_metadata_that_ends_with_its_entry_is_not_read_past_its_end(raw: bytes) -> None:
    with pytest.raises(BadEntry):
        messages_in(len(raw).to_bytes(4, "big") + raw)


@pytest.mark.parametrize("cut", [0, 1, 5, 9])
def test_what_is_too_short_is_refused(cut: int) -> None:
    with pytest.raises(BadEntry):
        messages_in(entry_of(b"payload")[:cut])


def test_an_entry_without_a_checksum() -> None:
    assert messages_in(entry_of(b"123456" * 4, num_messages_in_batch=4)[6:]) == 4


@given(
    st.text("Xab", max_size=5),
    st.one_of(st.none(), st.integers(-3, 200)),
    st.sampled_from([CompressionType.NONE, CompressionType.LZ4]),
    st.integers(0, 1500),
    st.binary(max_size=700),
)
def test_it_agrees_with_parsing(
    key: str, count: int | None, packed: CompressionType, size: int, payload: bytes
) -> None:
    more = {} if count is None else {"num_messages_in_batch": count}
    entry = entry_of(payload, partition_key=key, compression=packed, uncompressed_size=size, **more)
    holds = (size if packed else len(payload)) // 6
    wanted = 1 if count is None else count
    if wanted == 1 or 1 <= wanted <= holds:
        assert messages_in(entry) == wanted
    else:
        with pytest.raises(BadEntry):
            messages_in(entry)


def varint(value: int, longer: int) -> bytes:
    """A number, and as many bytes longer than it has to be."""
    found = bytearray()
    while value > 0x7F or longer:
        longer -= value <= 0x7F
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(found) + bytes((value,))


def number(tag: bytes, values: st.SearchStrategy[int]) -> st.SearchStrategy[bytes]:
    return st.builds(lambda *how: tag + varint(*how), values, st.sampled_from([0, 0, 0, 1, 9, 10]))


NAME = st.builds(
    lambda name: b"\x0a" + varint(len(name), 0) + name,
    st.one_of(st.just(b"frames"), st.just(b"X\x05"), st.just(b"n" * 200), st.binary(max_size=3)),
)
ANY = st.one_of(st.just(5), st.integers(0, 2**64 - 1))
SEQUENCE_ID = number(b"\x10", ANY)
PUBLISH_TIME = number(b"\x18", ANY)
COUNT = number(b"\x58", st.one_of(st.integers(0, 9), st.integers(0, 2**32), st.just(2**64 - 1)))
HIGHEST = number(b"\xc0\x01", ANY)
COMPRESSION = number(b"\x40", st.integers(0, 2))
SIZE = number(b"\x48", st.integers(0, 90))


NO_NAME = st.sampled_from([b"\x1a\x00", b"\x12\x01X", b"\x22\x00", b"\x32\x02XX", b"\x10\x00"])
"""Stands where the producer's name does, and is none."""


@given(
    st.one_of(
        st.tuples(NAME, SEQUENCE_ID, PUBLISH_TIME, COUNT),
        st.tuples(NAME, SEQUENCE_ID, PUBLISH_TIME, COUNT, HIGHEST),
        st.tuples(NO_NAME, SEQUENCE_ID, PUBLISH_TIME, COUNT),
        st.lists(
            st.one_of(NAME, SEQUENCE_ID, PUBLISH_TIME, COUNT, HIGHEST, COMPRESSION, SIZE),
            max_size=7,
        ),
    ),
    st.sampled_from([0, 0, 0, 1, 2, 3]),
    st.integers(0, 60),
)
def test_what_most_clients_write_is_counted_as_the_parser_counts_it(
    fields: list[bytes], cut: int, size: int
) -> None:
    """Fields twice, in another order, longer than they have to be, or cut off at the end."""
    raw = b"".join(fields)
    raw = raw[: len(raw) - cut] if cut else raw
    entry = len(raw).to_bytes(4, "big") + raw + b"\x01" * size
    try:
        metadata = MessageMetadata.FromString(raw)
    except DecodeError:
        wanted = None
    else:
        holds = (metadata.uncompressed_size if metadata.compression else size) // 6
        count = metadata.num_messages_in_batch
        wanted = count if count == 1 or 1 <= count <= min(holds, BATCH_MAX) else None
    if wanted is not None or b"X" not in raw:
        assert messages_in(entry) == (wanted or 1)
    else:
        with pytest.raises(BadEntry):
            messages_in(entry)


@pytest.mark.parametrize("longer", [9, 10])
def test_a_number_may_be_as_long_as_the_parser_reads(longer: int) -> None:
    raw = b"\x0a\x01n\x10" + varint(5, longer) + b"\x18\x01\x58\x02"
    entry = len(raw).to_bytes(4, "big") + raw + b"123456" * 2
    if longer == 9:
        assert messages_in(entry) == 2
    else:
        with pytest.raises(BadEntry, match="cannot be read"):
            messages_in(entry)
