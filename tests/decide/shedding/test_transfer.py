"""Who gives to whom under TransferShedder, and what stays where it is."""

from dataclasses import replace

import numpy as np
import pytest

from counterpoise.load.store_view import BundleRules
from tests.decide.shedding.transfer_cluster import (
    BASE,
    C1,
    D1,
    D2,
    E1,
    E2,
    NOW,
    OPTIONS,
    Found,
    M,
    Setup,
    found,
    move,
    name,
    near,
    plan,
    stopped,
    top,
)


def test_the_two_most_loaded_give_to_the_two_least_loaded() -> None:
    made = Setup().plan()
    assert found(made) == BASE
    assert made.figures["average"] == near(0.36400000000000005)
    assert made.figures["std"] == near(0.3982762860126121)
    # testMaxNumberOfTransfersPerShedderCycle
    assert found(Setup().plan(replace(OPTIONS, max_brokers_per_cycle=10))) == BASE
    assert found(Setup().plan(replace(OPTIONS, max_brokers_per_cycle=1))) == move(5, E1, 1)
    assert found(Setup().plan(replace(OPTIONS, debug_mode=False))) == BASE


def test_no_broker_may_shed() -> None:
    """``loadBalancerMaxNumberOfBrokerSheddingPerCycle=0``: Java skips with HitCount."""
    made = Setup().plan(replace(OPTIONS, max_brokers_per_cycle=0))
    assert not made.decisions
    assert stopped(made) == ["HitCount"]
    (rejection,) = made.rejections
    assert rejection.setting == "loadBalancerMaxNumberOfBrokerSheddingPerCycle"
    assert made.memory.hits > 0, "nothing moved: the calls go on counting"


def test_without_load_data() -> None:
    """testEmptyBrokerLoadData, and a registered broker that has not published."""
    empty = Setup(cpus={})
    empty.more["available"] = [name(1)]
    assert stopped(empty.plan()) == ["NoBrokers"]
    setup = Setup()
    setup.more["available"] = [name(1), name(6)]
    assert stopped(setup.plan()) == ["NoLoadData"]


def test_bundles_of_other_owners_stay() -> None:
    """testNoOwnerLoadData."""
    setup = Setup()
    setup.more["rules"] = BundleRules(owners={})
    assert set(stopped(setup.plan())) == {"NoBundles"}


def test_brokers_that_published_no_bundles() -> None:
    """testEmptyTopBundlesLoadData."""
    made = Setup(tops={}).plan()
    assert set(stopped(made)) == {"NoLoadData"}
    assert made.figures["average"] == near(0.36400000000000005)


def test_old_load_data_says_nothing() -> None:
    """testOutDatedLoadData."""
    setup = Setup()
    setup.loads = {i: replace(load, updated_at=0) for i, load in setup.loads.items()}
    assert stopped(setup.plan()) == ["OutDatedData"]
    limit = NOW - 1800 * 1000
    setup.loads = {i: replace(load, updated_at=limit) for i, load in setup.loads.items()}
    assert found(setup.plan()) == BASE  # just fresh enough


def test_a_broker_cools_down_after_bundles_moved() -> None:
    """testRecentlyUnloadedBrokers."""
    setup = Setup()
    setup.more["unloaded_brokers"] = {name(1): NOW - 1800 * 1001}
    made = setup.plan()
    assert found(made) == BASE
    assert made.memory.cooled == (name(1),)
    setup.more["unloaded_brokers"] = {name(1): NOW}
    assert stopped(setup.plan()) == ["CoolDown"]


def test_bundles_moved_lately_stay() -> None:
    """testRecentlyUnloadedBundles."""
    setup = Setup()
    setup.more["recently_unloaded"] = dict.fromkeys((E1, E2, D1, D2), NOW)
    assert found(setup.plan()) == move(3, C1, 1)


