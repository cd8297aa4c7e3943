"""The loads of a bundle's topics: the busiest by name, and the sum of the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.load.fields import LoadDataError
from counterpoise.load.topic_loads import BUSIEST, LEAST_SHARE, BundleTopicLoads, TopicLoad

RATES = st.floats(0, 1e9)
TOPICS = st.dictionaries(st.text(min_size=1), st.builds(TopicLoad, RATES, RATES, RATES, RATES))


def shares(topics: dict[str, TopicLoad]) -> dict[str, float]:
    messages = sum(load.msg_rate_in + load.msg_rate_out for load in topics.values()) or 1.0
    through = sum(load.msg_throughput_in + load.msg_throughput_out for load in topics.values())
    return {
        name: max(
            (load.msg_rate_in + load.msg_rate_out) / messages,
            (load.msg_throughput_in + load.msg_throughput_out) / (through or 1.0),
        )
        for name, load in topics.items()
    }


@given(TOPICS | st.integers(20, 60).map(lambda n: {f"t{i}": TopicLoad(1.0 + i) for i in range(n)}))
def test_the_busiest_are_named_and_nothing_is_lost(topics: dict[str, TopicLoad]) -> None:
    found = BundleTopicLoads.from_json(BundleTopicLoads.of(topics).to_json())
    of_each = shares(topics)
    assert found.others == len(topics) - len(found.busiest)
    for column in range(4):
        kept = sum(load[column] for load in found.busiest.values()) + found.rest[column]
        assert kept == pytest.approx(sum(load[column] for load in topics.values()), abs=0.1)
    named = [of_each[name] for name in found.busiest]
    unnamed = [of_each[name] for name in topics if name not in found.busiest]
    assert len(named) <= BUSIEST
    assert all(share >= LEAST_SHARE for share in named)
    assert len(named) == BUSIEST or all(share < LEAST_SHARE for share in unnamed)
    assert not (named and unnamed) or min(named) >= max(unnamed)


def test_a_topic_with_exactly_the_least_share_is_named() -> None:
    topics = {"large": TopicLoad(99.0), "just": TopicLoad(1.0), "rest": TopicLoad(0.0)}
    assert [*BundleTopicLoads.of(topics).busiest] == ["large", "just"]


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -1.0])
def test_a_rate_that_is_none_counts_as_nothing(rate: float) -> None:
    odd = TopicLoad(rate, 1.0, rate, 100.0)
    found = BundleTopicLoads.from_json(BundleTopicLoads.of({"odd": odd}).to_json())
    assert found.busiest == {"odd": TopicLoad(0.0, 1.0, 0.0, 100.0)}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[]", "topic_loads"),
        ('{"busiest": {}, "rest": [0, 0, 0, 0]}', "topic_loads.others"),
        ('{"busiest": {}, "others": 1, "rest": [0, 0, 0]}', "topic_loads.rest"),
        ('{"busiest": {"t": [1, "x", 0, 0]}, "others": 0, "rest": []}', "busiest['t']"),
    ],
)
def test_a_malformed_column_is_named(text: str, where: str) -> None:
    with pytest.raises(LoadDataError) as caught:
        BundleTopicLoads.from_json(text)
    assert where in str(caught.value)
