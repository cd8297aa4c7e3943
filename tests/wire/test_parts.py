"""The small parts: variable-length integers, entries, the receive buffer, the definitions."""

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.internal.encoder import _VarintBytes
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.wire import entry as entries
from counterpoise.wire import proto
from counterpoise.wire.bit_words import bits_of, words_for, words_of
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import values_pb2
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from counterpoise.wire.receive_buffer import ReceiveBuffer
from counterpoise.wire.varint import signed, varint
from tests.wire.strategies import uint64


@given(st.integers(0, (1 << 64) - 1))
def test_varints_are_protobufs(value: int) -> None:
    assert varint(value) == _VarintBytes(value)


@pytest.mark.parametrize("shift", range(65))
def test_varints_at_every_boundary(shift: int) -> None:
    for value in {(1 << shift) - 1, min(1 << shift, (1 << 64) - 1)}:
        assert varint(value) == _VarintBytes(value)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_signed_values_survive(value: int) -> None:
    assert varint(value) == _VarintBytes(value & ((1 << 64) - 1))
    assert signed(value & ((1 << 64) - 1)) == value


@given(st.lists(st.integers(-(1 << 63), (1 << 64) - 1), max_size=4))
def test_words_are_joined_and_split_again_signed_or_not(words: list[int]) -> None:
    bits = bits_of(words)
    unsigned = [word & (1 << 64) - 1 for word in words]
    assert bits == sum(word << 64 * at for at, word in enumerate(unsigned))
    while unsigned and not unsigned[-1]:
        del unsigned[-1]
    assert words_of(bits) == unsigned
    assert words_for(bits.bit_length()) == len(unsigned)


@given(st.binary(max_size=300), uint64, st.text(max_size=20))
def test_entries_round_trip(payload: bytes, sequence_id: int, key: str) -> None:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=sequence_id, publish_time=1, partition_key=key
    )
    entry = entries.build(metadata, payload)
    assert entries.verify_checksum(entry)
    assert entries.metadata_of(entry) == metadata
    assert bytes(entries.split(entry)[1]) == payload


@given(st.binary(max_size=100), st.data())
def test_any_flipped_bit_breaks_the_checksum(payload: bytes, data: st.DataObject) -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    entry = bytearray(entries.build(metadata, payload))
    bit = data.draw(st.integers(16, len(entry) * 8 - 1))  # not in the magic
    entry[bit // 8] ^= 1 << bit % 8
    assert not entries.verify_checksum(bytes(entry))


@given(st.binary(max_size=40))
def test_noise_is_no_entry_or_is_cut_in_two(noise: bytes) -> None:
    try:
        metadata, payload = entries.split(noise)
    except entries.BadEntry:
        return
    assert noise.endswith(metadata + bytes(payload))


def test_metadata_that_cannot_be_read() -> None:
    with pytest.raises(entries.BadEntry, match="the metadata cannot be read"):
        entries.metadata_of(b"\x00\x00\x00\x01\xff")


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"ordering_key": b"o", "partition_key": "k"}, b"o"),
        ({"partition_key": "kü"}, "kü".encode()),
        ({"partition_key": "AAE=", "partition_key_b64_encoded": True}, b"\x00\x01"),
        ({}, b"p-7"),
        ({"producer_name": ""}, entries.NO_KEY),
    ],
)
def test_sticky_keys(fields: dict[str, object], key: bytes) -> None:
    base = {"producer_name": "p", "sequence_id": 7, "publish_time": 1}
    assert entries.sticky_key(MessageMetadata(**{**base, **fields})) == key


@given(st.lists(st.binary(min_size=1, max_size=9), max_size=9), st.integers(1, 40))
def test_a_buffer_gives_back_what_it_took(chunks: list[bytes], wanted: int) -> None:
    first = b"first"[:wanted]
    buffer = ReceiveBuffer()
    buffer.keep(first, wanted)
    taken = first
    for chunk in chunks:
        begun, at = buffer.take(chunk)
        taken += chunk[:at]
        if begun:
            assert begun == taken
            assert len(begun) == wanted or (wanted <= 4 and at == len(chunk))
            assert buffer.buffered == 0
            assert buffer.take(b"more") == (b"", 0), "nothing is held"
            return
        assert at == len(chunk)
        assert buffer.buffered == len(taken) < wanted


def test_a_buffer_joins_a_large_frame_once() -> None:
    buffer = ReceiveBuffer()
    buffer.keep(b"", 1000)
    for _ in range(99):
        assert buffer.take(b"0123456789") == (b"", 10)
    assert buffer.take(b"0123456789abc") == (b"0123456789" * 100, 10)
    assert buffer.buffered == 0


def test_error_codes_are_the_protocols() -> None:
    assert {code.name: code.value for code in ServerError} == dict(values_pb2.ServerError.items())


def test_generated_modules_are_what_the_definitions_say(tmp_path: Path) -> None:
    """Run the generator on a copy: a definition that was changed alone is noticed."""
    source = Path(proto.__path__[0]).parents[2]
    for path in source.glob("counterpoise/*/proto/*.proto"):
        copy = tmp_path / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    script = source.parent / "scripts" / "generate_wire.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, timeout=60)
    generated = "counterpoise/*/proto/*_pb2.py*"
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.glob(generated)}
    assert made
    kept = {path.relative_to(source): path.read_text() for path in source.glob(generated)}
    assert made == kept
