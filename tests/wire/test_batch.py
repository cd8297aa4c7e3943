"""Batches as a broker takes them apart, to compact them and to show their messages."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.wire import batch
from counterpoise.wire.batch import batched_messages, compacted_batch, is_batch
from counterpoise.wire.entry import (
    BadEntry,
    build,
    messages_in,
    metadata_of,
    split,
    verify_checksum,
)
from counterpoise.wire.proto.metadata_pb2 import (
    CompressionType,
    EncryptionKeys,
    MessageMetadata,
    SingleMessageMetadata,
)

BODIES = st.lists(st.binary(max_size=30), min_size=1, max_size=6)


def body_of(payloads: list[bytes]) -> bytes:
    body = b""
    for number, payload in enumerate(payloads):
        single = SingleMessageMetadata(payload_size=len(payload), partition_key=f"k{number}")
        raw = single.SerializeToString()
        body += len(raw).to_bytes(4, "big") + raw + payload
    return body


def entry_of(payloads: list[bytes], *, zipped: bool = False) -> bytes:
    body = body_of(payloads)
    metadata = MessageMetadata(
        producer_name="p",
        sequence_id=7,
        publish_time=1,
        num_messages_in_batch=len(payloads),
        uncompressed_size=len(body),
        compression=CompressionType.ZLIB if zipped else CompressionType.NONE,
    )
    return build(metadata, zlib.compress(body) if zipped else body)


def taken_apart(entry: bytes) -> list[tuple[str, bytes, bool]]:
    metadata = metadata_of(entry)
    assert is_batch(metadata)
    found = batched_messages(metadata, split(entry)[1])
    return [(single.partition_key, payload, single.compacted_out) for single, payload in found]


@given(BODIES, st.booleans(), st.sets(st.integers(0, 5)))
def test_a_compacted_batch_has_what_is_kept_and_as_many_places(
    payloads: list[bytes], zipped: bool, kept: set[int]
) -> None:
    entry = entry_of(payloads, zipped=zipped)
    whole = [(f"k{number}", payload, False) for number, payload in enumerate(payloads)]
    assert taken_apart(entry) == whole
    kept &= set(range(len(payloads)))
    left = compacted_batch(entry, kept)
    if len(kept) == len(payloads):
        assert left == entry, "nothing is to be written again"
        return
    assert taken_apart(left) == [
        each if number in kept else ("", b"", True) for number, each in enumerate(whole)
    ]
    metadata, payload = metadata_of(left), split(left)[1]
    assert verify_checksum(left)
    assert (metadata.compression, metadata.uncompressed_size) == (
        CompressionType.NONE,
        len(payload),
    )
    assert (metadata.sequence_id, metadata.num_messages_in_batch) == (7, len(payloads))
    if len(payloads) > 1:
        assert messages_in(left) == len(payloads)


def test_an_entry_of_one_message_is_no_batch() -> None:
    assert not is_batch(MessageMetadata(producer_name="p", sequence_id=0, publish_time=1))


@pytest.mark.parametrize(
    ("changed", "payload", "why"),
    [
        ({}, b"", "cannot be read"),
        ({}, body_of([b"a"]), "cannot be read"),
        ({}, body_of([b"a", b"b"])[:-10], "cannot be read"),
        ({}, b"\x00\x00\x00\x02\xff\xff" * 2, "cannot be read"),
        ({"compression": CompressionType.LZ4}, body_of([b"a", b"b"]), "is compressed by LZ4"),
        ({"compression": CompressionType.ZLIB}, body_of([b"a", b"b"]), "cannot be decompressed"),
        (
            {"encryption_keys": [EncryptionKeys(key="k", value=b"v")]},
            body_of([b"a", b"b"]),
            "is encrypted",
        ),
    ],
)
def test_a_batch_that_a_broker_cannot_read(
    changed: dict[str, object], payload: bytes, why: str
) -> None:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=2, **changed
    )
    with pytest.raises(BadEntry, match=why):
        batched_messages(metadata, payload)


def test_no_more_is_decompressed_than_a_broker_has_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = entry_of([b"x" * 1000, b"y" * 10], zipped=True)
    for most, fits in ((len(body_of([b"x" * 1000, b"y" * 10])), True), (1000, False)):
        monkeypatch.setattr(batch, "UNPACKED_MAX", most)
        if fits:
            assert len(taken_apart(entry)) == 2
        else:
            with pytest.raises(BadEntry, match="cannot be read"):
                taken_apart(entry)
