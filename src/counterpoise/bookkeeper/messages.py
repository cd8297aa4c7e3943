"""Decodes Pulsar's entries into messages, unpacked from batch and compression."""

import struct
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from counterpoise.bookkeeper.broker_metadata import METADATA_BEGIN, entry_begin
from counterpoise.bookkeeper.compression import unpack
from counterpoise.wire.entry import BadEntry, messages_in, metadata_of, split, verify_checksum
from counterpoise.wire.proto.metadata_pb2 import (
    BrokerEntryMetadata,
    CompressionType,
    MessageMetadata,
    SingleMessageMetadata,
)

_SIZE: Final = struct.Struct(">I")
NOT_BATCHED: Final = -1


@dataclass(frozen=True, slots=True)
class DecodedMessage:
    """One message decoded from an entry."""

    batch_index: int
    """The message's place in its batch; `NOT_BATCHED` if the entry is one unbatched message."""
    batch_size: int
    publish_ms: int
    event_ms: int
    producer: str
    sequence_id: int
    key: str
    properties: tuple[tuple[str, str], ...]
    size: int
    """Bytes of the decompressed payload."""
    compression: str
    payload: bytes
    note: str
    """Other properties: whether it is a chunk, encrypted, a marker or part of a transaction."""


def decode_entry(payload: bytes) -> list[DecodedMessage]:
    """The messages of an entry.

    A batch that cannot be unpacked (it is encrypted, or its compression is damaged) is one message
    with a note. Raises `BadEntry` for bytes that are no entry of Pulsar's.
    """
    entry = _without_broker_metadata(payload)
    metadata = metadata_of(entry)
    if not metadata.IsInitialized():
        raise BadEntry("its metadata has no producer, sequence id or publish time")
    notes = _notes(metadata)
    if not verify_checksum(entry):
        notes.append("its checksum does not match")
    body = bytes(split(entry)[1])
    if not metadata.encryption_keys:
        try:
            body = _unpacked(metadata, body)
            if metadata.HasField("num_messages_in_batch"):
                messages_in(entry)  # raises BadEntry for a number that the bytes cannot hold
                return _batch(metadata, body, notes)
        except (ValueError, DecodeError, struct.error) as error:
            notes.append(str(error))
    return [_message(metadata, NOT_BATCHED, metadata, metadata.sequence_id, body, notes)]


def _without_broker_metadata(payload: bytes) -> bytes:
    """The producer's entry, without metadata that brokers may have put before it."""
    begin = entry_begin(payload)
    if not begin:
        return payload
    if begin > len(payload):
        raise BadEntry(f"broker metadata of {begin - METADATA_BEGIN} bytes in {len(payload)}")
    try:
        BrokerEntryMetadata.FromString(payload[METADATA_BEGIN:begin])
    except DecodeError as error:
        raise BadEntry(f"the broker's metadata cannot be read: {error}") from None
    return payload[begin:]


def _unpacked(metadata: MessageMetadata, body: bytes) -> bytes:
    if metadata.compression == CompressionType.NONE:
        return body
    kind = CompressionType.Name(metadata.compression)
    return unpack(kind, body, metadata.uncompressed_size)


def _batch(metadata: MessageMetadata, body: bytes, notes: list[str]) -> list[DecodedMessage]:
    found = []
    at = 0
    for index in range(metadata.num_messages_in_batch):
        (size,) = _SIZE.unpack_from(body, at)
        at += _SIZE.size
        if size > len(body) - at:
            raise BadEntry(f"message {index} of the batch is cut off")
        each = SingleMessageMetadata.FromString(body[at : at + size])
        at += size
        if not 0 <= each.payload_size <= len(body) - at:
            raise BadEntry(f"message {index} of the batch is cut off")
        payload = body[at : at + each.payload_size]
        at += each.payload_size
        number = each.sequence_id if each.HasField("sequence_id") else metadata.sequence_id + index
        about = [*notes, "compacted out"] if each.compacted_out else notes
        found.append(_message(metadata, index, each, number, payload, about))
    return found


def _message(
    metadata: MessageMetadata,
    batch_index: int,
    own: MessageMetadata | SingleMessageMetadata,
    sequence_id: int,
    payload: bytes,
    notes: list[str],
) -> DecodedMessage:
    """Make a message. ``own``: its metadata in the batch; without a batch, the entry's
    ``metadata``.
    """
    return DecodedMessage(
        batch_index,
        metadata.num_messages_in_batch,
        metadata.publish_time,
        own.event_time,
        _text(metadata.producer_name),
        sequence_id,
        _text(own.partition_key),
        tuple((_text(each.key), _text(each.value)) for each in own.properties),
        len(payload),
        CompressionType.Name(metadata.compression),
        payload,
        "; ".join(notes),
    )


def _notes(metadata: MessageMetadata) -> list[str]:
    notes = []
    if metadata.encryption_keys:
        notes.append("encrypted")
    if metadata.HasField("num_chunks_from_msg"):
        notes.append(f"chunk {metadata.chunk_id + 1} of {metadata.num_chunks_from_msg}")
    if metadata.HasField("marker_type"):
        notes.append(f"marker {metadata.marker_type}")
    if metadata.HasField("txnid_least_bits"):
        notes.append(f"transaction {metadata.txnid_most_bits}:{metadata.txnid_least_bits}")
    if metadata.HasField("deliver_at_time"):
        notes.append("delayed")
    return notes


def _text(value: str | bytes) -> str:
    """A text of the metadata; protobuf returns bytes if it was no UTF-8."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
