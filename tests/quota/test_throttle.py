"""`Throttle`: no flow waits for no reason, none starves, and every limit holds."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.quota import SECOND_NS, LimitLevel, RateLimit
from tests.quota.world import TestFlow, World

MS = 1_000_000

rate = st.one_of(st.just(0), st.integers(1, 50), st.integers(1, 100_000))
actions = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 5), st.integers(1, 1000), st.integers(0, 5000)),
    st.tuples(st.just("burst"), st.integers(0, 5), st.integers(1, 20), st.integers(0, 500)),
    st.tuples(
        st.just("read"),
        st.lists(st.tuples(st.integers(0, 5), st.integers(1, 50), st.integers(0, 500))),
    ),
    st.tuples(st.just("wait"), st.integers(0, 3 * SECOND_NS)),
    st.tuples(st.just("wait"), st.integers(0, 20 * MS)),
    st.tuples(st.just("rates"), st.integers(0, 7), rate, rate),
    st.tuples(st.just("regroup"), st.integers(0, 5), st.integers(0, 7), st.integers(0, 7)),
    st.tuples(st.just("move"), st.integers(0, 5)),
    st.tuples(st.just("ring"), st.integers(0, 7)),
)


def a_broker(world: World, rates: list[tuple[int, int]]) -> list[tuple[RateLimit, ...]]:
    """One broker, two resource groups, four topics: the paths of six producers."""
    broker = world.limit(LimitLevel.BROKER_PUBLISH, "b", *rates[0])
    groups = [world.limit(LimitLevel.GROUP_PUBLISH, f"g{n}", *rates[1 + n]) for n in range(2)]
    topics = [world.limit(LimitLevel.TOPIC_PUBLISH, f"t{n}", *rates[3 + n]) for n in range(4)]
    paths: list[tuple[RateLimit, ...]] = [
        (topic, groups[number // 2], broker) for number, topic in enumerate(topics)
    ]
    return [*paths, paths[0], (topics[0], broker)]


def limited(messages: int, size: int = 0) -> tuple[World, RateLimit, TestFlow]:
    """One topic with a limit, and one producer of it."""
    world = World()
    limit = world.limit(LimitLevel.TOPIC_PUBLISH, "t", messages, size)
    return world, limit, world.flow(limit)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(rate, rate), min_size=7, max_size=7), st.lists(actions, max_size=60))
def test_what_is_throttled_has_a_reason_and_is_released(
    rates: list[tuple[int, int]], steps: list[tuple]
) -> None:
    world = World()
    flows = [world.flow(*path) for path in a_broker(world, rates)]
    for step in steps:
        do(world, flows, step)
        world.judge()
    # With every rate removed nothing has a reason to wait any more.
    for limit in world.limits:
        world.throttle.set_rate(limit, 0, 0, world.now)
    world.run_until(world.now)
    world.judge()
    assert not any(flow.entries for flow in world.flows)
    assert all(limit.resume_at is None for limit in world.limits)


def do(world: World, flows: list[TestFlow], step: tuple) -> None:
    match step:
        case "send", who, messages, size:
            world.offer(flows[who], messages, size)
        case "burst", who, count, size:
            for _ in range(count):
                world.offer(flows[who], 1, size)
        case "read", sends:
            # One read of a connection: what is set aside is given back at its end only.
            for who, messages, size in sends:
                world.offer(flows[who], messages, size)
        case "wait", span:
            world.run_until(world.now + span)
        case "rates", which, messages, size:
            limit = world.limits[which % len(world.limits)]
            world.throttle.set_rate(limit, messages, size, world.now)
        case "regroup", who, first, second:
            chosen = {world.limits[n % len(world.limits)] for n in (first, second)}
            world.regroup(flows[who], *sorted(chosen, key=world.limits.index, reverse=True))
        case "move", who:
            former = flows[who]
            world.end(former)
            flows[who] = world.flow(*former.limits)
        case "ring", which:
            world.ring(world.limits[which % len(world.limits)])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(rate, rate), min_size=7, max_size=7),
    st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(1, 500), st.integers(0, 5000), st.integers(0, 100 * MS)
        ),
        max_size=80,
    ),
)
def test_every_limit_holds_in_every_span(
    rates: list[tuple[int, int]], sends: list[tuple[int, int, int, int]]
) -> None:
    world = World()
    flows = [world.flow(*path) for path in a_broker(world, rates)]
    for who, messages, size, pause in sends:
        world.offer(flows[who], messages, size)
        if pause > 10 * MS:
            world.run_until(world.now + pause)
    world.run_until(world.now + 10 * SECOND_NS)
    for limit, (messages_rate, size_rate) in zip(world.limits, rates, strict=True):
        through = [(at, m, s) for at, flow, m, s in world.through if limit in flow.limits]
        for first, (begin, _, _) in enumerate(through):
            messages = size = 0
            for at, m, s in through[first:]:
                # What the last entry adds comes on top: it passed because something was left.
                span = Fraction(at - begin + 16 * MS, SECOND_NS)
                assert (
                    not messages_rate
                    or messages <= messages_rate * (span + Fraction("0.1")) + 3 + m
                )
                assert not size_rate or size <= size_rate * (span + Fraction("0.1")) + 3 + s
                messages, size = messages + m, size + s


def saturate(
    world: World, flows: list[TestFlow], seconds: int, entry: dict[TestFlow, int]
) -> dict[TestFlow, int]:
    """Every flow always has something to send; messages that passed by flow."""
    begin = len(world.through)
    end = world.now + seconds * SECOND_NS
    while world.now < end:
        for flow in flows:
            while len(flow.entries) < 300:
                world.offer(flow, entry[flow])
        world.run_until(world.now + 2 * MS)
    passed = dict.fromkeys(flows, 0)
    for _, flow, messages, _ in world.through[begin:]:
        if flow in passed:
            passed[flow] += messages
    return passed


@pytest.mark.parametrize(("messages", "seconds"), [(10, 10), (1000, 10), (50_000, 2)])
def test_equal_producers_share_a_limit_equally(messages: int, seconds: int) -> None:
    world = World()
    limit = world.limit(LimitLevel.TOPIC_PUBLISH, "t", messages)
    flows = [world.flow(limit) for _ in range(5)]
    passed = saturate(world, flows, seconds, dict.fromkeys(flows, 1))
    assert abs(sum(passed.values()) - seconds * messages) <= 0.016 * messages + 2
    assert max(passed.values()) - min(passed.values()) <= 1 + 0.016 * messages


def test_large_batches_get_no_more_than_small_ones() -> None:
    world = World()
    limit = world.limit(LimitLevel.BROKER_PUBLISH, "b", 10_000)
    flows = [world.flow(limit) for _ in range(4)]
    entry = dict(zip(flows, (1, 10, 100, 1000), strict=True))
    passed = saturate(world, flows, 10, entry)
    assert sum(passed.values()) == pytest.approx(100_000, rel=0.02)
    assert min(passed.values()) >= 25_000 - 1000 - 160


def test_who_sends_little_passes_those_who_are_responsible() -> None:
    world = World()
    limit = world.limit(LimitLevel.BROKER_PUBLISH, "b", 100)
    busy = [world.flow(limit) for _ in range(10)]
    quiet = world.flow(limit)
    for flow in busy:
        for _ in range(50):
            world.offer(flow)
    world.run_until(SECOND_NS)
    before = len(world.through)
    assert not world.offer(quiet)
    while quiet.entries:
        world.run_until(world.now + MS)
    others = [flow for _, flow, _, _ in world.through[before:] if flow is not quiet]
    # At most one entry of each of the others is due before it, and no one has two.
    assert len(others) == len(set(others)) <= len(busy)


def test_a_newcomer_after_a_rest_has_no_claim_to_what_others_passed_before() -> None:
    world = World()
    limit = world.limit(LimitLevel.BROKER_PUBLISH, "b", 100)
    former, newcomer = world.flow(limit), world.flow(limit)
    world.offer(former)
    world.offer(former, 200)
    world.run_until(SECOND_NS // 10)
    assert not former.entries, "its large entry has passed, and is owed"
    before = len(world.through)
    for _ in range(30):
        world.offer(former)
        world.offer(newcomer)
    world.run_until(world.now + 2 * SECOND_NS + SECOND_NS // 5)
    passed = [flow for _, flow, _, _ in world.through[before:]]
    assert len(passed) >= 10
    assert abs(passed.count(former) - passed.count(newcomer)) <= 1


def test_the_scarcer_of_messages_and_bytes_decides_whose_turn_is_next() -> None:
    world = World()
    limit = world.limit(LimitLevel.BROKER_PUBLISH, "b", 1000, 1_000_000)
    small, large = world.flow(limit), world.flow(limit)
    for _ in range(100):
        world.offer(small, 1, 10)
        world.offer(large, 1, 1000)
    before = len(world.through)
    world.run_until(100 * MS)
    passed = [flow for _, flow, _, _ in world.through[before:]]
    assert abs(passed.count(small) - passed.count(large)) <= 1 < len(passed)


def test_a_flow_that_leaves_and_comes_back_has_one_place_in_the_queue() -> None:
    world = World()
    limit = world.limit(LimitLevel.BROKER_PUBLISH, "b", 1000)
    restless, patient = world.flow(limit), world.flow(limit)
    for _ in range(100):
        world.offer(restless)
        world.offer(patient)
    for _ in range(20):
        world.throttle.retry(restless, world.now)
    before = len(world.through)
    world.run_until(50 * MS)
    passed = [flow for _, flow, _, _ in world.through[before:]]
    assert abs(passed.count(restless) - passed.count(patient)) <= 1 < len(passed)


def test_a_full_topic_holds_up_no_other_topic_at_the_brokers_limit() -> None:
    world = World()
    broker = world.limit(LimitLevel.BROKER_PUBLISH, "b", 1000)
    slow = world.limit(LimitLevel.TOPIC_PUBLISH, "slow", 1)
    blocked, free = world.flow(slow, broker), world.flow(broker)
    passed = saturate(world, [blocked, free], 5, {blocked: 1, free: 1})
    assert passed[blocked] == pytest.approx(5, abs=1)
    assert passed[free] == pytest.approx(4995, abs=25)


def test_the_last_entry_passes_whole_and_is_paid_for() -> None:
    world, limit, flow = limited(1000)
    assert world.offer(flow, 500)
    assert not world.offer(flow, 1)
    assert limit.resume_at == pytest.approx((500 - 16 + 4) * MS, abs=MS)
    assert limit.throttled_count == flow.throttled_count == 1
    world.run_until(SECOND_NS)
    assert not flow.entries
    assert limit.throttled_ns == flow.throttled_ns == pytest.approx(488 * MS, abs=MS)


def test_each_wait_counts_towards_the_time_that_was_waited() -> None:
    world, limit, flow = limited(1000)
    ended, began = 0, []
    for _ in range(3):
        world.run_until(ended + SECOND_NS)
        world.offer(flow, 500)
        world.offer(flow, 1)
        began.append(world.now)
        ended = limit.resume_at or 0
        world.run_until(ended)
        assert limit.rested_at == ended
    waited = [488 * MS] * 3
    assert limit.throttled_ns == flow.throttled_ns == pytest.approx(sum(waited), abs=3 * MS)
    # A producer that leaves while it waits has waited all the same.
    world.run_until(ended + SECOND_NS)
    world.offer(flow, 500)
    world.offer(flow, 1)
    world.run_until(world.now + 100 * MS)
    assert limit.waited_ns(world.now) == limit.throttled_ns + 100 * MS
    world.end(flow)
    assert limit.throttled_ns == flow.throttled_ns == limit.waited_ns(world.now + SECOND_NS)
    assert flow.throttled_ns == pytest.approx(sum(waited) + 100 * MS, abs=3 * MS)


def test_after_a_wait_no_more_may_pass_at_once_than_before_it() -> None:
    world, _, flow = limited(1000)

    def at_once() -> int:
        passed = 0
        while world.offer(flow):
            passed += 1
        return passed

    before = at_once()
    world.run_until(SECOND_NS)
    assert not flow.entries
    assert at_once() == before == 16


def test_an_entry_that_cannot_be_published_holds_up_none_behind_it() -> None:
    world, limit, flow = limited(1000)
    world.unpublishable.add(16)
    for _ in range(40):
        world.offer(flow)
    with pytest.raises(OSError, match="entry 16 cannot"):
        world.run_until(SECOND_NS)
    assert limit.resume_at is not None
    world.run_until(2 * SECOND_NS)
    assert world.passed[flow] == [*range(16), *range(17, 40)]


@pytest.mark.parametrize(("messages", "size"), [(1000, 0), (0, 1000), (1000, 1000)])
def test_a_longer_period_alone_is_a_change_of_the_rate(messages: int, size: int) -> None:
    limit = RateLimit(LimitLevel.TOPIC_DISPATCH, "t")
    assert limit.period_ns == SECOND_NS
    for period_s in (1, 10):
        limit.set_rate(messages, size, 0, period_s)
        assert limit.period_ns == period_s * SECOND_NS
    limit.charge(1000, 1000, 0)
    # Of the second's, 16 ms were there at first; of ten seconds', a tenth is there.
    assert limit.wait_ns(0) > 9 * SECOND_NS


def test_within_one_read_many_flows_get_exactly_what_is_there() -> None:
    world = World()
    messages = world.limit(LimitLevel.TOPIC_PUBLISH, "t", 1000)
    size = world.limit(LimitLevel.TOPIC_PUBLISH, "u", 0, 1_000_000)
    for limit, entries in ((messages, 16), (size, 16)):
        flows = [world.flow(limit) for _ in range(7)]
        passed = sum(world.offer(flow, 1, 1000) for _ in range(10) for flow in flows)
        assert passed == entries, f"{limit} let {passed} through"


@pytest.mark.parametrize(("messages", "size"), [(1000, 0), (0, 1_000_000)])
@pytest.mark.parametrize("narrow_first", [True, False])
def test_within_one_read_the_narrowest_of_all_limits_holds(
    messages: int, size: int, narrow_first: bool
) -> None:
    world = World()
    narrow = world.limit(LimitLevel.TOPIC_PUBLISH, "t", messages, size)
    wide = world.limit(LimitLevel.BROKER_PUBLISH, "b", 100 * messages, 100 * size)
    flow = world.flow(*((narrow, wide) if narrow_first else (wide, narrow)))
    assert sum(world.offer(flow, 1, 1000) for _ in range(40)) == 16


def test_bytes_that_were_set_aside_come_back_where_messages_have_run_out() -> None:
    world, limit, flow = limited(1000, 1_000_000)
    assert world.offer(flow, 1, 100)
    assert world.offer(flow, 500, 100), "by what was set aside"
    world.throttle.return_reserved()
    assert (limit.messages.balance, limit.bytes.balance) == (16 - 501, 16_000 - 200)
    assert (limit.passed_messages, limit.passed_bytes) == (501, 200)
    assert not world.offer(flow, 1, 100)


def test_a_rate_that_is_set_again_admits_nothing_that_is_owed() -> None:
    world, limit, flow = limited(1000)
    assert world.offer(flow, 500)
    for _ in range(10):
        world.throttle.set_rate(limit, 1000, 0, world.now)
    assert not world.offer(flow, 1), "setting a rate gave an entry away"


def test_a_lowered_rate_takes_back_what_was_set_aside() -> None:
    world, limit, flow = limited(1000)
    assert world.offer(flow)
    world.throttle.set_rate(limit, 10, 0, world.now)
    assert sum(world.offer(flow) for _ in range(20)) == 1


def test_a_raised_rate_is_felt_by_those_who_wait() -> None:
    world, limit, flow = limited(10)
    world.offer(flow, 1000)
    world.offer(flow)
    assert limit.resume_at is not None
    assert limit.resume_at > 99 * SECOND_NS
    world.throttle.set_rate(limit, 10_000, 0, world.now)
    assert limit in world.throttle.alarms
    assert limit.resume_at == pytest.approx(104 * MS, abs=MS)
    world.throttle.set_rate(limit, 0, 0, world.now)
    assert limit.resume_at == world.now


@pytest.mark.parametrize("messages", [10, 100, 1000])
def test_timers_that_fire_late_cost_no_rate(messages: int) -> None:
    world, limit, flow = limited(messages)
    for _ in range(11 * messages):
        world.offer(flow)
    while limit.resume_at is not None and limit.resume_at < 10 * SECOND_NS:
        world.now = limit.resume_at + 80 * MS
        world.ring(limit)
    assert len(world.through) == pytest.approx(10 * messages, rel=0.01, abs=2)


def test_a_timer_that_fires_seconds_late_brings_the_tokens_of_a_tenth_of_one() -> None:
    world, limit, flow = limited(1000)
    for _ in range(6000):
        world.offer(flow)
    before = len(world.through)
    assert limit.resume_at is not None
    world.now = limit.resume_at + 4 * SECOND_NS
    world.ring(limit)
    assert len(world.through) - before == pytest.approx(100, abs=2)


def test_a_limit_without_a_rate_admits_everything() -> None:
    limit = RateLimit(LimitLevel.TOPIC_PUBLISH, "t")
    assert (limit.active, limit.open) == (False, True)
    limit.charge(10**9, 10**9, 0)
    assert limit.admits(0)
    assert (limit.wait_ns(0), limit.waited_ns(0), limit.resume_at) == (0, 0, None)
    assert (limit.passed_messages, limit.passed_bytes) == (10**9, 10**9)


def test_nothing_waits_when_no_limit_applies_any_more() -> None:
    world, limit, flow = limited(10)
    for _ in range(5):
        world.offer(flow)
    world.regroup(flow)
    world.judge()
    assert world.passed[flow] == [0, 1, 2, 3, 4]
    assert limit.resume_at is None
    assert limit.throttled_since is None


def test_who_waits_at_a_limit_that_no_longer_applies_waits_at_the_next_one() -> None:
    world = World()
    removed, kept = (
        world.limit(LimitLevel.TOPIC_PUBLISH, name, 10) for name in ("removed", "kept")
    )
    flow, other = world.flow(removed, kept), world.flow(removed)
    for _ in range(4):
        world.offer(flow)
        world.offer(other)
    world.run_until(250 * MS)
    assert world.passed == {flow: [0, 1], other: [0]}
    assert flow.waits_at is removed
    assert removed in flow.finished
    world.regroup(flow, kept)
    world.judge()
    assert flow.waits_at is kept
    assert list(removed.waiting) == [other]
    assert list(flow.finished) == [], "it remembers a limit that is gone"
    assert flow.throttled_count == 1, "it goes on waiting"
    passed = len(world.passed[flow])
    world.run_until(world.now + 110 * MS)
    world.judge()
    assert len(world.passed[flow]) == passed + 1, "the limit that is left holds"
