"""How many messages an entry holds is what its metadata says, if that can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.wire.entry import BATCH_MAX, BadEntry, build, messages_in
from counterpoise.wire.proto.metadata_pb2 import CompressionType, MessageMetadata

BASE = {"producer_name": "p", "sequence_id": 0, "publish_time": 1}


def entry_of(payload: bytes, **fields: object) -> bytes:
    return build(MessageMetadata(**BASE, **fields), payload)  # type: ignore[arg-type]


def test_no_batch_is_one_message_whatever_its_metadata_happens_to_contain() -> None:
    assert messages_in(entry_of(b"")) == 1
    assert messages_in(entry_of(b"", partition_key="XXX")) == 1
    assert messages_in(entry_of(b"X" * 9, ordering_key=b"\x58\x05")) == 1


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


def test_a_size_that_cannot_be_helps_nobody() -> None:
    lie = {"compression": CompressionType.ZSTD, "uncompressed_size": 2**32 - 1}
    with pytest.raises(BadEntry):
        messages_in(entry_of(b"!", num_messages_in_batch=BATCH_MAX + 1, **lie))


def test_large_metadata_is_looked_through_to_its_end() -> None:
    large = {"properties": [{"key": "k", "value": "v" * 70_000}]}
    assert messages_in(entry_of(b"123456" * 7, num_messages_in_batch=7, **large)) == 7


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
