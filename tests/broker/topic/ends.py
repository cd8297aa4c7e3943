"""The message ids with which a client says "the beginning" and "the end"."""

from counterpoise.names.position import Position

EARLIEST = Position(-1, -1)
LATEST = Position(0x7FFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFF)
