"""The bucket against an ideal one in exact fractions, and by hand."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.quota import RESOLUTION_NS, SECOND_NS, Bucket

MS = 1_000_000


class Ideal:
    """Earns continuously, in fractions; nothing is rounded and nothing is late."""

    def __init__(self, rate: int, period_ns: int, capacity: int, tokens: int, now: int) -> None:
        self.rate, self.period_ns, self.capacity = rate, period_ns, capacity
        self.tokens = Fraction(tokens)
        self.now = now

    def at(self, now: int) -> Fraction:
        earned = Fraction((now - self.now) * self.rate, self.period_ns)
        self.tokens = min(self.tokens + earned, Fraction(self.capacity))
        self.now = now
        return self.tokens


def slack(rate: int, period_ns: int, resolution_ns: int) -> Fraction:
    """How far a bucket may be from the ideal one: what its docstring says."""
    step_ns = max(Fraction(resolution_ns), Fraction(period_ns, rate))
    return rate * step_ns / period_ns + 1


rates = st.one_of(st.integers(1, 100), st.integers(1, 10**9))
periods = st.sampled_from([SECOND_NS, 2 * SECOND_NS, 7 * SECOND_NS, 60 * SECOND_NS, 333_333_333])
resolutions = st.sampled_from([0, 1, 1_000_000, RESOLUTION_NS, SECOND_NS])
gaps = st.one_of(st.integers(0, 1000), st.integers(0, 20 * MS), st.integers(0, 10 * SECOND_NS))
steps = st.lists(
    st.tuples(gaps, st.sampled_from(["take", "settle", "exact", "wait"]), st.integers(0, 10**6)),
    max_size=60,
)


@given(rates, periods, resolutions, st.none() | st.integers(1, 10**9), steps)
def test_it_stays_within_its_bound_of_the_ideal_bucket(
    rate: int, period_ns: int, resolution_ns: int, capacity: int | None, steps: list
) -> None:
    now = 12_345
    bucket = Bucket(rate, now, period_ns=period_ns, capacity=capacity, resolution_ns=resolution_ns)
    ideal = Ideal(rate, period_ns, bucket.capacity, bucket.capacity, now)
    bound = slack(rate, period_ns, resolution_ns)
    for gap, what, amount in steps:
        now += gap
        expected = ideal.at(now)
        if what == "take":
            bucket.take(amount, now)
            ideal.tokens = expected = expected - amount
        elif what == "wait":
            bucket.wait_ns(now, consistent=False)
        elif what == "exact":
            bucket.update_balance(now, consistent=True)
        else:
            bucket.update_balance(now)
        assert abs(bucket.balance - expected) <= bound
        if what == "exact":
            assert bucket.balance > expected - 1, "a whole token that was earned is missing"


@given(st.integers(1, 10**6), resolutions, st.integers(1, 1000), steps, st.data())
def test_a_caller_that_heeds_it_takes_no_more_than_its_bound_in_any_span(
    rate: int, resolution_ns: int, most: int, steps: list, data: st.DataObject
) -> None:
    capacity = data.draw(st.integers(1, 2 * rate))
    now = 0
    bucket = Bucket(rate, now, capacity=capacity, resolution_ns=resolution_ns)
    taken: list[tuple[int, int]] = []
    for gap, what, amount in steps:
        now += gap
        if bucket.update_balance(now, consistent=what == "exact") > 0:
            bucket.take(min(amount, most), now)
            taken.append((now, min(amount, most)))
    step_ns = max(resolution_ns, SECOND_NS // rate + 1)
    for first, (begin, _) in enumerate(taken):
        total = 0
        for at, amount in taken[first:]:
            total += amount
            assert total <= capacity + Fraction(rate * (at - begin + step_ns), SECOND_NS) + most


@given(st.integers(1, 10**7), st.lists(st.integers(1, 10**9), min_size=1, max_size=50))
def test_no_part_of_a_token_is_ever_lost_or_won(rate: int, gaps: list[int]) -> None:
    bucket = Bucket(rate, 0, capacity=10**30, initial=0)
    now = 0
    for gap in gaps:
        now += gap
        bucket.update_balance(now, consistent=gap % 2 == 0)
    assert bucket.update_balance(now, consistent=True) == rate * now // SECOND_NS


@given(rates, st.lists(st.tuples(gaps, rates, periods), min_size=1, max_size=20))
def test_a_changed_rate_counts_from_then_on_and_gives_nothing_away(
    rate: int, changes: list[tuple[int, int, int]]
) -> None:
    bucket = Bucket(rate, 0, capacity=10**30, initial=0)
    ideal = Ideal(rate, SECOND_NS, 10**30, 0, 0)
    now = 0
    for gap, rate, period_ns in changes:
        now += gap
        ideal.at(now)
        bucket.change(now, rate=rate, period_ns=period_ns, capacity=10**30)
        ideal.rate, ideal.period_ns = rate, period_ns
        # Converting the carried part of a token to another period may cost a sliver of one.
        behind = ideal.tokens - bucket.balance
        assert 0 <= behind < 1 + Fraction(len(changes), 333_333_333)


@given(rates, st.integers(-(10**9), 10**9), st.integers(1, 10**9), resolutions, gaps)
def test_after_the_wait_it_names_the_tokens_are_there_and_not_before(
    rate: int, balance: int, required: int, resolution_ns: int, early: int
) -> None:
    """The wait by the eventually consistent balance is longer, by its resolution and a token."""
    bucket = Bucket(rate, 0, capacity=10**9, initial=balance, resolution_ns=resolution_ns)
    roughly_ns = bucket.wait_ns(early, required, consistent=False)
    bucket.update_balance(early, consistent=True)
    wait_ns = bucket.wait_ns(early, required)
    token_ns = SECOND_NS // rate + 1
    assert wait_ns - 1 <= roughly_ns <= wait_ns + max(resolution_ns, token_ns) + token_ns
    if wait_ns:
        assert bucket.update_balance(early + wait_ns - 1, consistent=True) < required
    assert bucket.update_balance(early + wait_ns, consistent=True) >= required


@given(rates, st.integers(1, 100), gaps)
def test_a_full_bucket_earns_no_part_of_a_token_besides(rate: int, most: int, gap: int) -> None:
    bucket = Bucket(rate, 0, capacity=most, initial=0)
    full = bucket.wait_ns(0, bucket.capacity) + gap
    assert bucket.update_balance(full, consistent=True) == most
    bucket.take(most, full)
    # Whole tokens from here on, as if it had been filled at this moment.
    assert bucket.wait_ns(full, 1) == -(-SECOND_NS // rate)


def test_a_lower_capacity_is_kept_at_once() -> None:
    bucket = Bucket(1000, 0)
    bucket.change(0, rate=10)
    assert bucket.balance == 10


# The cases of Pulsar's AsyncTokenBucketTest: rate 10, capacity 100, clock at 100 s.


class AtTime:
    """A bucket and its time, in whole milliseconds but for `now`."""

    def __init__(self, rate: int, **options: int) -> None:
        self.now = 100 * SECOND_NS
        self.bucket = Bucket(rate, self.now, **options)

    def ms(self, milliseconds: int) -> None:
        self.now += milliseconds * MS

    def tokens(self, *, consistent: bool = False) -> int:
        return self.bucket.update_balance(self.now, consistent=consistent)


def test_it_fills_and_is_capped() -> None:
    it = AtTime(10, capacity=100, initial=0)
    seen = []
    for milliseconds in (5000, 1000, 4000, 5000):
        it.ms(milliseconds)
        seen.append(it.tokens())
    assert seen == [50, 60, 100, 100]
    assert it.bucket.is_full(it.now)
    it.bucket.take(100, it.now)
    assert it.tokens() == 0
    assert not it.bucket.is_full(it.now)
    it.ms(1000)
    assert it.tokens() == 10


def test_it_owes_what_it_had_not_and_says_for_how_long() -> None:
    it = AtTime(10, capacity=100, initial=0)
    it.ms(5000)
    assert not it.bucket.take(100, it.now)
    assert it.tokens() == -50
    assert it.bucket.wait_ns(it.now) == 5100 * MS


def test_parts_of_tokens_add_up() -> None:
    it = AtTime(10, capacity=100, initial=0)
    for _ in range(150):
        it.tokens()
        it.ms(1)
    seen = []
    for milliseconds in (0, 150, 1, 99):
        it.ms(milliseconds)
        seen.append(it.tokens())
    assert seen == [1, 3, 3, 4]


def test_one_a_second_comes_with_the_second() -> None:
    it = AtTime(1, capacity=10, initial=0)
    seen = []
    for milliseconds in (999, 1, 1000):
        it.ms(milliseconds)
        seen.append(it.tokens())
    assert seen == [0, 1, 2]


def test_between_two_steps_nothing_is_added_unless_asked_for() -> None:
    it = AtTime(1000, initial=0)
    it.now += RESOLUTION_NS
    assert it.tokens() == 0
    assert it.tokens(consistent=True) == 16
    it.now += RESOLUTION_NS + 1
    assert it.tokens() == 32
    # So it is after each step, not only before the first one.
    it.now += RESOLUTION_NS
    assert it.tokens() == 32


def test_it_is_full_from_the_moment_on_in_which_its_last_token_is_earned() -> None:
    it = AtTime(1000, capacity=10, initial=0)
    it.now += 10 * MS - 1
    assert not it.bucket.is_full(it.now)
    it.now += 1
    assert it.bucket.is_full(it.now)


def test_a_changed_bucket_keeps_its_resolution_and_gets_another_target() -> None:
    it = AtTime(1000, initial=0, resolution_ns=100 * MS)
    it.bucket.change(it.now, rate=2000)
    assert it.bucket.wait_ns(it.now) == 10 * MS, "1 % of what the new rate earns in a period"
    it.ms(100)
    assert it.tokens() == 0
    it.now += 1
    assert it.tokens() == 200


def test_a_taker_that_asks_first_never_owes_more_than_one_take() -> None:
    it = AtTime(1000, initial=1)
    assert it.bucket.try_take(5, it.now)
    assert not it.bucket.try_take(1, it.now)
    it.ms(4)
    assert not it.bucket.try_take(1, it.now), "0 tokens are none"
    it.ms(1)
    assert it.bucket.try_take(1, it.now)
    assert it.tokens() == 0


def test_a_clock_that_goes_back_is_waited_for() -> None:
    it = AtTime(10, initial=0)
    it.ms(-5000)
    assert it.tokens(consistent=True) == 0
    it.ms(6000)
    assert it.tokens() == 10


@pytest.mark.parametrize(
    "arguments",
    [
        {"rate": 0},
        {"rate": -1},
        {"rate": 1, "period_ns": 0},
        {"rate": 1, "capacity": 0},
        {"rate": 10, "initial": 11},
        {"rate": 1, "resolution_ns": -1},
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"=-?\d+"):
        Bucket(now=0, **arguments)


def test_nothing_negative_can_be_taken() -> None:
    bucket = Bucket(10, 0)
    for take in (bucket.take, bucket.try_take):
        with pytest.raises(ValueError, match="-1 tokens"):
            take(-1, 0)
