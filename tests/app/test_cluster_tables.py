"""Rows of topics, bundles and brokers from what `broker-stats/topics` answers."""

from typing import Any

import pytest

from counterpoise.app import cluster_tables
from counterpoise.app.errors import UserError

FIRST, SECOND = "t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"


def stats(first: int, *consumers: int) -> dict[str, Any]:
    """Figures that count up from a number, and subscriptions with so many consumers each."""
    return {
        "msgRateIn": first, "msgRateOut": first + 1, "msgThroughputIn": first + 2,
        "msgThroughputOut": first + 3, "producerCount": first + 4,
        "subscriptions": {
            str(number): {"consumers": [{}] * count, "msgBacklog": 10 * count}
            for number, count in enumerate(consumers)
        },
    }  # fmt: skip


ANSWER = {
    "t/n": {
        FIRST.rpartition("/")[2]: {"persistent": {"a": stats(1, 2, 3), "b": stats(11, 1)}},
        SECOND.rpartition("/")[2]: {"non-persistent": {"c": stats(21)}, "persistent": {"d": {}}},
    }
}


def test_each_topic_has_its_own_figures() -> None:
    first, second, third, fourth = cluster_tables.topic_rows("b:1", ANSWER)
    assert first == cluster_tables.TopicRow("a", FIRST, "b:1", 1.0, 2.0, 3.0, 4.0, 5, 5, 2, 50)
    assert second == cluster_tables.TopicRow(
        "b", FIRST, "b:1", 11.0, 12.0, 13.0, 14.0, 15, 1, 1, 10
    )
    assert third == cluster_tables.TopicRow("c", SECOND, "b:1", 21.0, 22.0, 23.0, 24.0, 25, 0, 0, 0)
    assert fourth == cluster_tables.TopicRow("d", SECOND, "b:1", 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0)


def test_bundles_and_brokers_are_the_sums_of_their_topics() -> None:
    topics = cluster_tables.topic_rows("b:1", ANSWER)
    other = cluster_tables.topic_rows(
        "b:2", {"t/n": {FIRST.rpartition("/")[2]: {"persistent": {"e": stats(1)}}}}
    )
    assert cluster_tables.bundle_rows([*topics, *other]) == [
        cluster_tables.BundleRow(FIRST, "b:1", 2, 12.0, 14.0, 16.0, 18.0, 20, 6, 60),
        cluster_tables.BundleRow(SECOND, "b:1", 2, 21.0, 22.0, 23.0, 24.0, 25, 0, 0),
        cluster_tables.BundleRow(FIRST, "b:2", 1, 1.0, 2.0, 3.0, 4.0, 5, 0, 0),
    ]
    assert cluster_tables.broker_row("b:1", topics, leader=True) == cluster_tables.BrokerRow(
        "b:1", True, 2, 4, 33.0, 36.0, 39.0, 42.0, 45, 6
    )
    silent = cluster_tables.unasked("b:3", "hangs", leader=False)
    assert (silent.broker, silent.leader, silent.error) == ("b:3", False, "hangs")


@pytest.mark.parametrize("answer", [[], {"t/n": []}, {"t/n": {"x": {"persistent": {"a": 1}}}}])
def test_what_is_no_such_answer_is_a_sentence(answer: Any) -> None:
    with pytest.raises(UserError, match="b:1 does not answer with its topics"):
        cluster_tables.topic_rows("b:1", answer)
