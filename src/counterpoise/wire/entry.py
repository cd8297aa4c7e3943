"""An entry: the exact bytes after the command of a SEND frame, stored and delivered untouched.

Layout: magic 0x0e01, CRC32C (4 bytes, of all that follows), metadata size (4 bytes), metadata,
payload. Clients older than protocol version 6 leave the first two out.
"""

import base64
import binascii
import contextlib
import re
import struct
from typing import NamedTuple

import crc32c
from google.protobuf.message import DecodeError

from counterpoise.wire.constants import MAGIC_CRC32C
from counterpoise.wire.proto.metadata_pb2 import CompressionType, MessageMetadata

_SIZE = struct.Struct(">I")
_MAGIC_AND_CHECKSUM_SIZE = 6

_HEADER = _MAGIC_AND_CHECKSUM_SIZE + _SIZE.size
_CHECKED_HEAD = struct.Struct(">H4xI")
"""Magic and metadata size of an entry that has a checksum."""
_MAGIC = int.from_bytes(MAGIC_CRC32C, "big")
DELIVER_AT_TAG = b"\x98\x01"
"""The tag of field 19 (``deliver_at_time``) of the metadata; other bytes are rarely equal to it."""
CHUNK_TAG = b"\xe8\x01"
"""The tag of field 29 (``chunk_id``) of the metadata; other bytes are rarely equal to it."""
METADATA_BYTES = 4096
"""How many bytes of an entry are searched for these tags: only enormous properties make metadata
longer."""
BATCH_TAG = 0x58
"""The tag of field 11 (``num_messages_in_batch``) of the metadata."""
_BATCHED_MESSAGE_MIN = 6
"""The fewest bytes of a message in a batch: the size of its metadata (4 bytes), and in the metadata
its payload's size."""
_NO_COMPRESSION = CompressionType.NONE
"""The enum value, looked up once: protobuf finds it by a call each time."""
_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_PLAIN_BATCH = re.compile(
    rb"\x10%b\x18%b\x58([\x80-\xff]{0,2}[\x00-\x7f])(?:\xc0\x01%b)?" % ((_VARINT,) * 3)
)
"""What follows the producer's name in the metadata of most batches: sequence id, publish time, the
number of messages (of three bytes at most), and perhaps the highest sequence id; nothing else."""
_NAME_TAG = 0x0A
BATCH_MAX = 1 << 20
"""The most messages in an entry: their sizes alone would have some five megabytes."""

NO_KEY = b"NONE_KEY"
"""The key of a message that has neither a key nor a producer (Java ``NONE_KEY``)."""


class BadEntry(ValueError):
    """The bytes of an entry cannot be read as checksum, metadata and payload."""


def verify_checksum(entry: bytes) -> bool:
    """Whether an entry's checksum is correct; an entry without one passes."""
    if entry[:2] != MAGIC_CRC32C:
        return True
    stated = int.from_bytes(entry[2:_MAGIC_AND_CHECKSUM_SIZE], "big")
    return crc32c.crc32c(memoryview(entry)[_MAGIC_AND_CHECKSUM_SIZE:]) == stated


def split(entry: bytes) -> tuple[bytes, memoryview]:
    """Split an entry into the bytes of its metadata and its payload; raises `BadEntry`."""
    begin, end = _metadata_in(entry)
    return entry[begin:end], memoryview(entry)[end:]


def _metadata_in(entry: bytes) -> tuple[int, int]:
    """The offsets where the metadata begins and ends; raises `BadEntry` if it is cut off."""
    start = _MAGIC_AND_CHECKSUM_SIZE if entry[:2] == MAGIC_CRC32C else 0
    begin = start + _SIZE.size
    if len(entry) < begin:
        raise BadEntry(f"{len(entry)} bytes end before the size of the metadata")
    end = begin + int.from_bytes(entry[start:begin], "big")
    if end > len(entry):
        raise BadEntry(
            f"metadata of {end - begin} bytes in an entry that has {len(entry) - begin} left"
        )
    return begin, end


def metadata_of(entry: bytes) -> MessageMetadata:
    """Parse an entry's metadata; raises `BadEntry`."""
    return _parsed(split(entry)[0])


def _parsed(metadata: bytes) -> MessageMetadata:
    try:
        return MessageMetadata.FromString(metadata)
    except DecodeError as error:
        raise BadEntry(f"the metadata cannot be read: {error}") from None


