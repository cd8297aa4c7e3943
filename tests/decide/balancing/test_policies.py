"""Where a leader's round may send a bundle: the filters have a say, and each move counts."""

from collections import Counter
from dataclasses import replace

from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.policies import PlacementPolicies, bundle_rules
from counterpoise.decide.balancing.round import decide, placed, shed
from counterpoise.decide.balancing.thrash import Hop
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.view import bundle_namespace
from tests.decide.balancing.test_round import UNEVEN, seen, sentences, strategy
from tests.load.story import START, Loads
from tests.pipeline.fake_cluster import bundle_name

NAMESPACE = bundle_namespace(bundle_name(0))
FILTERS = FilterOptions()
FACTS = BrokerFacts(load_manager_class=FILTERS.load_manager_class)


def policies(**more: object) -> PlacementPolicies:
    held = {name: Counter(map(bundle_namespace, loads or ())) for name, loads in UNEVEN.items()}
    return replace(PlacementPolicies(dict.fromkeys(UNEVEN, FACTS), held, filters=FILTERS), **more)  # type: ignore[arg-type]


def round_in(around: PlacementPolicies | None) -> Round:
    view, how = cluster_view(seen(UNEVEN), START), strategy()
    memory = RoundMemory()
    return placed(shed(view, memory, how), view.brokers, memory, how, around)


def test_bundles_leave_the_busy_broker_and_are_spread_evenly() -> None:
    made = round_in(policies())
    assert len(made.moves) > 2, "or this test says nothing"
    assert {move.source for move in made.moves} == {"b1:80"}
    # b2 has one bundle of the namespace already, b3 none: each move counts for the next.
    assert [move.destination for move in made.moves[:3]].count("b3:80") >= 2
    assert {move.destination for move in made.moves} == {"b2:80", "b3:80"}


def test_a_policy_says_which_brokers_may_have_them() -> None:
    policy = IsolationPolicy((NAMESPACE,), primary=("b1", "b2"))
    made = round_in(policies(isolation={"p": policy}))
    assert {move.destination for move in made.moves} == {"b2:80"}
    alone = IsolationPolicy((NAMESPACE,), primary=("b1",))
    made = round_in(policies(isolation={"p": alone}))
    assert not made.moves
    assert "no other broker may have it" in sentences(made)
    assert "is no broker of isolation policy" in sentences(made)


def test_a_shedder_hears_which_bundles_a_policy_holds() -> None:
    free = "t/free/0x00000000_0xffffffff"
    policy = IsolationPolicy((NAMESPACE,), primary=("b1", "b2"))
    rules = bundle_rules(policies(isolation={"p": policy}), [bundle_name(0), free], {})
    assert rules.with_policies == {bundle_name(0)}
    owned = bundle_rules(policies(), [bundle_name(0), free], {bundle_name(0): "b1:80", free: None})
    assert owned.owners == {bundle_name(0): "b1:80"}
    assert owned.allowed == {}, "each may go anywhere"


def test_a_bundle_does_not_come_closer_to_the_others_of_its_group() -> None:
    held = {
        "b1:80": Counter({NAMESPACE: 10}),
        "b2:80": Counter({NAMESPACE: 1}),
        "b3:80": Counter({"t/other": 1}),
    }
    groups = {NAMESPACE: "g", "t/other": "g"}
    made = round_in(policies(bundle_counts=held, groups=groups))
    assert not made.moves, "everybody serves one namespace of the group"
    assert "anti-affinity group as much" in sentences(made)
    held["b3:80"] = Counter()
    first = round_in(policies(bundle_counts=held, groups=groups)).moves[0]
    assert first.destination == "b3:80"
    view, how, memory = cluster_view(seen(UNEVEN), START), strategy(), RoundMemory()
    around = policies(bundle_counts=held, groups=groups)
    made = placed(shed(view, memory, how), ["b1:80", "b2:80"], memory, how, around)
    assert not made.moves, "the one broker that serves none does not answer"
    assert "b2:80 serves its anti-affinity group as much" in sentences(made)


def test_who_does_not_answer_gets_nothing() -> None:
    view, how, memory = cluster_view(seen(UNEVEN), START), strategy(), RoundMemory()
    made = placed(shed(view, memory, how), ["b1:80", "b2:80"], memory, how, policies())
    assert {move.destination for move in made.moves} == {"b2:80"}


PLANNED = "b2:80, which the strategy chose, may not have it (b2:80 is no broker of isolation policy"


def decided(name: str = "ThresholdShedder", **more: object) -> Round:
    """The round of a balancer beside a cluster, which reads from reports what each broker has."""
    around = replace(policies(**more), bundle_counts={})
    return decide(seen(UNEVEN), RoundMemory(), strategy(name), around)


