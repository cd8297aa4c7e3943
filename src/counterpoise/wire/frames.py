"""Cuts bytes of the binary protocol into frames: for clients, recordings and replays."""

import struct
from collections.abc import Iterator

from counterpoise.wire.proto.base_pb2 import BaseCommand

_SIZES = struct.Struct(">II")
_TOTAL_SIZE = 4


def frames_in(buffer: bytearray) -> Iterator[tuple[BaseCommand, bytes]]:
    """Remove the complete frames from ``buffer``; yields each command with its entry."""
    while len(buffer) >= _SIZES.size:
        total, size = _SIZES.unpack_from(buffer)
        if len(buffer) < _TOTAL_SIZE + total:
            return
        body_end = _SIZES.size + size
        command = BaseCommand.FromString(bytes(buffer[_SIZES.size : body_end]))
        entry = bytes(buffer[body_end : _TOTAL_SIZE + total])
        del buffer[: _TOTAL_SIZE + total]
        yield command, entry


def cut_frames(data: bytes) -> Iterator[tuple[BaseCommand, bytes]]:
    """The complete frames in ``data``: yields each one's command and all of its bytes."""
    begin = 0
    while begin < len(data):
        total, size = _SIZES.unpack_from(data, begin)
        body, end = begin + _SIZES.size, begin + _TOTAL_SIZE + total
        yield BaseCommand.FromString(data[body : body + size]), data[begin:end]
        begin = end
