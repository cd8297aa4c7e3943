"""Sets of bits as Pulsar writes them: words of 64 bits, the lowest first, signed or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

WORD_BITS: Final = 64
_WORD_BYTES: Final = WORD_BITS // 8
_WORD: Final = (1 << WORD_BITS) - 1


def bits_of(words: Iterable[int]) -> int:
    """All words as one number.

    By bytes: to shift each word to its place takes minutes for those that fill a frame.
    """
    return int.from_bytes(
        b"".join((word & _WORD).to_bytes(_WORD_BYTES, "little") for word in words), "little"
    )


def words_of(bits: int) -> list[int]:
    """The words of a number, without a sign; none of 0."""
    data = bits.to_bytes(words_for(bits.bit_length()) * _WORD_BYTES, "little")
    return [
        int.from_bytes(data[at : at + _WORD_BYTES], "little")
        for at in range(0, len(data), _WORD_BYTES)
    ]


def words_for(bits: int) -> int:
    """How many words so many bits need."""
    return -(-bits // WORD_BITS)
