"""Pulsar's two hashes: of topics to bundles (CRC-32), and of keys to partitions (Murmur3)."""

from functools import cache
from struct import unpack
from zlib import crc32

FULL_UPPER_BOUND = 0xFFFFFFFF
"""The last point of the hash ring; the only upper bound that belongs to its own bundle."""

_MASK32 = 0xFFFFFFFF
_C1 = 0xCC9E2D51
_C2 = 0x1B873593


def topic_hash(topic: str) -> int:
    """A topic's point on the 32-bit hash ring, from its complete name with domain and partition
    suffix.

    CRC-32 over UTF-8, unsigned (Guava's ``crc32``, as Pulsar's ``NamespaceService`` uses it).
    """
    return crc32(topic.encode())


_DIGITS = 32
"""How many digits, ``0`` or ``1``, `topic_at` appends to a name.

32 are enough to reach each of the 2³² points, because CRC-32's polynomial is primitive."""


def topic_at(start: str, point: int) -> str:
    """Make a topic name that begins with ``start`` and whose `topic_hash` is ``point``.

    CRC-32 is linear over XOR: each of 32 appended digits, ``0`` or ``1``, flips a fixed set of the
    hash's bits. Which digits have to be ``1`` is a system of linear equations.
    """
    zeros = start + "0" * _DIGITS
    missing, digits = topic_hash(zeros) ^ point, 0
    for bits, flipped in _flips():
        if missing ^ bits < missing:
            missing ^= bits
            digits ^= flipped
    return f"{start}{digits:0{_DIGITS}b}"


@cache
def _flips() -> tuple[tuple[int, int], ...]:
    """Return 32 pairs of hash bits and the appended digits that flip exactly these bits.

    Both are bit masks. Each pair has another highest hash bit, and the highest one comes first
    (Gaussian elimination).
    """
    zeros = crc32(b"0" * _DIGITS)
    rows: dict[int, tuple[int, int]] = {}
    for place in range(_DIGITS):
        digits = 1 << place
        bits = crc32(f"{digits:0{_DIGITS}b}".encode()) ^ zeros
        while bits.bit_length() in rows:
            above, those = rows[bits.bit_length()]
            bits, digits = bits ^ above, digits ^ those
        rows[bits.bit_length()] = bits, digits
    return tuple(rows[height] for height in sorted(rows, reverse=True))


def murmur3_32(data: bytes) -> int:
    """Murmur3 x86 32-bit with the sign bit cleared, as Pulsar's ``Murmur3_32Hash`` has it.

    Returns 0 to 0x7fffffff. Modulo the number of partitions it is the partition of a key.
    """
    length = len(data)
    state = 0
    # The last one to three bytes are mixed in like a word, but without the rotation after it.
    for word in unpack(f"<{length >> 2}I", data[: length & ~3]):
        block = (word * _C1) & _MASK32
        state ^= (((block << 15) | (block >> 17)) * _C2) & _MASK32
        state = ((((state << 13) | (state >> 19)) & _MASK32) * 5 + 0xE6546B64) & _MASK32
    if length & 3:
        block = (int.from_bytes(data[length & ~3 :], "little") * _C1) & _MASK32
        state ^= (((block << 15) | (block >> 17)) * _C2) & _MASK32
    state ^= length
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _MASK32
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _MASK32
    return (state ^ (state >> 16)) & 0x7FFFFFFF
