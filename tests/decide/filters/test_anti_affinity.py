"""The scenarios of ``AntiAffinityNamespaceGroupTest`` and its extension."""

import pytest

from counterpoise.decide.filters import anti_affinity
from counterpoise.decide.filters.outcome import FilterStatus

FOUR = ["b1", "b2", "b3", "b4"]
DOMAINS = {"b1": "d1", "b2": "d1", "b3": "d2", "b4": "d2"}


@pytest.mark.parametrize(
    ("counts", "domains", "kept"),
    [
        # The rounds of testAntiAffinityNamespaceFilteringWithDomain: 4, 2, 2, 1, 4 candidates.
        ({}, DOMAINS, FOUR),
        ({"b1": 1}, DOMAINS, ["b3", "b4"]),
        ({"b1": 1, "b3": 1}, DOMAINS, ["b2", "b4"]),
        ({"b1": 1, "b3": 1, "b4": 1}, DOMAINS, ["b2"]),
        ({"b1": 1, "b2": 1, "b3": 1, "b4": 1}, DOMAINS, FOUR),
        # Without domains.
        ({"b1": 1}, None, ["b2", "b3", "b4"]),
        ({"b1": 2, "b2": 1, "b3": 1, "b4": 3}, None, ["b2", "b3"]),
        ({"b1": 0}, None, FOUR),
        # A broker of no known domain is in "default".
        ({"b1": 1, "b3": 1}, {"b1": "d1", "b2": "d1", "b3": "d1"}, ["b4"]),
        ({"b1": 1}, {}, ["b2", "b3", "b4"]),
    ],
)
def test_who_serves_the_group_least(counts, domains, kept):
    outcome = anti_affinity.spread(FOUR, counts, domains)
    assert list(outcome.kept) == kept
    assert {each.subject for each in outcome.dropped} == set(FOUR) - set(kept)
    assert all(each.sentence for each in outcome.dropped)


def test_the_documented_example_of_three_domains():
    brokers = ["b1", "b2", "b3", "b4", "b5", "b6"]
    counts = {"b1": 2, "b2": 1, "b3": 2, "b4": 1, "b5": 2, "b6": 2}
    domains = dict(zip(brokers, ["d1", "d1", "d2", "d2", "d3", "d3"], strict=True))
    outcome = anti_affinity.spread(brokers, counts, domains)
    assert list(outcome.kept) == ["b2", "b4"]
    assert {each.rule for each in outcome.dropped} == {"failure_domain", "anti_affinity"}


def test_no_group_no_filter():
    outcome = anti_affinity.spread(FOUR, None, DOMAINS)
    assert (list(outcome.kept), outcome.status) == (FOUR, FilterStatus.OFF)


def test_no_broker_to_filter():
    outcome = anti_affinity.spread([], {"b1": 1}, DOMAINS)
    assert outcome.kept == ()
    assert "0 times" in outcome.reason


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("g", "G", True),
        ("g", "h", False),
        (None, None, False),
        (" ", " ", False),
        ("g", None, False),
    ],
)
def test_groups_are_compared_ignoring_case(left, right, same):
    assert anti_affinity.same_group(left, right) is same


GROUPS = {"t/a": "g", "t/b": "G", "t/c": "other"}


def test_the_modular_manager_counts_namespaces():
    held = {"b1": {"t/a": 2, "t/b": 1, "t/c": 1}, "b2": {"t/c": 1}, "b3": {"t/a": 0}, "b4": {}}
    assert anti_affinity.namespaces_in_group("g", held, GROUPS) == {"b1": 2}


def test_the_extensible_manager_counts_bundles():
    held = {"b1": {"t/a": 2, "t/c": 5}, "b2": {"t/b": 1}, "b3": {"t/c": 1}}
    assert anti_affinity.bundles_in_group("g", held, GROUPS) == {"b1": 2, "b2": 1}


@pytest.mark.parametrize(
    ("counts", "goes"),
    [
        (None, True),
        ({}, True),
        ({"b1": 1}, True),
        ({"b1": 2, "b2": 1, "b3": 1, "b4": 1}, True),
        ({"b1": 1, "b2": 1, "b3": 1, "b4": 1}, False),
        ({"b1": 1, "b2": 2, "b3": 1, "b4": 1}, True),
        ({"b1": 1, "b2": 1, "b3": 1}, True),
    ],
)
def test_when_a_bundle_may_leave(counts, goes):
    rejection = anti_affinity.may_unload("t/a/0x0_0x1", "b1", FOUR, counts)
    assert (rejection is None) is goes
    if rejection:
        served = "every candidate serves its anti-affinity group as much, 1 times"
        assert rejection.sentence == f"t/a/0x0_0x1 stays: {served}"


@pytest.mark.parametrize(
    ("candidates", "counts", "goes"),
    [
        ([], {"b1": 1}, False),
        (["b2"], {"b1": 1, "b2": 2}, False),
        (["b2"], {"b1": 3, "b2": 2}, False),
        (["b2", "b3"], {"b1": 3, "b2": 2, "b3": 1}, True),
        (["b2"], {"b1": 1}, True),
    ],
)
def test_quirk_a_broker_that_is_no_candidate_serves_nothing(candidates, counts, goes):
    rejection = anti_affinity.may_unload("t/a/0x0_0x1", "b1", candidates, counts)
    assert (rejection is None) is goes
    assert rejection is None or "stays" in rejection.sentence
    if rejection and candidates:
        assert (rejection.value, rejection.limit) == (0, 2)
