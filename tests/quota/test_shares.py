"""A cluster's limit on several brokers: passed whole where it is wanted, and never exceeded."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.quota import GroupUsage, shares

needs = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.builds(GroupUsage, st.floats(0, 10**6, allow_nan=False), st.booleans()),
    min_size=1,
)


@given(st.integers(1, 10**9), needs)
def test_together_they_are_the_limit(limit: int, said: dict[str, GroupUsage]) -> None:
    parts = shares(limit, said)
    assert parts.keys() == said.keys()
    assert min(parts.values()) >= 1
    if limit >= 200 * len(said):
        assert limit - len(said) <= sum(parts.values()) <= limit
    else:
        assert sum(parts.values()) <= limit + len(said)


@given(st.integers(1000, 10**9), needs)
def test_who_waits_has_no_less_than_an_equal_part(limit: int, said: dict[str, GroupUsage]) -> None:
    parts = shares(limit, said)
    for name, need in said.items():
        if need.waiting:
            assert parts[name] >= limit / len(said) - 1


def test_what_no_broker_claims_goes_to_those_whose_producers_wait() -> None:
    few = GroupUsage(10.0, waiting=False)
    # An hundredth of an equal part, and a fiftieth more than it uses.
    assert shares(300, {"a": GroupUsage(10.0, waiting=True), "b": few}) == {"a": 289, "b": 11}
    assert shares(300, {"a": few, "b": few}) == {"a": 150, "b": 150}


def test_the_order_in_which_reports_are_read_changes_nothing() -> None:
    said = {"a": GroupUsage(10, True), "b": GroupUsage(500.5, False), "c": GroupUsage(3, True)}
    assert shares(999, said) == shares(999, dict(reversed(said.items())))


def test_without_a_limit_or_a_report_there_is_nothing_to_share() -> None:
    assert shares(0, {"a": GroupUsage(1, True)}) == {}
    assert shares(10, {}) == {}


class Cluster:
    """Brokers that pass what they may of what is wanted, and report it, step by step."""

    def __init__(self, limit: int, wanted: list[float]) -> None:
        self.limit = limit
        self.wanted = wanted
        self.parts = [max(1, limit // len(wanted))] * len(wanted)
        self.said = [GroupUsage(0.0, False)] * len(wanted)

    def step(self, rng: Random) -> float:
        """One interval; what passed in it. Reports of others may be a step old."""
        passed = [min(w, p) for w, p in zip(self.wanted, self.parts, strict=True)]
        before = self.said
        self.said = [
            GroupUsage(p * rng.uniform(0.99, 1.01), w > part)
            for p, w, part in zip(passed, self.wanted, self.parts, strict=True)
        ]
        for me in range(len(self.parts)):
            known = {
                str(n): self.said[n] if n == me or rng.random() < 0.7 else before[n]
                for n in range(len(self.parts))
            }
            self.parts[me] = shares(self.limit, known)[str(me)]
        return sum(passed)


@pytest.mark.parametrize(
    "wanted",
    [
        [1e6, 1e6, 1e6],
        [1e6, 0, 0],
        [1e6, 100, 10],
        [700, 200, 200],
        [1e6, 300, 300],
        [250, 250, 1e6],
    ],
)
def test_a_limit_is_passed_a_few_steps_after_the_shares_change(wanted: list[float]) -> None:
    rng = Random(1)
    limit = 1000
    cluster = Cluster(limit, [1e6, 1e6, 1e6])
    for _ in range(5):
        cluster.step(rng)
    for turned in (wanted, wanted[::-1], [wanted[1], wanted[0], wanted[2]]):
        cluster.wanted = list(turned)
        for _ in range(4):
            cluster.step(rng)
        passed = [cluster.step(rng) for _ in range(20)]
        assert sum(passed) / len(passed) == pytest.approx(min(limit, sum(wanted)), rel=0.05)
        assert max(passed) <= limit * 1.1


def test_brokers_that_all_want_more_end_with_equal_parts() -> None:
    rng = Random(2)
    cluster = Cluster(900, [1e6, 1e6, 1e6])
    cluster.parts = [880, 10, 10]
    for _ in range(8):
        cluster.step(rng)
    assert cluster.parts == pytest.approx([300, 300, 300], rel=0.05)
