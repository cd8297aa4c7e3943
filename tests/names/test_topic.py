import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName

from .strategies import topics


@given(topics)
def test_a_name_reads_back_as_it_was_written(topic):
    assert TopicName.parse(str(topic)) == topic
    assert hash(TopicName.parse(str(topic))) == hash(topic)


@given(topics, st.integers(0, 2**31 - 1))
def test_a_partition_knows_its_index_and_its_whole(topic, index):
    part = topic.partition(index)
    assert part.partition_index == index
    if part != topic:
        assert part.partitioned_name == topic
    assert part.partition(index) == part


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("orders", "persistent://public/default/orders"),
        ("acme/shop/orders", "persistent://acme/shop/orders"),
        ("persistent://acme/shop/orders", "persistent://acme/shop/orders"),
        ("non-persistent://acme/shop/orders", "non-persistent://acme/shop/orders"),
    ],
)
def test_short_forms(text, complete):
    topic = TopicName.parse(text)
    assert str(topic) == complete
    assert topic.namespace_name == NamespaceName(topic.tenant, topic.namespace)
    assert topic.is_persistent == complete.startswith("persistent")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a/b",
        "a/b/c/d",
        "persistent://a/b",
        "persistent://a",
        "persistent://a/b/",
        "persistent://a/b/ ",
        "persistent://a/b/c/d",
        "persistent:///b/c",
        "persistent://a/b c/d",
        "http://a/b/c",
        "://a/b/c",
    ],
)
def test_what_is_no_topic_is_refused_with_the_text_in_the_sentence(text):
    with pytest.raises(InvalidName, match=r"expected|must|missing") as failure:
        TopicName.parse(text)
    assert repr(text)[1:-1] in str(failure.value)


def test_a_name_is_measured_in_bytes():
    longest = "é" * 512
    assert TopicName.parse(longest).local_name == longest
    with pytest.raises(InvalidName, match="has 1025 bytes, at most 1024"):
        TopicName.parse(longest + "x")


@pytest.mark.parametrize(
    ("local", "index"),
    [
        ("x", -1),
        ("x-partition-0", 0),
        ("x-partition-12", 12),
        ("x-partition-01", -1),
        ("x-partition--1", -1),
        ("x-partition-", -1),
        ("x-partition-a", -1),
        ("x-partition-1-partition-2", 2),
        ("x-partition-99999999999", -1),
        ("x-partition-٣", -1),
    ],
)
def test_partition_index(local, index):
    assert TopicName("persistent", "t", "n", local).partition_index == index


def test_local_names_are_encoded_for_paths_as_java_does():
    topic = TopicName("persistent", "t", "n", "a b*c~d:é")
    assert topic.encoded_local_name == "a+b*c%7Ed%3A%C3%A9"


def test_topics_sort_by_their_parts():
    names = ["persistent://b/a/a", "persistent://a/b/c", "non-persistent://a/b/c"]
    assert [str(each) for each in sorted(map(TopicName.parse, names))] == sorted(names)
