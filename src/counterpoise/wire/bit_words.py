"""Sets of bits as Pulsar writes them: words of 64 bits, the lowest first, signed or not."""

from collections.abc import Iterable
from typing import Final

WORD_BITS: Final = 64
_WORD_BYTES: Final = WORD_BITS // 8
_WORD: Final = (1 << WORD_BITS) - 1


def bits_of(words: Iterable[int]) -> int:
    """Join 64-bit words, the lowest first, into one number.

    It joins bytes: shifting each word to its place would take minutes if words fill a frame.
    """
    return int.from_bytes(
        b"".join((word & _WORD).to_bytes(_WORD_BYTES, "little") for word in words), "little"
    )


def words_of(bits: int) -> list[int]:
    """Split a number of 0 or more into unsigned 64-bit words, the lowest first; empty for 0."""
    data = bits.to_bytes(words_for(bits.bit_length()) * _WORD_BYTES, "little")
    return [
        int.from_bytes(data[at : at + _WORD_BYTES], "little")
        for at in range(0, len(data), _WORD_BYTES)
    ]


def words_for(bits: int) -> int:
    """How many 64-bit words a number of ``bits`` bits needs."""
    return -(-bits // WORD_BITS)
