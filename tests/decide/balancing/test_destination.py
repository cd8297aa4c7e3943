"""Where the bundles of one round go, one after the other: what was worked out for the first holds
for the next only as long as it is still true.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from counterpoise.decide.balancing.destination import Destinations
from counterpoise.decide.balancing.policies import PlacementPolicies
from counterpoise.decide.filters.anti_affinity import bundles_in_group
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.decide.filters.isolation import IsolationPolicy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.memory import NO_MEMORY
from counterpoise.decide.placement.least_message_rate import LeastLongTermMessageRate
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.selection import Chooser
from counterpoise.decide.placement.strategy import Candidates, known_candidates
from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.decide.weights import ResourceWeights
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.usage import BANDWIDTH_IN, CPU
from counterpoise.load.view import ClusterView
from tests.decide.balancing.test_round import seen
from tests.load.story import START, Loads
from tests.pipeline.fake_cluster import bundle_name

MINE, THEIRS = "t/mine", "t/theirs"
BUSY: Loads = {bundle_name(i, of): 9000.0 for of in (MINE, THEIRS) for i in range(8)}
FILTERS = FilterOptions(distribute_evenly=False)
KNOWN = BrokerFacts(load_manager_class=FILTERS.load_manager_class)
OTHERS = ("b2:80", "b3:80", "b4:80")


@pytest.fixture
def view() -> ClusterView:
    """One busy broker; of the idle ones b2 is the first choice, then b3."""
    idle: dict[str, Loads] = {
        name: {bundle_name(90, f"t/{n}"): float(n)} for n, name in enumerate(OTHERS)
    }
    return cluster_view(seen({"b1:80": BUSY, **idle}), START)


def policies(**more: object) -> PlacementPolicies:
    facts = dict.fromkeys(("b1:80", *OTHERS), KNOWN)
    return replace(PlacementPolicies(facts, filters=FILTERS), **more)  # type: ignore[arg-type]


def sent(
    view: ClusterView,
    around: PlacementPolicies | None,
    bundles: list[str],
    left_lately: Mapping[str, frozenset[str]] | None = None,
) -> list[str | None]:
    """Where these go by a picture of the load that stays as it is, each counted for the next."""
    places = Destinations(view, view.brokers, around)
    chooser = Chooser(LeastUsage(), view, PlacementOptions())
    found = []
    for bundle in bundles:
        decision = Decision(DecisionKind.UNLOAD, bundle, "b1:80", None, "test", "because")
        left = (left_lately or {}).get(bundle, frozenset())
        placed = places.of(decision, chooser, NO_MEMORY, left)
        broker = placed.broker
        if broker is not None:
            assert not placed.rejections, "a bundle that goes does not stay"
            places.enter(Decision(DecisionKind.UNLOAD, bundle, "b1:80", broker, "test", "because"))
        found.append(broker)
    return found


@pytest.mark.parametrize("around", [None, policies()])
def test_a_bundle_that_left_a_broker_lately_has_candidates_of_its_own(
    view: ClusterView, around: PlacementPolicies | None
) -> None:
    bundles = [bundle_name(n, MINE) for n in range(3)]
    left = {bundles[1]: frozenset(["b2:80"])}
    assert sent(view, around, bundles, left) == ["b2:80", "b3:80", "b2:80"]


def test_each_namespace_goes_by_its_own_policy(view: ClusterView) -> None:
    around = policies(isolation={"p": IsolationPolicy((THEIRS,), primary=("b1", "b4"))})
    bundles = [bundle_name(0, MINE), bundle_name(0, THEIRS), bundle_name(1, MINE)]
    assert sent(view, around, bundles) == ["b2:80", "b4:80", "b2:80"]


def test_who_has_too_many_topics_by_now_is_passed_over(view: ClusterView) -> None:
    bundles = [bundle_name(n, MINE) for n in range(6)]
    topics = int(view.bundle.topics[view.bundle_index(bundles[0]) or 0])
    assert topics > 0, "or this test says nothing"
    limit = 2 * topics
    around = policies(filters=replace(FILTERS, max_topics=limit))
    # A broker is out once it has more than the limit.
    assert sent(view, around, bundles) == ["b2:80"] * 3 + ["b3:80"] * 3


@pytest.mark.parametrize("count", [None, bundles_in_group])
def test_each_move_counts_for_the_group_however_it_is_spelt(
    view: ClusterView, count: object
) -> None:
    held = {"b1:80": Counter({MINE: 8, THEIRS: 8})}
    around = policies(bundle_counts=held, groups={MINE: "Group", THEIRS: "group"})
    if count is not None:
        around = replace(around, count=count)  # type: ignore[arg-type]
    turn = [bundle_name(0, MINE), bundle_name(0, THEIRS), bundle_name(1, MINE)]
    assert sent(view, around, turn) == ["b2:80", "b3:80", "b4:80"]
    assert held == {"b1:80": Counter({MINE: 8, THEIRS: 8})}, "the policies stay as they were"


def test_a_bundle_that_left_leaves_its_broker_to_the_others_of_its_group(view: ClusterView) -> None:
    held = {"b1:80": Counter({MINE: 1, THEIRS: 1}), "b3:80": Counter({"t/x": 1}),
            "b4:80": Counter({"t/x": 1})}  # fmt: skip
    around = policies(bundle_counts=held, groups=dict.fromkeys((MINE, THEIRS, "t/x"), "g"))
    # By then each broker serves one namespace of the group.
    assert sent(view, around, [bundle_name(0, MINE), bundle_name(0, THEIRS)]) == ["b2:80", None]


def test_a_broker_that_gave_its_last_of_a_group_away_is_the_first_to_be_given_another(
    view: ClusterView,
) -> None:
    held = {"b4:80": Counter({MINE: 1}), "b2:80": Counter({THEIRS: 1, "t/x": 1}),
            "b3:80": Counter[str](), "b1:80": Counter({"t/w": 1})}  # fmt: skip
    groups = dict.fromkeys((MINE, THEIRS, "t/x", "t/w"), "g")
    places = Destinations(view, view.brokers, policies(bundle_counts=held, groups=groups))
    rate = LeastLongTermMessageRate()
    chooser = Chooser(rate, view, PlacementOptions())
    went = []
    for bundle, source in ((bundle_name(0, MINE), "b4:80"), (bundle_name(0, THEIRS), "b2:80")):
        asked = Decision(DecisionKind.UNLOAD, bundle, source, None, "test", "because")
        went.append(places.of(asked, chooser, rate.initial_memory(), frozenset()).broker)
        places.enter(asked._replace(destination=went[-1]))
    assert went == ["b3:80", "b4:80"]


def test_evenness_counts_the_bundles_that_a_broker_was_just_given(view: ClusterView) -> None:
    around = policies(filters=replace(FILTERS, distribute_evenly=True))
    bundles = [bundle_name(n, MINE) for n in range(4)]
    assert sent(view, around, bundles) == ["b2:80", "b3:80", "b4:80", "b2:80"]


def test_the_reason_why_a_bundle_stays_names_its_broker_and_policy(view: ClusterView) -> None:
    alone = {
        name: IsolationPolicy((of,), primary=("b1",)) for name, of in (("p", MINE), ("q", THEIRS))
    }
    places = Destinations(view, view.brokers, policies(isolation=alone))
    chooser = Chooser(LeastUsage(), view, PlacementOptions())
    for name, of in (("p", MINE), ("q", THEIRS), ("p", MINE)):
        decision = Decision(
            DecisionKind.UNLOAD, bundle_name(0, of), "b1:80", None, "test", "because"
        )
        placed = places.of(decision, chooser, NO_MEMORY, frozenset())
        logged = placed.rejections[0].sentence
        assert logged.startswith(f"{bundle_name(0, of)} stays: no other broker may have it")
        assert logged.count(f"is no broker of isolation policy '{name}'") == len(OTHERS)


def test_a_destination_that_was_asked_for_is_refused_with_what_is_said_of_it_alone(
    view: ClusterView,
) -> None:
    alone = policies(isolation={"p": IsolationPolicy((MINE,), primary=("b1",))})
    asked = Decision(DecisionKind.TRANSFER, bundle_name(0, MINE), "b1:80", "b3:80", "test", "why")
    chooser = Chooser(LeastUsage(), view, PlacementOptions())
    placed = Destinations(view, view.brokers, alone).of(asked, chooser, NO_MEMORY, frozenset())
    [why] = placed.rejections
    assert why.sentence == (
        f"{asked.bundle} stays: b3:80, which the strategy chose, may not have it "
        "(b3:80 is no broker of isolation policy 'p')"
    )
    nowhere = Destinations(view, view.brokers, policies(facts={"b1:80": KNOWN}))
    placed = nowhere.of(asked._replace(destination=None), chooser, NO_MEMORY, frozenset())
    assert placed.rejections[0].sentence == (
        f"{asked.bundle} stays: no other broker may have it ({placed.reason})"
    )


def test_a_bundles_own_broker_is_no_destination_however_little_it_carries(
    view: ClusterView,
) -> None:
    rate = LeastLongTermMessageRate()
    calm = Decision(DecisionKind.UNLOAD, bundle_name(90, "t/0"), "b2:80", None, "test", "because")
    chooser = Chooser(rate, view, PlacementOptions())
    for around in (None, policies()):
        places = Destinations(view, view.brokers, around)
        assert places.of(calm, chooser, rate.initial_memory(), frozenset()).broker == "b3:80"


def test_a_bundle_of_a_group_that_all_serve_alike_stays_with_pulsars_reason(
    view: ClusterView,
) -> None:
    held = {name: Counter({MINE: 1}) for name in ("b1:80", *OTHERS)}
    around = policies(bundle_counts=held, groups={MINE: "g"})
    asked = Decision(DecisionKind.UNLOAD, bundle_name(0, MINE), "b1:80", None, "test", "because")
    chooser = Chooser(LeastUsage(), view, PlacementOptions())
    placed = Destinations(view, view.brokers, around).of(asked, chooser, NO_MEMORY, frozenset())
    assert [each.sentence for each in placed.rejections] == [
        f"{asked.bundle} stays: every candidate serves its anti-affinity group as much, 1 times"
    ]


def test_what_the_strategy_itself_says_of_a_bundle_that_stays_is_kept_under_policies_too() -> None:
    big = {"b1:80": {bundle_name(0, MINE): 90_000.0, bundle_name(1, MINE): 1.0}, "b2:80": {}}
    found = cluster_view(seen(big), START)
    around = policies(facts=dict.fromkeys(big, KNOWN))
    decision = Decision(DecisionKind.UNLOAD, bundle_name(0, MINE), "b1:80", None, "test", "because")
    chooser = Chooser(LeastUsage(), found, PlacementOptions())
    said = [
        Destinations(found, found.brokers, each).of(decision, chooser, NO_MEMORY, frozenset())
        for each in (None, around)
    ]
    assert "no less than the" in said[0].rejections[0].sentence
    assert said[1].rejections == said[0].rejections


def test_candidates_know_their_rows_in_their_own_view_only(view: ClusterView) -> None:
    names = Candidates.among(["b4:80", "b2:80"], view)
    known, rows, unknown = known_candidates(names, view)
    assert (list(known), rows.tolist(), unknown) == (["b4:80", "b2:80"], [3, 1], ())
    other = cluster_view(seen({"b2:80": BUSY, "b5:80": {}}), START)
    known, rows, unknown = known_candidates(names, other)
    assert (list(known), rows.tolist()) == (["b2:80"], [0])
    assert [each.subject for each in unknown] == ["b4:80"]
    assert list(Candidates.among(["b2:80", "gone:80"], view)) == ["b2:80", "gone:80"]


def test_what_was_found_among_candidates_holds_for_the_same_figures_and_settings_only(
    view: ClusterView,
) -> None:
    names, first = Candidates.among(["b2:80", "b3:80"], view), bundle_name(0, MINE)
    processor = PlacementOptions(weights=ResourceWeights(bandwidth_in=0.0, bandwidth_out=0.0))

    def found(figures: ClusterView, options: PlacementOptions = processor) -> str | None:
        return LeastUsage().place(first, names, figures, NO_MEMORY, options).broker

    def used(percent: list[float], resource: int) -> ClusterView:
        usage = np.zeros_like(view.broker.usage)
        usage[0, CPU] = 90.0
        usage[1:3, resource] = percent
        return replace(view, broker=replace(view.broker, usage=usage))

    busy = used([20.0, 10.0], CPU)
    assert [found(busy), found(busy)] == ["b3:80"] * 2
    assert found(used([10.0, 20.0], CPU)) == "b2:80"
    network = used([95.0, 10.0], BANDWIDTH_IN)
    assert found(network) == "b2:80", "which carries less, as no other processor is used"
    assert found(network, PlacementOptions()) == "b3:80"


def test_a_source_that_is_not_known_to_serve_the_group_keeps_no_bundle_of_it(
    view: ClusterView,
) -> None:
    held = {other: Counter({MINE: 1}) for other in OTHERS}
    around = policies(bundle_counts={**held, "b1:80": Counter()}, groups={MINE: "group"})
    assert sent(view, around, [bundle_name(0, MINE)]) != [None]
    around = policies(bundle_counts={**held, "b1:80": Counter({MINE: 1})}, groups={MINE: "group"})
    assert sent(view, around, [bundle_name(0, MINE)]) == [None]
