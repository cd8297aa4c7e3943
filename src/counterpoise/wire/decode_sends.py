"""The fast path of publishing: decodes consecutive plain SEND frames without protobuf.

Clients send SENDs in few forms: producer id below 128, a sequence id, and for a batch its number of
messages (which is read from its entry instead) and perhaps its highest sequence id. This reader
decodes as many of those as it finds, and leaves everything else, errors included, to the general
reader in `protocol`.
"""

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from counterpoise.wire.constants import ENTRY_HEADER_SIZE, MAGIC_CRC32C
from counterpoise.wire.entry import BATCH_TAG, BadEntry, messages_in
from counterpoise.wire.events import Send
from counterpoise.wire.states import PeerState

if TYPE_CHECKING:
    from counterpoise.wire.events import Event

_SHAPE = struct.Struct(">I11sBBBB")
"""The beginning of a SEND frame: frame size; the command up to the tag of its sequence id, the
head, which consecutive frames mostly share; the first four bytes of the sequence id."""
_HEAD = struct.Struct(">I3sBBBB")
"""The head: command size; the command's type and its field's tag; then length, producer id's tag
and value, sequence id's tag."""
_SEND = b"\x08\x06\x32"
_PRODUCER_ID_TAG = 0x08
_SEQUENCE_ID_TAG = 0x10
_NUM_MESSAGES_TAG = 0x18
_HIGHEST_SEQUENCE_ID_TAG = 0x30
_ENTRY_HEADER = struct.Struct(">2sII")
_CHECKED_FROM = 6
"""The offset in an entry from which on the checksum covers it."""
_HOLD_GIL = 0
"""The argument by which `crc32c` keeps the interpreter lock even for large entries: a checksum
takes microseconds, getting the lock back from a thread that writes takes longer."""
_SEQUENCE_ID_AT = 15
_SHORTEST_FRAME = 8 + 8 + ENTRY_HEADER_SIZE
"""The fewest bytes of a frame that this module decodes: sizes, command, entry without metadata."""
_HEADS = 1024
"""How many distinct frame heads are cached, over all connections: a producer has few."""
_ONE_BYTE = 127
"""The largest number whose varint has one byte."""
_VARINT_BITS = 70
"""The most bits of a varint: protobuf reads none with more than ten bytes."""
_INT32_MAX = (1 << 31) - 1
_UINT64_MAX = (1 << 64) - 1

_READY: Final = PeerState.READY
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
    """Decode the SEND frames at the beginning of ``data[begin:end]``, and append a `Send` event for
    each.

    Stops at the first frame that is not a plain SEND of an open producer, or at ``most`` events;
    returns the offset of the first frame that was not decoded.
    """
    unpack, unpack_entry, checksum_of = _SHAPE.unpack_from, _ENTRY_HEADER.unpack_from, crc32c
    view = memoryview(data)
    last = end - _SHORTEST_FRAME
    known, producer_id, size, least = b"", 0, 0, 0
    room = most - len(events)
    while begin <= last and room > 0:
        total, head, a, b, c, d = unpack(data, begin)
        if head != known:
            read = _head(head)
            if read is None or producers.get(read[0]) is not _READY:
                break
            known, (producer_id, size) = head, read
            least = size + 4 + ENTRY_HEADER_SIZE
        entry_at, stop = begin + 8 + size, begin + 4 + total
        if stop > end or total > frame_size_max or total < least:
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
        highest = 0
        if at != entry_at:
            read_highest = _highest(data, at, entry_at)
            if read_highest is None:
                break
            highest = read_highest
        magic, checksum, metadata_size = unpack_entry(data, entry_at)
        if (
            magic != MAGIC_CRC32C
            or metadata_size > stop - entry_at - ENTRY_HEADER_SIZE
            or checksum_of(view[entry_at + _CHECKED_FROM : stop], 0, _HOLD_GIL) != checksum
        ):
            break
        entry = data[entry_at:stop]
        messages = 1
        # Most messages are no batch, and most of those have the field's tag nowhere. (Searching
        # a small entry costs less than finding where its metadata ends.)
        if BATCH_TAG in entry:
            try:
                messages = messages_in(entry)
            except BadEntry:
                break
        events.append(_new_send(Send, (producer_id, sequence_id, highest, messages, False, entry)))
        begin = stop
        room -= 1
    return begin


@lru_cache(_HEADS)
def _head(head: bytes) -> tuple[int, int] | None:
    """A SEND's producer id and the size of its command; None if protobuf has to read it."""
    size, kind, length, tag, producer_id, tag2 = _HEAD.unpack(head)
    if kind != _SEND or tag != _PRODUCER_ID_TAG or tag2 != _SEQUENCE_ID_TAG:
        return None
    if size != length + 4 or length > _ONE_BYTE or producer_id > _ONE_BYTE:
        return None
    return producer_id, size


def _highest(data: bytes, at: int, end: int) -> int | None:
    """Read the highest sequence id of a SEND, 0 without one; None if protobuf has to read the SEND.

    ``at``: the offset after the sequence id, ``end``: that after the command. In between only the
    number of messages and the highest sequence id are understood, in this order, as clients write
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
    return highest if at == end and messages <= _INT32_MAX else None


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decode a varint; returns its value and the offset after it, beyond ``end`` if it is cut
    off.
    """
    value = shift = 0
    while at < end and shift < _VARINT_BITS:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _UINT64_MAX, at
        shift += 7
    return value, end + 1
