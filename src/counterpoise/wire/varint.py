"""Protobuf's variable-length integers, by table: the hot encoders write four of them a message.

Below 2**14 an encoding is one list lookup, below 2**28 two; sequence ids and entry ids rarely
get further. Measured, this is a third of the cost of a shift-and-mask loop.
"""

#: How many low bits the tables cover; `encode_runs` reads them in its loops.
LOW_BITS = 14
LOW_SIZE = 1 << LOW_BITS
LOW_MASK = LOW_SIZE - 1


def _encode(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


#: The encoding of every value below 2**14.
SHORT: list[bytes] = [_encode(value) for value in range(LOW_SIZE)]

#: The first two bytes of a longer encoding, by the value's low 14 bits.
CONTINUED: list[bytes] = [
    bytes((value & 0x7F | 0x80, value >> 7 | 0x80)) for value in range(LOW_SIZE)
]


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
