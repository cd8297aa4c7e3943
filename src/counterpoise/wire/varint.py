"""Encodes Protobuf's variable-length integers by table: a message needs four of them.

Below 2**14 an encoding is one list lookup, below 2**28 two; sequence ids and entry ids rarely
exceed that. As measured, this costs a third of a shift-and-mask loop.
"""

LOW_BITS = 14
"""The tables have the encoding of every number of this many bits; `encode_runs` reads them, too."""
LOW_SIZE = 1 << LOW_BITS
LOW_MASK = LOW_SIZE - 1


_BYTES = [bytes((value,)) for value in range(256)]
_LAST, _MORE = _BYTES[:0x80], _BYTES[0x80:]

SHORT: list[bytes] = _LAST + [low + high for high in _LAST[1:] for low in _MORE]
"""The encoding of every value below 2**14."""

CONTINUED: list[bytes] = [low + high for high in _MORE for low in _MORE]
"""The first two bytes of a longer encoding, by the value's low 14 bits."""


def varint(value: int) -> bytes:
    """Encode ``value``; a negative one is written as its two's complement in 64 bits."""
    if 0 <= value < LOW_SIZE:
        return SHORT[value]
    if value < 0:
        value &= 0xFFFF_FFFF_FFFF_FFFF
    high = value >> LOW_BITS
    if high < LOW_SIZE:
        return CONTINUED[value & LOW_MASK] + SHORT[high]
    return CONTINUED[value & LOW_MASK] + varint(high)


def signed(value: int) -> int:
    """Read an unsigned 64-bit field as the signed number a Java client wrote into it."""
    return value if value < 1 << 63 else value - (1 << 64)
