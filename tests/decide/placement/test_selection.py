"""From all brokers to one: the order of the filters, and the ways back from an empty set."""

import pytest

from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.filters.outcome import FilterStatus
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.placement.selection import (
    Chooser,
    Surroundings,
    select_extensible,
    select_modular,
)
from counterpoise.names.load_managers import MODULAR

from .views import view_of

BUNDLE = "t/n/0x00000000_0x80000000"
RATE = PLACEMENTS["LeastLongTermMessageRate"]
OURS = BrokerFacts(MODULAR, version="4.0.7")


def select(view, around, options=None, placement=None, bundle=BUNDLE):
    chooser = Chooser(RATE, view, placement or PlacementOptions())
    return select_modular(bundle, around, chooser, None, options or FilterOptions())


def loads(**rates):
    return view_of({name: {"long_rate": rate} for name, rate in rates.items()})


def test_the_strategy_chooses_among_brokers_with_the_fewest_bundles():
    around = Surroundings(["b1", "b2", "b3"], namespace_bundles={"b1": 1})
    chosen = select(loads(b1=1, b2=20, b3=10), around)
    assert chosen.broker == "b3"
    evenness = next(each for each in chosen.outcomes if each.filter == "even_distribution")
    assert [each.subject for each in evenness.dropped] == ["b1"]


def test_without_even_distribution_the_load_decides():
    around = Surroundings(["b1", "b2", "b3"], namespace_bundles={"b1": 1})
    options = FilterOptions(distribute_evenly=False)
    assert select(loads(b1=1, b2=20, b3=10), around, options).broker == "b1"


def test_the_system_namespace_is_always_distributed_evenly():
    around = Surroundings(["b1", "b2"], namespace_bundles={"b1": 1})
    options = FilterOptions(distribute_evenly=False)
    chosen = select(loads(b1=1, b2=9), around, options, bundle="pulsar/system/0x0_0x1")
    assert chosen.broker == "b2"


def test_sixteen_bundles_are_dealt_out_evenly():
    """``ModularLoadManagerImplTest.testEvenBundleDistribution``, with evenness alone."""
    held = {"b1": 0, "b2": 0}
    for _ in range(16):
        chosen = select(loads(b1=5, b2=5), Surroundings(["b1", "b2"], namespace_bundles=held))
        held[chosen.broker] += 1
        assert abs(held["b1"] - held["b2"]) <= 1
    assert held == {"b1": 8, "b2": 8}


def test_an_empty_set_of_filters_falls_back_to_the_policies():
    facts = {"b1": BrokerFacts("other"), "b2": BrokerFacts("other")}
    around = Surroundings(["b1", "b2"], facts)
    chosen = select(loads(b1=5, b2=1), around)
    assert chosen.broker == "b2"
    assert "candidates again" in chosen.notes[0]


def test_an_unreadable_version_brings_everybody_back():
    facts = {"b1": OURS, "b2": BrokerFacts(MODULAR, version="?")}
    around = Surroundings(["b1", "b2"], facts, namespace_bundles={"b1": 1})
    options = FilterOptions(prefer_later_versions=True)
    chosen = select(loads(b1=1, b2=5), around, options)
    assert chosen.outcomes[-1].status is FilterStatus.FAILED
    assert chosen.broker == "b1"
    assert "not a semantic version" in chosen.notes[0]


def test_an_overloaded_choice_is_made_again_among_all():
    view = view_of({"b1": {"long_rate": 1}, "b2": {"long_rate": 5, "cpu": 95}})
    around = Surroundings(["b1", "b2"], namespace_bundles={"b1": 1})
    chosen = select(view, around)
    assert chosen.broker == "b1"
    assert "b2 is overloaded" in chosen.notes[0]


def test_policies_are_never_left():
    policies = {"p": IsolationPolicy(("t/n",), ("b2",))}
    view = view_of({"b1": {}, "b2": {"cpu": 99}})
    chosen = select(view, Surroundings(["b1:1", "b2:1"], policies=policies))
    assert chosen.broker is None
    view = view_of({"b1:1": {}, "b2:1": {"cpu": 99}})
    chosen = select(view, Surroundings(["b1:1", "b2:1"], policies=policies))
    assert chosen.broker == "b2:1"


def test_domains_count_only_when_enabled():
    around = Surroundings(
        ["b1", "b2"], anti_affinity={"b3": 1}, domains={"b1": "d1", "b2": "d2", "b3": "d1"}
    )
    assert select(loads(b1=1, b2=2), around).broker == "b1"
    crowded = Surroundings(
        ["b1", "b2", "b3"], anti_affinity={"b3": 1}, domains={"b1": "d1", "b2": "d2", "b3": "d1"}
    )
    options = FilterOptions(failure_domains=True)
    assert select(loads(b1=1, b2=2, b3=0), crowded).broker == "b1"
    assert select(loads(b1=1, b2=2, b3=0), crowded, options).broker == "b2"


def test_brokers_being_emptied_are_passed_over_even_at_the_end():
    facts = {"b1": BrokerFacts("other"), "b2": BrokerFacts("other")}
    around = Surroundings(["b1", "b2"], facts, draining={"b2"})
    assert select(loads(b1=5, b2=1), around).broker == "b1"


def test_no_available_broker_is_an_answer():
    chosen = select(loads(b1=1), Surroundings([]))
    assert chosen.broker is None
    assert chosen.placement.rule == "no_candidates"


EXTENSIBLE = FilterOptions(load_manager_class="ext", max_topics=10)


@pytest.mark.parametrize(
    ("facts", "options", "broker"),
    [
        ({}, EXTENSIBLE, "b1:1"),
        ({"b1:1": BrokerFacts("other")}, EXTENSIBLE, "b2:1"),
        ({"b1:1": BrokerFacts("ext", topics=10)}, EXTENSIBLE, "b2:1"),
        ({"b1:1": BrokerFacts("ext", topics=10), "b2:1": BrokerFacts("other")}, EXTENSIBLE, None),
    ],
)
def test_the_extensible_manager_brings_no_broker_back(facts, options, broker):
    usage = {"b1:1": 0.1, "b2:1": 0.9}
    chosen = select_extensible(
        BUNDLE, Surroundings(["b1:1", "b2:1"], facts), usage, options, PlacementOptions()
    )
    assert chosen.broker == broker


def test_the_extensible_managers_order_of_filters():
    around = Surroundings(["b1:1"])
    chosen = select_extensible(BUNDLE, around, {}, EXTENSIBLE, PlacementOptions())
    assert [each.filter for each in chosen.outcomes] == [
        "draining",
        "load_manager",
        "max_topics",
        "latest_version",
        "anti_affinity",
        "isolation_policies",
    ]
