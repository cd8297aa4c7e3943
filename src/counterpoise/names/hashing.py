"""Pulsar's two hashes: where a topic lives (CRC-32) and where a key goes (Murmur3)."""

from __future__ import annotations

from struct import unpack
from zlib import crc32

FULL_UPPER_BOUND = 0xFFFFFFFF
"""The last point of the hash ring; the only upper bound that belongs to its own bundle."""

_MASK32 = 0xFFFFFFFF
_C1 = 0xCC9E2D51
_C2 = 0x1B873593


def topic_hash(topic: str) -> int:
    """Point of the ring for a complete topic name, domain and partition suffix included.

    CRC-32 over UTF-8, unsigned (``NamespaceService`` picks Guava's ``crc32`` and pads it).
    """
    return crc32(topic.encode())


def murmur3_32(data: bytes, seed: int = 0) -> int:
    """Murmur3 x86 32-bit with the sign bit cleared, as Pulsar's ``Murmur3_32Hash`` has it.

    0 to 0x7fffffff. Routes a key to a partition (modulo the number of partitions).
    """
    length = len(data)
    state = seed
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


STICKY_RANGE_SIZE = 65536
"""Slots of a Key_Shared subscription (``StickyKeyConsumerSelector.DEFAULT_RANGE_SIZE``)."""


def sticky_key_hash(key: bytes, *, range_size: int = STICKY_RANGE_SIZE) -> int:
    """Slot of a Key_Shared message key, 0 to ``range_size`` - 1, before 0 is reserved."""
    return murmur3_32(key) % range_size
