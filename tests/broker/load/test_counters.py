"""From counters to rates."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.broker.load.counters import STEP, BundleRates, TopicCount
from counterpoise.load.report import NamespaceBundleStats

# A named tuple's method, which is public.
replace = TopicCount._replace
TOPIC = TopicCount("persistent://t/n/a", "t/n/0x0_0x1", 1, 100, 1000, 200, 2000, 2, 3, 5)


def taken(
    rates: BundleRates, counts: Iterable[TopicCount], owned: Iterable[str], now_s: float
) -> dict[str, NamespaceBundleStats]:
    taking = rates.taking(counts, owned, now_s)
    while True:
        try:
            next(taking)
        except StopIteration as end:
            return end.value


def test_rates_are_what_passed_between_two_calls() -> None:
    rates = BundleRates()
    taken(rates, [TOPIC], [], 10.0)
    later = replace(TOPIC, msg_in=150, bytes_in=1500, msg_out=300, bytes_out=4000)
    stats = taken(rates, [later], [], 12.5)[TOPIC.bundle]
    assert (stats.msg_rate_in, stats.msg_throughput_in) == (20.0, 200.0)
    assert (stats.msg_rate_out, stats.msg_throughput_out) == (40.0, 800.0)
    assert (stats.producer_count, stats.consumer_count, stats.topics) == (2, 3, 1)
    assert stats.cache_size == 5
    assert rates.topics[TOPIC.topic].msg_rate_in == 20.0


def test_the_first_call_has_no_rates() -> None:
    stats = taken(BundleRates(), [TOPIC], [], 10.0)[TOPIC.bundle]
    assert (stats.msg_rate_in, stats.msg_throughput_out) == (0.0, 0.0)
    assert stats.topics == 1


def test_a_topic_loaded_in_between_counts_from_zero() -> None:
    rates = BundleRates()
    taken(rates, [], [], 0.0)
    assert taken(rates, [TOPIC], [], 2.0)[TOPIC.bundle].msg_rate_in == 50.0


@pytest.mark.parametrize("passed", [10, 100, 900])
def test_a_topic_loaded_again_counts_from_zero(passed: int) -> None:
    """However much passes before it is measured again: less than had passed, as much, or more."""
    rates = BundleRates()
    taken(rates, [replace(TOPIC, msg_out=100)], [], 0.0)
    again = replace(TOPIC, opened=2, msg_in=passed, msg_out=passed, bytes_out=passed)
    stats = taken(rates, [again], [], 1.0)[TOPIC.bundle]
    assert (stats.msg_rate_in, stats.msg_rate_out, stats.msg_throughput_out) == (passed,) * 3


@pytest.mark.parametrize(("msg_in", "msg_out"), [(7, 0), (7, 900), (900, 7)])
def test_counters_that_fall_start_again_and_never_give_a_negative_rate(
    msg_in: int, msg_out: int
) -> None:
    rates = BundleRates()
    taken(rates, [TOPIC], [], 0.0)
    counts = {"msg_in": msg_in, "bytes_in": 10 * msg_in}
    fallen = replace(TOPIC, **counts, msg_out=msg_out, bytes_out=10 * msg_out)
    stats = taken(rates, [fallen], [], 1.0)[TOPIC.bundle]
    assert (stats.msg_rate_in, stats.msg_throughput_in) == (msg_in, 10 * msg_in)
    assert (stats.msg_rate_out, stats.msg_throughput_out) == (msg_out, 10 * msg_out)


def test_many_topics_are_counted_in_steps() -> None:
    rates = BundleRates()
    topics = [replace(TOPIC, topic=f"persistent://t/n/{n}") for n in range(2 * STEP + 1)]
    taken(rates, topics, [], 0.0)
    drawn = 0

    def counts() -> Iterator[TopicCount]:
        nonlocal drawn
        for each in topics:
            drawn += 1
            yield replace(each, msg_in=each.msg_in + 1)

    taking, steps = rates.taking(counts(), [], 2.0), []

    def to_the_end() -> Iterator[Any]:
        yield (yield from taking)

    stats: Any = None
    for stats in to_the_end():  # noqa: B007 - the last one is what it returns
        steps.append(drawn)
    assert steps == [STEP, 2 * STEP, len(topics)]
    assert stats[TOPIC.bundle].msg_rate_in == (2 * STEP + 1) / 2


def test_idle_topics_share_one_record_of_nothing() -> None:
    rates = BundleRates()
    idle = [replace(TOPIC, topic=f"persistent://t/n/{n}") for n in range(3)]
    taken(rates, idle, [], 0.0)
    stats = taken(rates, idle, [], 1.0)[TOPIC.bundle]
    assert (stats.topics, stats.producer_count, stats.msg_rate_in) == (3, 6, 0)
    assert len({id(each) for each in rates.topics.values()}) == 1


def test_topics_of_a_bundle_are_summed_and_owned_bundles_listed() -> None:
    rates = BundleRates()
    other = replace(TOPIC, topic="persistent://t/n/b")
    third = replace(TOPIC, topic="persistent://t/n/c", bundle="t/n/0x1_0x2")
    taken(rates, [TOPIC, other, third], [], 0.0)
    moved = [replace(each, msg_in=each.msg_in + 5) for each in (TOPIC, other, third)]
    stats = taken(rates, moved, ["t/n/0x2_0x3"], 1.0)
    assert list(stats) == ["t/n/0x0_0x1", "t/n/0x1_0x2", "t/n/0x2_0x3"]
    assert [each.msg_rate_in for each in stats.values()] == [10.0, 5.0, 0.0]
    assert [each.topics for each in stats.values()] == [2, 1, 0]


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 10_000), st.floats(0.001, 100)), min_size=1, max_size=20
    )
)
def test_rates_times_time_give_every_message_back(steps: list[tuple[int, float]]) -> None:
    rates, clock, total, seen = BundleRates(), 0.0, 0, 0.0
    taken(rates, [replace(TOPIC, msg_in=0)], [], clock)
    for messages, seconds in steps:
        before, clock, total = clock, clock + seconds, total + messages
        stats = taken(rates, [replace(TOPIC, msg_in=total)], [], clock)
        seen += stats[TOPIC.bundle].msg_rate_in * (clock - before)
    assert seen == pytest.approx(total)
