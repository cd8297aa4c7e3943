"""A recording of what clients did, as bytes: a header line, then records one after the other.

A record is its body's length and CRC-32 (two big-endian 32-bit numbers), then the body: the kind
(8 bits), the connection's number (32), microseconds since the recording began (64), and the rest:
a whole frame from the client, the command alone of a frame to the client, or nothing.
Authentication data is never in it.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import BinaryIO, Final

from counterpoise.faults.errors import InvalidRecording

HEADER: Final = b"counterpoise recording 1\n"
BODY_MAX: Final = 256 * 1024 * 1024
_LENGTH_CRC: Final = struct.Struct(">II")
_BODY: Final = struct.Struct(">BIQ")


class RecordKind(IntEnum):
    """The kind of a record; the value is what the file contains."""

    OPENED = 1
    FROM_CLIENT = 2
    TO_CLIENT = 3
    CLOSED = 4


@dataclass(frozen=True, slots=True)
class TrafficRecord:
    """One event on one client connection, in a recording of a broker's traffic."""

    kind: RecordKind
    connection: int
    """The connection's number in the recording."""
    at_us: int
    """Microseconds since the recording began."""
    data: bytes = b""
    """The client's frame, or the command of a frame to the client; otherwise empty."""

    @property
    def size(self) -> int:
        """The record's size in a file, in bytes."""
        return _LENGTH_CRC.size + _BODY.size + len(self.data)

    def to_bytes(self) -> bytes:
        """The record as it is written to a file."""
        body = _BODY.pack(self.kind, self.connection, self.at_us) + self.data
        return _LENGTH_CRC.pack(len(body), zlib.crc32(body)) + body


def read_recording(file: BinaryIO) -> Iterator[TrafficRecord]:
    """Read the records of a recording of traffic; raises `InvalidRecording`.

    An incomplete last record, as a killed writer leaves it, is omitted.
    """
    header = file.read(len(HEADER))
    if header != HEADER:
        raise InvalidRecording(
            "this is no recording of version 1: it begins otherwise. "
            "Make one with 'counterpoise up --record FILE'."
        )
    number = 0
    while len(begin := file.read(_LENGTH_CRC.size)) == _LENGTH_CRC.size:
        number += 1
        length, crc = _LENGTH_CRC.unpack(begin)
        if not _BODY.size <= length <= BODY_MAX:
            raise InvalidRecording(_damaged(number, f"its length is {length}"))
        body = file.read(length)
        if len(body) < length:
            break
        if zlib.crc32(body) != crc:
            raise InvalidRecording(_damaged(number, "its checksum does not match"))
        kind, connection, at_us = _BODY.unpack_from(body)
        if kind not in set(RecordKind):
            raise InvalidRecording(_damaged(number, f"its kind is {kind}"))
        yield TrafficRecord(RecordKind(kind), connection, at_us, body[_BODY.size :])


def _damaged(number: int, why: str) -> str:
    return f"record {number} is damaged: {why}. Record again, or replay a copy of the file."
