"""An empty broker gets load though no threshold is crossed, and only what it may have."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.refill import FillBrokers
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from counterpoise.decide.filters.isolation import IsolationPolicy
from counterpoise.decide.filters.options import FilterOptions
from tests.decide.balancing.clusters import Loads, bundles, snapshot


def filled(
    seen: ClusterSnapshot, *targets: str, leave_alone: Collection[str] = frozenset()
) -> Round:
    return FillBrokers(targets, FilterOptions(), leave_alone).plan(seen, RoundMemory())


def after(loads: Loads, plan: Round) -> dict[str, float]:
    carried = {name: load for each in loads.values() for name, load in each}
    total = {broker: sum(load for _, load in each) for broker, each in loads.items()}
    for move in plan.moves:
        total[move.source] -= carried[move.bundle]
        total[move.destination] += carried[move.bundle]
    return total


def test_five_brokers_at_half_fill_a_sixth_that_has_nothing() -> None:
    """[50, 50, 50, 50, 50, 0]: no strategy of Pulsar's moves anything here."""
    loads: dict[str, list[tuple[str, float]]] = {
        f"b{n}": bundles(f"{n}x", *[5.0] * 10) for n in range(5)
    }
    loads["new"] = []
    plan = filled(snapshot(loads), "new")
    assert {move.destination for move in plan.moves} == {"new"}
    assert after(loads, plan)["new"] == 40.0, "eight of five each, and the mean is 41.7"
    assert max(after(loads, plan).values()) == 45.0
    assert plan.rejections[-1].sentence.startswith("new would carry 96% of the mean")


def test_few_and_large_bundles_move_and_the_same_ones_each_time() -> None:
    loads = {"b1": bundles("x", 1, 1, 1, 1, 30, 2, 40, 8), "b2": []}
    plan = filled(snapshot(loads), "b2")
    assert [move.bundle for move in plan.moves] == ["t/n/x6", "t/n/x5"]
    assert plan == filled(snapshot(loads), "b2", "b2")
    assert plan.moves[0].part == pytest.approx(40 / 84)
    # The largest that fits, before one that is more than the mean.
    loads = {"b1": bundles("x", 52, 28, 10, 10), "b2": []}
    assert after(loads, filled(snapshot(loads), "b2")) == {"b1": 52.0, "b2": 48.0}


def test_a_bundle_that_is_too_large_does_not_hide_the_smaller_ones() -> None:
    """The mean is 32: after x0 the two would change places; 9, then 7 of each broker do not."""
    loads = {"b1": bundles("x", 32, 9, 7), "b2": bundles("y", 32, 9, 7), "new": []}
    plan = filled(snapshot(loads), "new")
    assert after(loads, plan) == {"b1": 32.0, "b2": 32.0, "new": 32.0}
    assert {move.bundle for move in plan.moves} == {"t/n/x1", "t/n/x2", "t/n/y1", "t/n/y2"}
    assert not plan.rejections


def test_several_brokers_are_filled_in_turn() -> None:
    loads = {"b1": bundles("x", *[10.0] * 9), "b2": [], "b3": []}
    plan = filled(snapshot(loads), "b3", "b2")
    assert after(loads, plan) == {"b1": 30.0, "b2": 30.0, "b3": 30.0}


def test_one_bundle_that_is_all_the_load_does_not_change_places() -> None:
    loads = {"b1": bundles("hot", 100.0), "b2": []}
    plan = filled(snapshot(loads), "b2")
    assert not plan.moves
    assert [each.rule for each in plan.rejections] == ["nothing-fits"]


def test_who_is_below_the_mean_gives_nothing() -> None:
    loads = {"hot": bundles("h", 100.0), "low": bundles("l", 5.0, 5.0), "new": []}
    assert not filled(snapshot(loads), "new").moves


def test_what_is_left_alone_idle_or_bound_stays() -> None:
    own = bundles("own", 9.0, namespace="pulsar/b1:80")
    loads = {
        "b1": [*bundles("x", 20, 20), *bundles("y", 20, 0, 20, namespace="t/vip"), *own,
               *bundles("s", 30, namespace="pulsar/system")],
        "b2": [],
    }  # fmt: skip
    plan = filled(snapshot(loads), "b2", leave_alone={"t/vip", "t/n/x1"})
    assert [move.bundle for move in plan.moves] == ["t/n/x0"]
    said = {each.subject for each in plan.rejections if each.rule == "left-alone"}
    assert said == {"t/vip", "t/n/x1"}


