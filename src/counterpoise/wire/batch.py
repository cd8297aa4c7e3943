"""Cuts batches into their messages, and rewrites batches for compaction.

A compacted batch keeps its position and its number of messages: removed messages are marked as
``compacted_out`` and have no payload (``RawBatchConverter`` of Pulsar 4.0.7).
"""

import struct
import zlib
from collections.abc import Collection
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from counterpoise.wire.entry import BadEntry, build, metadata_of, split
from counterpoise.wire.proto.metadata_pb2 import (
    CompressionType,
    MessageMetadata,
    SingleMessageMetadata,
)

_SIZE: Final = struct.Struct(">I")
UNPACKED_MAX: Final = 128 << 20
"""The most bytes that are decompressed, whatever size the metadata states."""


class BatchedMessage(NamedTuple):
    """One message of a batch: its own metadata, and its payload."""

    metadata: SingleMessageMetadata
    payload: bytes


def is_batch(metadata: MessageMetadata) -> bool:
    """Whether an entry is a batch, in which each message has its own metadata."""
    return bool(metadata.HasField("num_messages_in_batch"))


def batched_messages(
    metadata: MessageMetadata, payload: bytes | memoryview
) -> list[BatchedMessage]:
    """Cut a batch's payload into its messages; raises `BadEntry` where that is impossible.

    A broker decompresses ZLIB only: it cannot read a batch of another compression, or an encrypted
    one.
    """
    body = _unpacked(metadata, payload)
    found: list[BatchedMessage] = []
    at = 0
    try:
        for _ in range(metadata.num_messages_in_batch):
            (size,) = _SIZE.unpack_from(body, at)
            at += _SIZE.size
            single = SingleMessageMetadata.FromString(body[at : at + size])
            at += size
            found.append(BatchedMessage(single, body[at : at + single.payload_size]))
            at += single.payload_size
    except (DecodeError, struct.error) as error:
        raise BadEntry(f"a batch cannot be read: {error}") from None
    return found


def compacted_batch(entry: bytes, kept: Collection[int]) -> bytes:
    """A batch as compaction leaves it: uncompressed, with payloads at the indices ``kept`` only."""
    metadata = metadata_of(entry)
    messages = batched_messages(metadata, split(entry)[1])
    if len(kept) >= len(messages):
        return entry
    body = bytearray()
    for place, message in enumerate(messages):
        single, payload = message
        if place not in kept:
            single, payload = SingleMessageMetadata(compacted_out=True, payload_size=0), b""
        raw = single.SerializeToString()
        body += _SIZE.pack(len(raw)) + raw + payload
    metadata.compression = CompressionType.NONE
    metadata.uncompressed_size = len(body)
    return build(metadata, bytes(body))


def _unpacked(metadata: MessageMetadata, payload: bytes | memoryview) -> bytes:
    if metadata.encryption_keys:
        raise BadEntry("the batch is encrypted")
    if metadata.compression == CompressionType.NONE:
        return bytes(payload)
    if metadata.compression != CompressionType.ZLIB:
        raise BadEntry(f"the batch is compressed by {CompressionType.Name(metadata.compression)}")
    try:
        return zlib.decompressobj().decompress(bytes(payload), UNPACKED_MAX)
    except zlib.error as error:
        raise BadEntry(f"the batch cannot be decompressed: {error}") from None