def delay_ms(entry: bytes) -> int:
    """How many milliseconds after its publishing a message asks to be delivered; 0 if at once."""
    if entry.find(DELIVER_AT_TAG, 0, METADATA_BYTES) < 0:
        return 0
    try:
        metadata = metadata_of(entry)
    except BadEntry:
        return 0
    if not metadata.HasField("deliver_at_time"):
        return 0
    return int(metadata.deliver_at_time - metadata.publish_time)


class ChunkOfMessage(NamedTuple):
    """The chunk that an entry is, of a message that its producer sent in several chunks."""

    uuid: str
    number: int
    """The chunk's index in the message, from 0."""
    is_last: bool


def chunk_of(entry: bytes) -> ChunkOfMessage | None:
    """Which chunk of which message an entry is; None if it is a whole message, or a batch."""
    if entry.find(CHUNK_TAG, 0, METADATA_BYTES) < 0:
        return None
    try:
        metadata = metadata_of(entry)
    except BadEntry:
        return None
    if not all(map(metadata.HasField, ("uuid", "chunk_id", "num_chunks_from_msg"))):
        return None
    number = metadata.chunk_id
    return ChunkOfMessage(metadata.uuid, number, number == metadata.num_chunks_from_msg - 1)


def messages_in(entry: bytes) -> int:
    """The number of messages in an entry by its metadata; raises `BadEntry` if it cannot hold them.

    As in Pulsar the ``num_messages`` of the SEND command is ignored: permits count what consumers
    will find.
    """
    begin, end = _metadata_in(entry)
    if entry.find(BATCH_TAG, begin, end) < 0:
        return 1
    size = len(entry) - end
    plain = None
    if end - begin > 2 and entry[begin] == _NAME_TAG and entry[begin + 1] < 0x80:
        # This runs for every batch. Protobuf's parser would take a twentieth of a batch's time,
        # since large entries evict its code from the processor's cache.
        plain = _PLAIN_BATCH.fullmatch(entry, begin + 2 + entry[begin + 1], end)
    if plain is not None:
        count = _number(plain[1])
    else:
        metadata = _parsed(entry[begin:end])
        count = metadata.num_messages_in_batch
        if metadata.compression != _NO_COMPRESSION:
            size = metadata.uncompressed_size
    if count == 1:
        return 1
    if not 1 <= count <= min(size // _BATCHED_MESSAGE_MIN, BATCH_MAX):
        raise BadEntry(f"a batch of {size} bytes says that it holds {count} messages")
    return count


def _number(varint: bytes) -> int:
    value = 0
    for byte in reversed(varint):
        value = value << 7 | byte & 0x7F
    return value


def build(metadata: MessageMetadata, payload: bytes) -> bytes:
    """Encode an entry with its checksum, as a client does."""
    raw = metadata.SerializeToString()
    body = _SIZE.pack(len(raw)) + raw + payload
    return MAGIC_CRC32C + _SIZE.pack(crc32c.crc32c(body)) + body


def sticky_key(metadata: MessageMetadata) -> bytes:
    """The key that decides which Key_Shared consumer gets a message.

    It is the ordering key, else the partition key (decoded if it was sent in base64), else made of
    the producer and the sequence id, so that messages without a key are spread
    (``AbstractBaseDispatcher.peekStickyKey``).
    """
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if metadata.HasField("partition_key"):
        key = _bytes(metadata.partition_key)
        if metadata.partition_key_b64_encoded:
            # Text that is not base64 is used as the key itself: the broker only compares keys.
            with contextlib.suppress(binascii.Error):
                return base64.b64decode(key)
        return key
    if metadata.producer_name:
        return b"%s-%d" % (_bytes(metadata.producer_name), metadata.sequence_id)
    return NO_KEY


def _bytes(text: str | bytes) -> bytes:
    """A text of the metadata as it was sent; protobuf gives bytes where that was no UTF-8."""
    return text.encode() if isinstance(text, str) else text


__all__ = [
    "BATCH_MAX",
    "BATCH_TAG",
    "CHUNK_TAG",
    "DELIVER_AT_TAG",
    "METADATA_BYTES",
    "NO_KEY",
    "BadEntry",
    "ChunkOfMessage",
    "build",
    "chunk_of",
    "messages_in",
    "metadata_of",
    "split",
    "sticky_key",
    "verify_checksum",
]
