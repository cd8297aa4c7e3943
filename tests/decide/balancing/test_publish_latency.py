"""When publish latency stops moves: never for noise, always within ten seconds of a doubling."""

import random
from collections.abc import Iterator, Sequence
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.decide.balancing.publish_latency import (
    LatencyLimit,
    LatencyLook,
    LatencyRise,
    PublishCounts,
    latency_rise,
)
from counterpoise.pipeline.publish_latencies import LatencyWatchOptions

LIMIT = LatencyLimit()
EVERY_S = LatencyWatchOptions().every_s
WITHIN_S = 10
DAYS = 30
ROUNDS_A_DAY = 96
LOOKS_A_ROUND = 20


def looks(
    chance: random.Random, rates: Sequence[float], usual_ms: list[float]
) -> Iterator[LatencyLook]:
    """A small cluster's: each message's latency is noisy, and now and then a broker pauses."""
    counts = [PublishCounts(0.0, 0.0)] * len(rates)
    while True:
        yield {f"b{index}": each for index, each in enumerate(counts)}
        for index, (rate, usual) in enumerate(zip(rates, usual_ms, strict=True)):
            messages = max(1, round(rate * EVERY_S * chance.uniform(0.5, 1.5)))
            # The mean of so many, each of which is spread as wide as the mean is long.
            mean_ms = max(0.1 * usual, chance.gauss(usual, usual / messages**0.5))
            if chance.random() < 0.02:  # it collects garbage: what comes meanwhile waits
                mean_ms += 1000 * chance.uniform(0.0, 0.7) ** 2 / (2 * EVERY_S)
            was = counts[index]
            counts[index] = PublishCounts(
                was.messages + messages, was.latency_ms + messages * mean_ms
            )


def test_thirty_quiet_days_stop_nothing() -> None:
    """A round of half a minute each quarter of an hour, on three brokers with noisy figures."""
    chance = random.Random(30)
    stopped = []
    for _ in range(DAYS * ROUNDS_A_DAY):
        rates = [chance.choice((2.0, 20.0, 500.0)) for _ in range(3)]
        usual_ms = [chance.choice((2.0, 8.0, 60.0)) for _ in range(3)]
        trace = list(islice(looks(chance, rates, usual_ms), 2 + LOOKS_A_ROUND))
        before, moving = trace[:2], trace[1:]
        ends = range(LIMIT.looks, len(moving) + 1)
        stopped += [rise for end in ends if (rise := latency_rise(before, moving[:end], LIMIT))]
    assert stopped == []


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32),
    usual_ms=st.floats(0.5, 100.0),
    rate=st.floats(100.0, 5000.0),
    quiet=st.integers(0, 8),
)
def test_a_doubling_stops_moves_within_ten_seconds(
    seed: int, usual_ms: float, rate: float, quiet: int
) -> None:
    """However long moves went well before: the broker is named, with what it was and what it is."""
    usual = [usual_ms, usual_ms]
    trace = looks(random.Random(seed), [rate, rate], usual)
    before = list(islice(trace, 3))
    since = [before[-1], *islice(trace, quiet)]
    known = [before[-1]["b1"].latency_ms / before[-1]["b1"].messages, usual_ms]
    usual[1] = 2.5 * max(known) + 30  # from here on
    within = int(WITHIN_S / EVERY_S) - 1  # one look may be under way when it begins
    since += islice(trace, within)
    ends = range(len(since) - within, len(since) + 1)
    found = [latency_rise(before, since[:end], LIMIT) for end in ends]
    stops = [each for each in found if each is not None and each.broker == "b1"]
    assert stops, found
    assert stops[0].now_ms >= 2 * stops[0].before_ms


def means(*broker_ms: float, messages: float = 100.0) -> list[LatencyLook]:
    """The looks at one broker whose mean was this between each two."""
    counts = [PublishCounts(7.0, 70.0)]
    for each in broker_ms:
        was = counts[-1]
        counts.append(PublishCounts(was.messages + messages, was.latency_ms + messages * each))
    return [{"b": each} for each in counts]


def since(*broker_ms: float, messages: float = 100.0) -> LatencyRise | None:
    return latency_rise(means(10.0, 10.0), means(*broker_ms, messages=messages), LIMIT)