def test_the_next_best_fits_where_the_best_may_not_go() -> None:
    """The mean is 22: x1 would all but change places, and t/secret has its policy."""
    loads = {"b1": [*bundles("x", 5, 30), *bundles("s", 9, namespace="t/secret")], "b2": []}
    policy = IsolationPolicy(("t/secret",), ("b1",))
    plan = filled(snapshot(loads, isolation={"p": policy}), "b2")
    assert [move.bundle for move in plan.moves] == ["t/n/x0"]


def test_isolation_and_anti_affinity_hold() -> None:
    loads = {
        "b1": [*bundles("x", 20, 20), *bundles("s", 40, 40, namespace="t/secret")],
        "b2": bundles("other", 20, namespace="t/b"),
        "b3": [],
    }
    policy = IsolationPolicy(("t/secret",), ("b1",))
    plan = filled(snapshot(loads, isolation={"p": policy}), "b3")
    assert {move.bundle for move in plan.moves} <= {"t/n/x0", "t/n/x1"}
    assert any("t/secret/s" in each.subject for each in plan.rejections)
    groups = {"t/n": "together", "t/b": "together", "t/secret": "alone"}
    plan = filled(snapshot(loads, groups=groups), "b2")
    assert "t/n" not in {move.bundle.rpartition("/")[0] for move in plan.moves}


def test_a_cluster_without_load_is_said() -> None:
    plan = filled(snapshot({"b1": bundles("x", 0, 0), "b2": []}), "b2")
    assert [each.rule for each in plan.rejections] == ["no-load"]


@pytest.mark.parametrize(
    ("targets", "said"),
    [(["b9"], "b9 is no broker of this cluster: it has b1, b2, b3"),
     (["b1", "b2"], "there is no other broker"), (["b3"], "b3 cannot be given bundles: gone")],
)  # fmt: skip
def test_what_cannot_be_filled_is_refused(targets: list[str], said: str) -> None:
    made = snapshot({"b1": bundles("x", 1.0), "b2": []}, silent={"b3": "gone"})
    assert said in FillBrokers(targets).refusal(made)
    assert not FillBrokers(["b2"]).refusal(made)


def test_a_primary_that_gives_a_bundle_away_makes_no_secondary_necessary() -> None:
    loads = {"a:1": bundles("x", 5.0, 5.0, 5.0), "b:1": []}
    policy = IsolationPolicy(("t/n",), primary=("a",), secondary=("b",), min_limit=1)
    plan = filled(snapshot(loads, isolation={"p": policy}), "b:1")
    assert not plan.moves
    assert "b:1 is a secondary of policy 'p'" in plan.rejections[0].sentence


def test_a_load_that_is_no_number_neither_moves_nor_hides_what_the_others_carry() -> None:
    odd = [float("nan"), float("inf"), -float("inf"), float("nan")]
    loads = {"b1": bundles("x", 10, 20, 30, 40), "b2": bundles("y", *odd), "b3": []}
    there = snapshot(loads)
    plan = filled(there, "b3")
    assert [(move.bundle, move.part) for move in plan.moves] == [("t/n/x2", 0.3), ("t/n/x0", 0.1)]
    for turn in range(1, 8):
        order = {b: [*names[turn:], *names[:turn]] for b, names in there.owned.items()}
        again = filled(replace(there, owned=order), "b3")
        assert again == plan, "in whatever order brokers list what they own"


def test_a_broker_with_98_percent_of_the_mean_is_full() -> None:
    plan = filled(snapshot({"b1": bundles("x", 100, 2), "b2": bundles("y", 98)}), "b2")
    assert not plan.moves
    assert not plan.rejections


def test_a_broker_at_the_mean_gives_nothing() -> None:
    loads = {"b1": bundles("x", 50, 50), "full": bundles("f", 200), "new": []}
    assert not filled(snapshot(loads), "new", "full").moves


def test_where_the_fullest_broker_has_nothing_that_fits_the_next_one_gives() -> None:
    loads = {"b1": bundles("x", 90), "b2": bundles("y", 40, 20), "new": []}
    plan = filled(snapshot(loads), "new")
    assert [move.bundle for move in plan.moves] == ["t/n/y1"]
    assert plan.moves[0].decision.sentence == "new carries 0% of the mean, b2 120%"


def test_a_bundle_without_load_fills_no_broker() -> None:
    assert not filled(snapshot({"b1": bundles("x", 90, 0), "new": []}), "new").moves


def test_what_a_broker_was_given_counts_for_its_anti_affinity_group() -> None:
    loads = {
        "b1": [*bundles("x", 20, 20), *bundles("x", 40, namespace="t/b")],
        "b2": bundles("y", 40, namespace="t/free"),
        "new": [],
    }
    plan = filled(snapshot(loads, groups={"t/n": "g", "t/b": "g"}), "new")
    assert len({move.bundle.rpartition("/")[0] for move in plan.moves}) == 1
