"""Buckets, limits and flows exactly at their limits, just below and just above."""

import pytest

from counterpoise.quota import (
    RESOLUTION_NS,
    SECOND_NS,
    Bucket,
    GroupUsage,
    LimitLevel,
    RateLimit,
    shares,
)
from counterpoise.quota.limit import NO_LIMIT
from tests.quota.world import TestFlow, World

MS = 1_000_000


def empty(rate: int = 1000, **more: int) -> Bucket:
    return Bucket(rate, 0, **{"initial": 0, **more})


@pytest.mark.parametrize(
    ("resolution_ns", "after_ns", "earned"),
    [
        (RESOLUTION_NS, 16 * MS, 0),
        (RESOLUTION_NS, 16 * MS + 1, 16),
        # A token takes exactly one step: Pulsar's comparison is strict.
        (MS, MS, 0),
        (MS, MS + 1, 1),
        # A token takes longer than a step: it is added as soon as it is earned.
        (MS - 1, MS - 1, 0),
        (MS - 1, MS, 1),
        (0, MS, 1),
    ],
)
def test_nothing_is_added_before_more_than_a_step_has_passed(
    resolution_ns: int, after_ns: int, earned: int
) -> None:
    assert empty(resolution_ns=resolution_ns).update_balance(after_ns) == earned
    taking = empty(resolution_ns=resolution_ns)
    assert taking.take(0, after_ns) is (earned > 0)
    trying = Bucket(1000, 0, initial=1, resolution_ns=resolution_ns)
    assert trying.try_take(1, after_ns)
    assert trying.balance == earned


def test_to_take_nothing_is_allowed_and_less_is_not() -> None:
    bucket = empty(initial=5)
    assert bucket.take(0, 0)
    assert bucket.try_take(0, 0)
    assert bucket.balance == 5
    for take in (bucket.take, bucket.try_take):
        with pytest.raises(ValueError, match="cannot take -1 tokens"):
            take(-1, 0)


def test_a_small_bucket_waits_for_one_token_and_a_larger_one_for_a_hundredth() -> None:
    assert empty(10).wait_ns(0) == SECOND_NS // 10
    assert empty(1000).wait_ns(0) == 10 * MS
    assert empty(1000, initial=9).wait_ns(0) == MS
    assert empty(1000, initial=10).wait_ns(0) == 0


def test_a_changed_rate_is_added_by_its_own_step() -> None:
    bucket = empty(1)
    bucket.change(0, rate=1000)
    assert bucket.update_balance(16 * MS + 1) == 16
    bucket.change(16 * MS + 1, rate=10, capacity=100)
    assert bucket.update_balance(115 * MS) == 16, "a token now takes a tenth of a second"
    assert bucket.update_balance(116 * MS + 1) == 17


@pytest.mark.parametrize(("keeps", "then"), [(False, 0), (True, 1)])
def test_a_full_bucket_keeps_a_part_of_a_token_only_as_javas_does(keeps: bool, then: int) -> None:
    class Kept(Bucket):
        FULL_KEEPS_PART = keeps

    bucket = Kept(3, 0)
    assert bucket.update_balance(SECOND_NS // 2, consistent=True) == 3
    bucket.take(3, SECOND_NS // 2)
    assert bucket.update_balance(SECOND_NS * 2 // 3 + 1, consistent=True) == then


def test_a_limits_tokens_are_counted_of_both_kinds_with_what_was_earned_meanwhile() -> None:
    limit = RateLimit(LimitLevel.TOPIC_PUBLISH, "t")
    assert limit.left(0) == (NO_LIMIT, NO_LIMIT)
    limit.set_rate(1000, 0, 0)
    assert limit.left(0) == (16, NO_LIMIT)
    limit.set_rate(0, 1000, 0)
    assert limit.left(0) == (NO_LIMIT, 16)
    assert repr(limit) == "<TopicPublishRate of t>"


@pytest.mark.parametrize(("messages", "size"), [(1000, 0), (0, 1000)])
def test_the_token_that_empties_a_limit_closes_it(messages: int, size: int) -> None:
    limit = RateLimit(LimitLevel.TOPIC_PUBLISH, "t")
    limit.set_rate(messages, size, 0)
    assert limit.active
    limit.charge(15, 15, 0)
    assert limit.open
    limit.charge(1, 1, 0)
    assert not limit.open
    late = RateLimit(LimitLevel.TOPIC_PUBLISH, "t")
    late.set_rate(messages, size, 0)
    late.charge(15, 15, 0)
    late.charge(15, 15, 16 * MS + 1)
    assert late.open, "what was earned since came first"
    assert min(late.left(16 * MS + 1)) == 1


@pytest.mark.parametrize(("rate", "most"), [(1, 1), (62, 1), (125, 2), (1000, 16)])
def test_what_may_pass_at_once_is_a_steps_and_at_least_one(rate: int, most: int) -> None:
    world = World()
    limit = world.limit(LimitLevel.TOPIC_PUBLISH, "t", rate)
    flows = [world.flow(limit) for _ in range(20)]
    assert sum(world.offer(flow) for flow in flows) == most


@pytest.mark.parametrize(("messages", "size"), [(4, 400), (1000, 0)])
def test_an_entry_that_fails_last_leaves_no_flow_waiting(messages: int, size: int) -> None:
    world = World()
    limit = world.limit(LimitLevel.TOPIC_PUBLISH, "t", messages, size)
    flow: TestFlow = world.flow(limit)
    while world.offer(flow):
        pass
    world.unpublishable.add(world.sent[flow] - 1)
    with pytest.raises(OSError, match="cannot be published"):
        world.run_until(2 * SECOND_NS)
    assert (flow.waits_at, limit.waiting, limit.resume_at) == (None, {}, None)
    assert flow.throttled_bytes == 0
    world.run_until(3 * SECOND_NS)
    assert world.offer(flow), "the next one passes"


def test_a_share_of_a_small_limit_is_whole_and_what_is_left_goes_by_name() -> None:
    idle = GroupUsage(0.0, waiting=False)
    assert shares(7, dict.fromkeys("abc", idle)) == {"a": 3, "b": 2, "c": 2}
    assert shares(2, dict.fromkeys("abc", idle)) == {"a": 1, "b": 1, "c": 1}
    assert shares(4, dict.fromkeys("abc", idle)) == {"a": 2, "b": 1, "c": 1}
    assert shares(3, dict.fromkeys("abc", idle)) == {"a": 1, "b": 1, "c": 1}


def test_a_flow_that_rested_comes_back_to_equal_turns_and_no_more() -> None:
    world = World()
    limit = world.limit(LimitLevel.TOPIC_PUBLISH, "t", 1000)
    rested, busy = world.flow(limit), world.flow(limit)
    for flow, entries in ((rested, 20), (busy, 200)):
        for _ in range(entries):
            world.offer(flow)
    world.run_until(SECOND_NS // 10)
    assert not rested.entries
    for _ in range(50):
        world.offer(rested)
    before = len(world.through)
    world.run_until(SECOND_NS * 16 // 100)
    turns = [flow is rested for _, flow, *_ in world.through[before:]]
    assert len(turns) > 40
    for end in range(len(turns)):
        assert abs(2 * sum(turns[:end]) - end) <= 2, turns