def test_what_stops_moves_and_what_does_not() -> None:
    rise = since(10.0, 40.0, 50.0, 60.0, 50.0)
    assert rise == LatencyRise("b", 10.0, 50.0, LIMIT)
    assert rise.sentence == (
        "publish latency of b rose from 10.0 ms to 50.0 ms while bundles moved: no further move is "
        "begun (--stop-at-latency x2)"
    )
    quick = latency_rise(means(0.0, 0.0), means(*4 * [30.0]), LIMIT)
    assert quick == LatencyRise("b", 0.0, 30.0, LIMIT), "it counts whole milliseconds"
    assert since(40.0, 50.0, 60.0) is None, "not for long enough"
    assert since(40.0, 10.0, 90.0, 90.0, 90.0) is None, "not at every look"
    assert since(29.0, 29.0, 29.0, 29.0) is None, "more than twice, and less than 20 ms more"
    assert since(40.0, 50.0, 60.0, 50.0, messages=3.0) is None, "of a few messages"
    usual = means(30.0, 30.0)
    assert latency_rise(usual, means(55.0, 55.0, 55.0, 55.0), LIMIT) is None, "not twice"


def test_a_broker_that_was_empty_is_measured_against_the_others() -> None:
    before: list[LatencyLook] = [
        {"a": PublishCounts(0.0, 0.0), "b": PublishCounts(5.0, 50.0)},
        {"a": PublishCounts(200.0, 2000.0), "b": PublishCounts(5.0, 50.0)},
    ]
    rise = latency_rise(before, means(90.0, 90.0, 90.0, 90.0), LIMIT)
    assert rise == LatencyRise("b", 10.0, 90.0, LIMIT)


@pytest.mark.parametrize(("messages", "stops"), [(99.0, False), (100.0, True)])
def test_a_mean_is_one_from_a_hundred_messages_on(messages: float, stops: bool) -> None:
    """Of the broker's own, before and since, and of the one that an empty one is compared with."""
    slow = means(*4 * [90.0], messages=25.0 if stops else 24.75)
    assert bool(latency_rise(means(10.0), slow, LIMIT)) is stops
    few = means(10.0, messages=messages)
    assert bool(latency_rise(few, means(*4 * [90.0]), LIMIT)) is stops
    other: list[LatencyLook] = [{"a": look["b"]} for look in few]
    assert bool(latency_rise(other, means(*4 * [90.0]), LIMIT)) is stops


def test_a_rise_is_one_from_the_limit_on_at_the_mean_and_half_of_it_at_each_look() -> None:
    assert since(30.0, 30.0, 30.0, 30.0) == LatencyRise("b", 10.0, 30.0, LIMIT)
    assert since(20.0, 30.0, 30.0, 40.0), "by 20 ms on the whole, and by 10 at each look"
    assert since(19.9, 30.0, 30.0, 41.0) is None
    both = {"a": 5.0, "b": 1.0}
    looks = [
        {
            name: PublishCounts(look["b"].messages, look["b"].latency_ms * times)
            for name, times in both.items()
        }
        for look in means(*4 * [90.0])
    ]
    usual = [dict.fromkeys(both, look["b"]) for look in means(10.0)]
    rise = latency_rise(usual, looks, LIMIT)
    assert rise is not None
    assert rise.broker == "a", "the one that rose most"


def test_a_broker_that_restarted_in_between_counts_from_its_start() -> None:
    again = [*means(90.0, 90.0, 90.0), *means(90.0)]
    assert latency_rise(means(10.0), again, LIMIT) is None
    assert latency_rise(means(10.0), [*again, *means(*4 * [90.0])], LIMIT)
    # Since it started it has published more messages than before, and in far less time each.
    counts = (PublishCounts(100.0, 10_000.0), PublishCounts(300.0, 900.0))
    before = [{"b": each} for each in (*counts, PublishCounts(500.0, 10_900.0))]
    assert latency_rise(before, means(*4 * [60.0]), LIMIT) is None, "it took 50 ms as well"


def test_nothing_is_said_of_brokers_that_were_not_known_before() -> None:
    assert latency_rise([{}], means(*4 * [90.0]), LIMIT) is None
