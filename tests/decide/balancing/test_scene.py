"""Where a leader's round may send a bundle: the filters have a say, and each move counts."""

from collections import Counter
from dataclasses import replace

from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.round import placed, shed
from counterpoise.decide.balancing.scene import Scene
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.view import bundle_namespace
from tests.decide.balancing.test_round import UNEVEN, seen, sentences, strategy
from tests.load.story import START
from tests.pipeline.fake_cluster import bundle_name

NAMESPACE = bundle_namespace(bundle_name(0))
FILTERS = FilterOptions()
FACTS = BrokerFacts(load_manager_class=FILTERS.load_manager_class)


def scene(**more: object) -> Scene:
    held = {name: Counter(map(bundle_namespace, loads or ())) for name, loads in UNEVEN.items()}
    return replace(Scene(dict.fromkeys(UNEVEN, FACTS), held, filters=FILTERS), **more)  # type: ignore[arg-type]


def round_in(around: Scene | None) -> Round:
    view, how = cluster_view(seen(UNEVEN), START), strategy()
    memory = RoundMemory()
    return placed(shed(view, memory, how), view.brokers, {}, memory, how, around)


def test_bundles_leave_the_busy_broker_and_are_spread_evenly() -> None:
    made = round_in(scene())
    assert len(made.moves) > 2, "or this test says nothing"
    assert {move.source for move in made.moves} == {"b1:80"}
    # b2 has one bundle of the namespace already, b3 none: each move counts for the next.
    assert [move.destination for move in made.moves[:3]].count("b3:80") >= 2
    assert {move.destination for move in made.moves} == {"b2:80", "b3:80"}


def test_a_policy_says_which_brokers_may_have_them() -> None:
    policy = IsolationPolicy((NAMESPACE,), primary=("b1", "b2"))
    made = round_in(scene(policies={"p": policy}))
    assert {move.destination for move in made.moves} == {"b2:80"}
    alone = IsolationPolicy((NAMESPACE,), primary=("b1",))
    made = round_in(scene(policies={"p": alone}))
    assert not made.moves
    assert "no other broker may have it" in sentences(made)
    assert "is no broker of isolation policy" in sentences(made)


def test_a_bundle_does_not_come_closer_to_the_others_of_its_group() -> None:
    held = {
        "b1:80": Counter({NAMESPACE: 10}),
        "b2:80": Counter({NAMESPACE: 1}),
        "b3:80": Counter({"t/other": 1}),
    }
    groups = {NAMESPACE: "g", "t/other": "g"}
    made = round_in(scene(held=held, groups=groups))
    assert not made.moves, "everybody serves one namespace of the group"
    assert "anti-affinity group as much" in sentences(made)
    held["b3:80"] = Counter()
    first = round_in(scene(held=held, groups=groups)).moves[0]
    assert first.destination == "b3:80"


def test_who_does_not_answer_gets_nothing() -> None:
    view, how, memory = cluster_view(seen(UNEVEN), START), strategy(), RoundMemory()
    made = placed(shed(view, memory, how), ["b1:80", "b2:80"], {}, memory, how, scene())
    assert {move.destination for move in made.moves} == {"b2:80"}
