"""The fast path of publishing: a run of plain SEND frames, read without protobuf.

Clients send SENDs of few shapes: producer id below 128, a sequence id, and for a batch how many
messages it has and perhaps its highest sequence id. This reader takes as many of those as it finds
and leaves everything out of the ordinary, errors included, to the general reader in `protocol`.
"""

import struct
from typing import TYPE_CHECKING

from crc32c import crc32c

from counterpoise.wire.constants import ENTRY_HEADER_SIZE, MAGIC_CRC32C
from counterpoise.wire.events import Send
from counterpoise.wire.states import PeerState

if TYPE_CHECKING:
    from counterpoise.wire.events import Event

#: Frame size, command size; the command's type and its field's tag; then length, producer id's
#: tag and value, sequence id's tag and the first four bytes of its value.
_SHAPE = struct.Struct(">II3sBBBBBBBB")
_SEND = b"\x08\x06\x32"
_PRODUCER_ID_TAG = 0x08
_SEQUENCE_ID_TAG = 0x10
_NUM_MESSAGES_TAG = 0x18
_HIGHEST_SEQUENCE_ID_TAG = 0x30
_ENTRY_HEADER = struct.Struct(">2sII")
_CHECKED_FROM = 6
"""Where in an entry begins what its checksum covers."""
_SEQUENCE_ID_AT = 15
#: An entry's size beside its metadata; no frame worth the fast path is shorter than this.
_SHORTEST_FRAME = 8 + 8 + ENTRY_HEADER_SIZE
_VARINT_BITS = 70
"""Ten bytes: protobuf reads no longer ones."""
_INT32_MAX = (1 << 31) - 1
_UINT64_MAX = (1 << 64) - 1

_new_send = tuple.__new__


def decode_sends(
    data: bytes,
    begin: int,
    end: int,
    frame_size_max: int,
    producers: dict[int, PeerState],
    events: "list[Event]",
    most: int,
) -> int:
    """Append a `Send` for each plain SEND frame from ``begin`` on; return where they stop.

    That is before anything else, or when there are ``most`` events.
    """
    unpack, unpack_entry, checksum_of, ready = (
        _SHAPE.unpack_from,
        _ENTRY_HEADER.unpack_from,
        crc32c,
        PeerState.READY,
    )
    view = memoryview(data)
    last = end - _SHORTEST_FRAME
    while begin <= last:
        total, size, kind, length, tag, producer_id, tag2, a, b, c, d = unpack(data, begin)
        if kind != _SEND or tag != _PRODUCER_ID_TAG or tag2 != _SEQUENCE_ID_TAG:
            break
        entry_at, stop = begin + 8 + size, begin + 4 + total
        if (
            stop > end
            or total > frame_size_max
            or size != length + 4
            or length > 127
            or total < size + 4 + ENTRY_HEADER_SIZE
            or producer_id > 127
            or producers.get(producer_id) is not ready
        ):
            break
        if a < 128:
            sequence_id, at = a, begin + 16
        elif b < 128:
            sequence_id, at = a & 127 | b << 7, begin + 17
        elif c < 128:
            sequence_id, at = a & 127 | (b & 127) << 7 | c << 14, begin + 18
        elif d < 128:
            sequence_id, at = a & 127 | (b & 127) << 7 | (c & 127) << 14 | d << 21, begin + 19
        else:
            sequence_id, at = _varint(data, begin + _SEQUENCE_ID_AT, entry_at)
        messages, highest = 1, 0
        if at != entry_at:
            counts = _counts(data, at, entry_at)
            if counts is None:
                break
            messages, highest = counts
        magic, checksum, metadata_size = unpack_entry(data, entry_at)
        if (
            magic != MAGIC_CRC32C
            or metadata_size > stop - entry_at - ENTRY_HEADER_SIZE
            or checksum_of(view[entry_at + _CHECKED_FROM : stop]) != checksum
        ):
            break
        entry = data[entry_at:stop]
        events.append(_new_send(Send, (producer_id, sequence_id, highest, messages, False, entry)))
        begin = stop
        if len(events) >= most:
            break
    return begin


def _counts(data: bytes, at: int, end: int) -> tuple[int, int] | None:
    """A batch's number of messages and highest sequence id, or None if a SEND has more fields.

    ``at`` is where they begin; fields are in the order of their numbers, as every client writes
    them.
    """
    messages, highest = 1, 0
    if at < end and data[at] == _NUM_MESSAGES_TAG:
        low, high = data[at + 1], data[at + 2]
        if low < 128:
            messages, at = low, at + 2
        elif high < 128:
            messages, at = low & 127 | high << 7, at + 3
        else:
            messages, at = _varint(data, at + 1, end)
    if at < end and data[at] == _HIGHEST_SEQUENCE_ID_TAG:
        a, b, c = data[at + 1 : at + 4]
        if a & b >= 128 > c:
            highest, at = a & 127 | (b & 127) << 7 | c << 14, at + 4
        else:
            highest, at = _varint(data, at + 1, end)
    return (messages, highest) if at == end and messages <= _INT32_MAX else None


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A varint and where it ends; past ``end`` when it does not end in time."""
    value = shift = 0
    while at < end and shift < _VARINT_BITS:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _UINT64_MAX, at
        shift += 7
    return value, end + 1