def test_a_balancer_heeds_policies_as_a_leader_does_and_names_the_one_that_forbids() -> None:
    assert decided().moves
    theirs = IsolationPolicy((NAMESPACE,), primary=("b1", "b2"))
    made = decided(isolation={"theirs": theirs})
    assert {move.destination for move in made.moves} == {"b2:80"}
    made = decided(isolation={"theirs": IsolationPolicy((NAMESPACE,), primary=("b1",))})
    assert not made.moves
    assert "b2:80 is no broker of isolation policy 'theirs'" in sentences(made)
    others = IsolationPolicy(("t/.*",), primary=("b[23]",))
    made = decided(isolation={"others": others})
    assert not made.moves
    assert "b3:80 is reserved by isolation policy 'others'" in sentences(made)
    assert "emptied" not in sentences(made), "no broker is"


def test_who_shall_be_rid_of_a_bundle_is_a_primary_still() -> None:
    short = IsolationPolicy((NAMESPACE,), primary=("b1",), secondary=("b2", "b3"), min_limit=1)
    made = decided(isolation={"short": short})
    assert not made.moves, "one primary is there, so no secondary is needed"
    assert "b2:80 is a secondary of policy 'short'" in sentences(made)


def test_a_balancer_counts_a_group_by_what_brokers_report() -> None:
    alone = {"b1:80": UNEVEN["b1:80"], "b2:80": {bundle_name(1, "t/other"): 9000.0}, "b3:80": {}}
    around = replace(policies(groups={NAMESPACE: "g", "t/other": "g"}), bundle_counts={})
    made = decide(seen(alone), RoundMemory(), strategy(), around)
    assert [move.destination for move in made.moves] == ["b3:80"], "then all serve it as much"
    assert "anti-affinity group" in sentences(made)


def test_a_destination_that_the_strategy_chose_is_held_against_the_policies() -> None:
    view = cluster_view(seen(UNEVEN), START)
    chosen = Decision(DecisionKind.TRANSFER, bundle_name(0), "b1:80", "b2:80", "test", "because")
    made = replace(shed(view, RoundMemory(), strategy()), decisions=(chosen,), rejections=())

    def moved(**more: object) -> Round:
        brokers = view.brokers
        return placed(made, brokers, RoundMemory(), strategy(), policies(**more))

    assert [move.destination for move in moved().moves] == ["b2:80"]
    theirs = IsolationPolicy((NAMESPACE,), primary=("b1", "b3"))
    refused = moved(isolation={"theirs": theirs})
    assert not refused.moves
    assert f"{bundle_name(0)} stays: {PLANNED} 'theirs')" in sentences(refused)


def test_a_strategy_that_obeys_rules_proposes_nothing_that_a_policy_or_the_trail_forbids() -> None:
    """A bundle that left b3 lately and whose policy allows b1 and b3 has nowhere to go."""
    by = strategy("Counterpoise", thrash_span_ms=600_000)
    theirs = {"theirs": IsolationPolicy((NAMESPACE,), primary=("b1", "b3"))}
    state, left = seen(UNEVEN), Hop(START - 60_000, "b3:80", "b1:80")
    free = decide(state, RoundMemory(), by, policies(isolation=theirs))
    assert {move.destination for move in free.moves} == {"b3:80"}
    trails = dict.fromkeys(UNEVEN["b1:80"] or {}, (left,))
    barred = decide(state, RoundMemory(trails=trails), by, policies(isolation=theirs))
    assert not barred.moves
    assert not {"not-allowed", "nowhere-to-go", "thrash"} & {
        each.rule for each in barred.rejections
    }


def test_a_leaders_bundle_stays_where_its_own_broker_has_the_fewest_of_its_namespace() -> None:
    few: dict[str, Loads | None] = {
        "b1:80": {bundle_name(0): 90_000.0, bundle_name(8, "t/other"): 1.0},
        "b2:80": {bundle_name(1): 1.0, bundle_name(2): 1.0},
    }
    pulsars = replace(strategy(), placement=PLACEMENTS["LeastLongTermMessageRate"])
    leader = replace(pulsars, as_leader=FilterOptions())
    assert decide(seen(few), RoundMemory(), pulsars).moves
    made = decide(seen(few), RoundMemory(), leader)
    assert not made.moves
    assert f"{bundle_name(0)} stays: its own broker is chosen again" in sentences(made)


def test_what_brokers_report_replaces_what_was_known_of_their_bundles_and_topics() -> None:
    view = cluster_view(seen(UNEVEN), START)
    known = {**dict.fromkeys(UNEVEN, replace(FACTS, topics=77)), "b9:80": replace(FACTS, topics=5)}
    reported = policies(facts=known, bundle_counts={}).as_reported(view)
    assert {name: each.topics for name, each in reported.facts.items()} == {
        "b1:80": 30, "b2:80": 3, "b3:80": 0, "b9:80": 5
    }  # fmt: skip
    assert reported.around(NAMESPACE).namespace_bundles == {"b1:80": 10, "b2:80": 1, "b3:80": 0}
    assert reported.around("t/new").namespace_bundles == dict.fromkeys(UNEVEN, 0)