def rules_for_isolated_e() -> BundleRules:
    everybody = frozenset(name(i) for i in range(1, 6))
    only_five = frozenset({name(5)})
    return BundleRules(
        with_policies=frozenset({E1, E2}), allowed={E1: only_five, E2: only_five, D1: everybody}
    )


@pytest.mark.parametrize(
    ("with_policies", "transfer", "expected"),
    [
        (True, True, move(4, D1, 1)),
        (True, False, move(4, D1, None)),
        (False, True, move(4, D1, 1)),
        (False, False, move(4, D1, None)),
    ],
)
def test_isolated_bundles_go_only_where_they_may(
    with_policies: bool, transfer: bool, expected: Found
) -> None:
    """testBundlesWithIsolationPolicies."""
    setup = Setup()
    setup.more["rules"] = rules_for_isolated_e()
    options = replace(OPTIONS, bundles_with_policies=with_policies, transfer_enabled=transfer)
    assert found(setup.plan(options)) == expected


def test_when_every_bundle_has_policies_none_moves_unless_they_may() -> None:
    """testBundlesWithIsolationPolicies, ...WithPoliciesEnabled: the flag decides."""
    setup = Setup()
    every = frozenset(n for record in setup.view().top for n, _ in record or ())
    setup.more["rules"] = BundleRules(with_policies=every)
    assert set(stopped(setup.plan())) == {"NoBundles"}
    assert found(setup.plan(replace(OPTIONS, bundles_with_policies=True))) == BASE


def test_filters_that_leave_no_broker_or_fail_keep_bundles() -> None:
    """testBundlesWithAntiAffinityGroup, testFilterHasException: no broker is allowed."""
    setup = Setup()
    every = [n for record in setup.view().top for n, _ in record or ()]
    none: dict[str, frozenset[str]] = dict.fromkeys(every, frozenset())
    setup.more["rules"] = BundleRules(allowed=none)
    assert set(stopped(setup.plan())) == {"NoBundles"}
    allowed = {**none, E1: frozenset(name(i) for i in range(1, 6))}
    setup.more["rules"] = BundleRules(allowed=allowed)
    assert found(setup.plan()) == move(5, E1, 1)


def test_each_decision_has_the_figures_of_its_own_bundle() -> None:
    halves = Setup({1: 48, 2: 100}, {1: top("A", 2.4 * M, 2.4 * M), 2: top("B", 5 * M, 5 * M)})
    shared = {
        "std": 0.26,
        "limit": 0.25,
        "margin": 0.125,
        "full": 85,
        "hits": 0,
        "target": near(0.26 * (10 * M + 1)),
    }
    assert [each.figures for each in halves.plan().decisions] == [
        {**shared, "load": 0.48, "other": name(2), "otherLoad": 1.0, "throughput": 2.4 * M},
        {**shared, "load": 1.0, "other": name(1), "otherLoad": 0.48, "throughput": 5 * M},
    ]
    fifths = Setup({1: 10, 2: 100}, {1: top("A"), 2: top("B", 1 * M, 1.5 * M, 2 * M, 3 * M)})
    assert [each.figures["throughput"] for each in fifths.plan().decisions] == [1 * M, 1.5 * M]


def test_one_published_bundle_always_stays() -> None:
    """testRemainingTopBundles."""
    setup = Setup()
    setup.tops[5] = top("E", 2 * M, 3 * M)
    assert found(setup.plan()) == BASE


def test_a_bundle_listed_twice_is_moved_once() -> None:
    view = Setup().view()
    twice = tuple((record[0], *record) for record in view.top if record is not None)
    made = plan(replace(view, top=twice), replace(OPTIONS, max_brokers_per_cycle=1))
    assert [(d.source, d.bundle) for d in made.decisions] == [(name(5), E1)]
    # It counts twice all the same: 4 of the broker's 9 MB/s, at 90 % load.
    after = np.std([0.9 - 0.4, 0.02 + 0.4, 0.04, 0.06, 0.8])
    assert made.figures["stdAfter"] == pytest.approx(after, rel=1e-6)
