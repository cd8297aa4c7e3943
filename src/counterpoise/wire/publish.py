"""The fast path of publishing: a run of plain SEND frames, read without protobuf.

A client that publishes unbatched sends one small SEND a message, all of one shape: producer id
below 128, a sequence id, nothing else. This reader takes as many of those as it finds and leaves
everything out of the ordinary, errors included, to the general reader in `protocol`.
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
_ENTRY_HEADER = struct.Struct(">2sII")
#: An entry's size beside its metadata; no frame worth the fast path is shorter than this.
_SHORTEST_FRAME = 8 + 8 + ENTRY_HEADER_SIZE

_new_send = tuple.__new__


def take_sends(
    data: bytes,
    begin: int,
    end: int,
    frame_size_max: int,
    producers: dict[int, PeerState],
    events: "list[Event]",
) -> int:
    """Append a `Send` for each plain SEND frame from ``begin`` on; return where they stop."""
    unpack, unpack_entry, checksum_of, ready = (
        _SHAPE.unpack_from,
        _ENTRY_HEADER.unpack_from,
        crc32c,
        PeerState.READY,
    )
    last = end - _SHORTEST_FRAME
    while begin <= last:
        total, size, kind, length, tag, producer_id, tag2, a, b, c, d = unpack(data, begin)
        if kind != _SEND or tag != _PRODUCER_ID_TAG or tag2 != _SEQUENCE_ID_TAG:
            break
        if length == 6 and a & b >= 128 > c:
            sequence_id = a & 127 | (b & 127) << 7 | c << 14
        elif length == 5 and a >= 128 > b:
            sequence_id = a & 127 | b << 7
        elif length == 7 and a & b & c >= 128 > d:
            sequence_id = a & 127 | (b & 127) << 7 | (c & 127) << 14 | d << 21
        elif length == 4 and a < 128:
            sequence_id = a
        else:
            break
        stop = begin + 4 + total
        if (
            stop > end
            or total > frame_size_max
            or size != length + 4
            or total < size + 4 + ENTRY_HEADER_SIZE
            or producer_id > 127
            or producers.get(producer_id) is not ready
        ):
            break
        entry = data[begin + 8 + size : stop]
        magic, checksum, metadata_size = unpack_entry(entry)
        if (
            magic != MAGIC_CRC32C
            or metadata_size > len(entry) - ENTRY_HEADER_SIZE
            or checksum_of(entry[6:]) != checksum
        ):
            break
        events.append(_new_send(Send, (producer_id, sequence_id, 0, 1, False, entry)))
        begin = stop
    return begin
