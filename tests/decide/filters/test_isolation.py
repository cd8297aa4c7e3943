"""The scenarios of ``BrokerIsolationPoliciesFilterTest`` and ``ModularLoadManagerImplTest``."""

import pytest

from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy, isolate
from counterpoise.decide.filters.outcome import FilterStatus
from counterpoise.load.fields import LoadDataError

BROKERS = ["broker-1:8080", "broker-2:8080", "broker-3:8080"]


def policy(primary, secondary=(), min_limit=1, namespaces=("my-tenant/my-ns.*",)):
    return {"own": IsolationPolicy(tuple(namespaces), tuple(primary), tuple(secondary), min_limit)}


@pytest.mark.parametrize(
    ("brokers", "primary", "secondary", "min_limit", "kept"),
    [
        (BROKERS, ["broker-1"], ["broker-2"], 1, BROKERS[:1]),
        (BROKERS[1:], ["broker-1"], ["broker-2"], 1, BROKERS[1:2]),
        (BROKERS, ["broker-1"], ["broker-2"], 2, BROKERS[:2]),
        (BROKERS, ["broker-1"], [], 2, BROKERS[:1]),
        (BROKERS[2:], ["broker-1"], ["broker-2"], 1, []),
        (BROKERS, ["broker-[12]"], [], 1, BROKERS[:2]),
        (BROKERS, ["broker-"], [], 1, []),
        (BROKERS, ["broker-.*"], [], 1, BROKERS),
        (BROKERS, [], ["broker-3"], 0, []),
        (BROKERS, [], ["broker-3"], 1, BROKERS[2:]),
    ],
)
def test_a_governed_namespace_gets_primaries_then_secondaries(
    brokers, primary, secondary, min_limit, kept
):
    policies = policy(primary, secondary, min_limit)
    outcome = isolate("my-tenant/my-ns", brokers, policies, {})
    assert list(outcome.kept) == kept
    assert {each.subject for each in outcome.dropped} == set(brokers) - set(kept)
    assert all(each.sentence for each in outcome.dropped)


def test_an_ungoverned_namespace_gets_what_is_not_reserved():
    policies = policy(["broker-1"], ["broker-2"])
    outcome = isolate("public/default", BROKERS, policies, {})
    assert list(outcome.kept) == BROKERS[1:]
    [dropped] = outcome.dropped
    assert (dropped.subject, dropped.rule) == ("broker-1:8080", "reserved")
    assert "'own'" in dropped.sentence


@pytest.mark.parametrize(("persistent", "kept"), [(True, BROKERS[1:]), (False, BROKERS[:1])])
def test_an_ungoverned_namespace_needs_the_topics_domain(persistent, kept):
    facts = {
        "broker-1:8080": BrokerFacts(persistent_topics=False),
        "broker-2:8080": BrokerFacts(non_persistent_topics=False),
        "broker-3:8080": BrokerFacts(non_persistent_topics=False),
    }
    outcome = isolate("public/default", BROKERS, {}, facts, persistent=persistent)
    assert list(outcome.kept) == kept
    assert {each.rule for each in outcome.dropped} == {"topic_domain"}


def test_quirk_a_governed_namespace_is_not_asked_for_the_domain():
    facts = {"broker-1:8080": BrokerFacts(persistent_topics=False)}
    outcome = isolate("my-tenant/my-ns", BROKERS, policy(["broker-1"]), facts)
    assert list(outcome.kept) == BROKERS[:1]


def test_the_first_policy_by_name_governs():
    policies = {
        "b": IsolationPolicy(("t/.*",), ("broker-2",)),
        "a": IsolationPolicy(("t/n",), ("broker-1",)),
    }
    assert list(isolate("t/n", BROKERS, policies, {}).kept) == BROKERS[:1]
    assert list(isolate("t/other", BROKERS, policies, {}).kept) == BROKERS[1:2]


def test_namespaces_must_match_in_full():
    policies = policy(["broker-1"], namespaces=["my-tenant/my-ns"])
    assert list(isolate("my-tenant/my-ns2", BROKERS, policies, {}).kept) == BROKERS[1:]


def test_hosts_are_what_stands_before_the_last_colon():
    outcome = isolate("t/n", ["::1:8080"], {"p": IsolationPolicy(("t/n",), ("::1",))}, {})
    assert outcome.kept == ("::1:8080",)
    assert outcome.status is FilterStatus.APPLIED


def test_a_policy_is_read_as_pulsar_writes_it():
    read = IsolationPolicy.from_json(
        {
            "namespaces": ["t/.*"],
            "primary": ["b1.*"],
            "secondary": ["b2"],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "3", "usage_threshold": "90"},
            },
        }
    )
    assert read == IsolationPolicy(("t/.*",), ("b1.*",), ("b2",), 3, 90)
    other = {"autoFailoverPolicy": {"parameters": {"min_limit": 2}}}
    assert IsolationPolicy.from_json(other) == IsolationPolicy((), (), (), 2, 100)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("namespaces", ["("]),
        ("primary", "b1"),
        ("secondary", [1]),
        ("auto_failover_policy", {"parameters": {"min_limit": "many"}}),
        ("usage_threshold", "many"),
        ("auto_failover_policy", []),
    ],
)
def test_a_bad_policy_names_the_field(field, value):
    if field == "usage_threshold":
        wrong = {"auto_failover_policy": {"parameters": {field: value}}}
    else:
        wrong = {field: value or [0]}
    with pytest.raises(LoadDataError, match=field):
        IsolationPolicy.from_json({"namespaces": [], "primary": [], **wrong})
