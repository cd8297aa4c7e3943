"""Numbers as Protobuf and Java write them, at each place where their encoding becomes longer."""

import pytest
from google.protobuf.wrappers_pb2 import Int64Value
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.wire.bit_words import bits_of, words_for, words_of
from counterpoise.wire.varint import signed, varint

ENDS = ((1 << 63) - 1, -1, -(1 << 63))
EDGES = [(1 << bits) + more for bits in (7, 14, 21, 28, 35, 42, 49, 56, 62) for more in (-1, 0, 1)]


@pytest.mark.parametrize(
    "value", [1, *EDGES, (1 << 28) + (1 << 14) - 1, (1 << 63) - 1, -1, -(1 << 63)]
)
def test_a_number_is_encoded_as_protobufs_own(value: int) -> None:
    assert varint(value) == Int64Value(value=value).SerializeToString()[1:]


@pytest.mark.parametrize(
    ("value", "number"),
    [(0, 0), ((1 << 63) - 1, (1 << 63) - 1), (1 << 63, -(1 << 63)), ((1 << 64) - 1, -1)],
)
def test_the_highest_bit_is_the_sign(value: int, number: int) -> None:
    assert signed(value) == number


@pytest.mark.parametrize(("bits", "words"), [(0, 0), (1, 1), (64, 1), (65, 2), (128, 2), (129, 3)])
def test_bits_need_so_many_words(bits: int, words: int) -> None:
    assert words_for(bits) == words


@given(st.lists(st.integers(-(1 << 63), (1 << 64) - 1), max_size=5))
def test_words_signed_or_not_are_the_same_bits(words: list[int]) -> None:
    unsigned = [word % (1 << 64) for word in words]
    bits = bits_of(words)
    assert bits == sum(word << 64 * place for place, word in enumerate(unsigned))
    while unsigned and not unsigned[-1]:
        unsigned.pop()
    assert words_of(bits) == unsigned
