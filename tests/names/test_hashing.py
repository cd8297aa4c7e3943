from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.names.hashing import murmur3_32, topic_at, topic_hash

REFERENCE = [
    (b"", 0x00000000),
    (b"\x00", 0x514E28B7),
    (b"\x21\x43\x65\x87", 0xF55B516B),
    (b"\x21\x43\x65", 0x7E4A8634),
    (b"\x21\x43", 0xA0F7B07A),
    (b"\x21", 0x72661CF4),
    (b"\xff\xff\xff\xff", 0x76293B50),
]
"""Published test vectors of Murmur3 x86 32 with seed 0."""


@pytest.mark.parametrize(("data", "expected"), REFERENCE)
def test_murmur3_published_vectors(data, expected):
    assert murmur3_32(data) == expected & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("topic", "point"),
    [
        ("persistent://public/default/my-topic", 732775927),
        ("persistent://public/default/my-topic-partition-0", 1028342325),
    ],
)
def test_where_pulsar_puts_a_topic(topic, point):
    assert topic_hash(topic) == point


@given(st.text(st.characters(blacklist_categories=("Cs",))))
def test_a_topic_is_on_the_ring(text):
    assert topic_hash(text) == crc32(text.encode()) <= 0xFFFFFFFF


@given(st.text(st.characters(blacklist_categories=("Cs",))), st.integers(0, 0xFFFFFFFF))
def test_a_topic_is_named_for_any_point_of_the_ring(start, point):
    name = topic_at(start, point)
    assert topic_hash(name) == point
    assert name.startswith(start)
    assert set(name[len(start) :]) <= {"0", "1"}


@given(st.binary(max_size=40))
def test_keys_stay_in_their_ranges(key):
    assert 0 <= murmur3_32(key) <= 0x7FFFFFFF
