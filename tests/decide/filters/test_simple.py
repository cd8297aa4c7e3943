"""The scenarios of Pulsar's tests of one filter each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.decide.filters import simple
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.filters.outcome import FilterStatus
from counterpoise.decide.filters.versions import Version, latest_version
from counterpoise.names.options import from_conf


@pytest.mark.parametrize(
    ("held", "kept"),
    [
        ({"b1": 0}, ["b1"]),
        ({"b1": 1}, ["b1"]),
        ({"b1": 1, "b2": 0}, ["b2"]),
        ({"b1": 1, "b2": 1}, ["b1", "b2"]),
        ({"b1": 1, "b2": 2}, ["b1"]),
        ({"b1": 1, "b2": 2, "b3": 1}, ["b1", "b3"]),
        ({}, []),
    ],
)
def test_fewest_bundles_of_the_namespace(held, kept):
    """``LoadManagerSharedTest.testRemoveMostServicingBrokersForNamespace``."""
    outcome = simple.fewest_of_namespace(list(held), held)
    assert list(outcome.kept) == kept
    for rejection in outcome.dropped:
        assert rejection.setting == "loadBalancerDistributeBundlesEvenlyEnabled"


def test_even_distribution_can_be_off():
    outcome = simple.fewest_of_namespace(["b1", "b2"], {"b1": 9}, enabled=False)
    assert (outcome.kept, outcome.status) == (("b1", "b2"), FilterStatus.OFF)


def topics(**counts):
    return {name: BrokerFacts(topics=count) for name, count in counts.items()}


@pytest.mark.parametrize(
    ("keep", "kept"),
    [(simple.below_max_topics, ("b1", "b2", "b4")), (simple.under_max_topics, ("b1", "b4"))],
)
def test_the_two_managers_disagree_about_the_limit_itself(keep, kept):
    facts = topics(b1=9, b2=10, b3=11)
    outcome = keep(["b1", "b2", "b3", "b4"], facts, 10)
    assert outcome.kept == kept
    assert all(each.setting == "loadBalancerBrokerMaxTopics" for each in outcome.dropped)


def test_topics_of_bundles_just_given_count_for_the_modular_manager():
    facts = {"b1": BrokerFacts(topics=6, preallocated_topics=5), "b2": BrokerFacts(topics=10)}
    assert simple.below_max_topics(["b1", "b2"], facts, 10).kept == ("b2",)
    assert from_conf(FilterOptions, {"loadBalancerBrokerMaxTopics": "0"}).max_topics == 0
    assert simple.under_max_topics(["b1", "b2"], facts, 10).kept == ("b1",)


def test_when_all_have_too_many_only_the_extensible_manager_gives_up():
    facts = topics(b1=11, b2=12)
    modular = simple.below_max_topics(["b1", "b2"], facts, 10)
    assert (modular.kept, modular.status) == (("b1", "b2"), FilterStatus.SET_ASIDE)
    assert simple.under_max_topics(["b1", "b2"], facts, 10).kept == ()


def test_other_load_managers_are_passed_over():
    facts = {"b1": BrokerFacts("ours"), "b2": BrokerFacts("theirs"), "b3": BrokerFacts(None)}
    outcome = simple.same_load_manager(["b1", "b2", "b3", "b4"], facts, "ours")
    assert outcome.kept == ("b1", "b4")
    assert [each.setting for each in outcome.dropped] == ["loadManagerClassName"] * 2


def versions(*texts):
    return {f"b{nth}": BrokerFacts(version=text) for nth, text in enumerate(texts, start=1)}


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (["2.10.0", "2.10.1", "2.10.0"], ["b2"]),
        (["2.10.0", "2.9.9", "2.10.0-rc1"], ["b1"]),
        (["1.0.0-alpha.2", "1.0.0-alpha.10", "1.0.0-alpha.beta"], ["b3"]),
        (["1.0.0+build1", "1.0.0+build2"], ["b1", "b2"]),
        (["4.0.7", "4.0.7"], ["b1", "b2"]),
        (["1.0.0-0", "1.0.0-1"], ["b2"]),
    ],
)
def test_only_the_latest_version_stays(texts, kept):
    facts = versions(*texts)
    outcome = latest_version(sorted(facts), facts, enabled=True)
    assert list(outcome.kept) == kept


@pytest.mark.parametrize("bad", [None, "", "xyz", "1.2", "01.2.3", "1.0.0-01", "1.2.3.4"])
def test_one_unreadable_version_lets_everybody_stay(bad):
    facts = versions("2.0.0", bad)
    outcome = latest_version(["b1", "b2"], facts, enabled=True)
    assert (outcome.kept, outcome.status) == (("b1", "b2"), FilterStatus.FAILED)
    assert "b2" in outcome.reason


def test_versions_do_not_matter_unless_asked():
    facts = versions("2.0.0", "xyz")
    assert latest_version(["b1", "b2"], facts, enabled=False).status is FilterStatus.OFF
    assert latest_version([], {}, enabled=True).kept == ()


SEMVER_ORDER = [
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "2.0.0",
    "2.1.0",
    "2.1.1",
]
"""The order that the semantic versioning specification gives as its example."""


@given(st.permutations(SEMVER_ORDER))
def test_versions_are_ordered_as_the_specification_says(shuffled):
    assert sorted(shuffled, key=Version.parse) == SEMVER_ORDER


def test_brokers_being_emptied_get_nothing():
    outcome = simple.not_draining(["b1", "b2"], {"b1"})
    assert outcome.kept == ("b2",)
    assert outcome.dropped[0].sentence == "b1 is being emptied"
    assert simple.not_draining(["b1"], ()).status is FilterStatus.OFF
