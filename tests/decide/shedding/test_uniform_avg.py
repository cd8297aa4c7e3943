"""UniformLoadShedder and AvgShedder on the scenarios of Pulsar's own unit tests."""

from random import Random
from typing import Any

import pytest

from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.planned import AvgShedderPlacement, PlannedTargets
from counterpoise.load.view import ClusterView
from tests.decide.shedding.clusters import MIB, Line, broker, bundle, chosen, line, plan, rules, run


def uniform_pair(loads: list[float]) -> Line:
    """One broker with bundles of these MiB/s each way, and an idle one."""
    names = [f"bundle-{i + 1:02}" for i in range(len(loads))]
    return line(
        {"broker-1": broker(names, throughput=sum(loads) * MIB), "broker2": broker()},
        {n: bundle(throughput=v * MIB) for n, v in zip(names, loads, strict=True)},
    )


def test_no_more_bundles_than_allowed() -> None:
    """testMaxUnloadBundleNumPerShedding: 20 equal bundles, two may go."""
    made = plan("UniformLoadShedder", uniform_pair([1.0] * 20), maxUnloadBundleNumPerShedding=2)
    assert len(made.decisions) == 2
    none = plan("UniformLoadShedder", uniform_pair([1.0] * 20), maxUnloadBundleNumPerShedding=0)
    assert rules(none) == {"broker-1": "bundle-limit"}


def test_a_busy_broker_beside_an_idle_one_sheds() -> None:
    """testBrokerWithMultipleBundles: 1 to 10 MiB/s each way, a fifth of 110 MiB/s goes."""
    made = plan("UniformLoadShedder", uniform_pair([float(i) for i in range(1, 11)]))
    assert chosen(made) == {"broker-1": ["bundle-10", "bundle-01"]}
    assert {d.reason for d in made.decisions} == {"MessageThroughput"}


def five_brokers() -> Line:
    rates = (50_000, 60_000, 70_000, 10_000, 20_000)
    mib = (50, 60, 70, 80, 10)
    brokers, bundles = {}, {}
    for number, (rate, load) in enumerate(zip(rates, mib, strict=True)):
        names = [f"broker{number}/bundle-{i}" for i in range(10)]
        brokers[f"broker{number}"] = broker(names, rate=rate / 2, throughput=load * MIB / 2)
        bundles |= {n: bundle(rate / 20, load * MIB / 20) for n in names}
    return line(brokers, bundles)


def test_messages_decide_before_bytes_do() -> None:
    """testOverloadBrokerSelect: broker2 has most messages, broker3 most bytes."""
    settings = {"maxUnloadPercentage": 0.5, "maxUnloadBundleNumPerShedding": 1}
    by_rate = plan("UniformLoadShedder", five_brokers(), **settings)
    assert [*chosen(by_rate)] == ["broker2"]
    by_bytes = plan(
        "UniformLoadShedder",
        five_brokers(),
        **settings,
        loadBalancerMsgRateDifferenceShedderThreshold=0,
    )
    assert [*chosen(by_bytes)] == ["broker3"]


@pytest.mark.parametrize(
    ("gigabytes", "moves"),
    [(10, True), (30, False)],  # a fifth of 30 GB/s does not fit into 32 bits with the slack
)
def test_what_is_left_to_move_is_a_java_int(gigabytes: int, moves: bool) -> None:
    made = plan("UniformLoadShedder", uniform_pair([gigabytes * 1e9 / 40 / MIB] * 20))
    assert bool(made.decisions) is moves
    if not moves:
        rejection = made.rejections[0]
        assert (rejection.rule, rejection.setting) == ("too-big", "maxUnloadPercentage")


def test_bundles_may_exceed_what_is_left_by_a_thousand() -> None:
    names = ["a", "b"]
    data = line(
        {"b:1": broker(names, rate=50_000), "b:2": broker()},
        {"a": bundle(rate=10_400), "b": bundle(rate=10)},
    )
    # 99,999 messages/s apart: 19,999 go, and a bundle of 20,800 still fits.
    assert chosen(plan("UniformLoadShedder", data)) == {"b:1": ["a", "b"]}


@pytest.mark.parametrize(
    ("data", "settings", "rule"),
    [
        (line({}, {}), {}, "no-broker"),
        (uniform_pair([]), {}, "rate-gap"),
        (uniform_pair([1.0, 1.0]), {"minUnloadMessageThroughput": 10**9}, "below-minimum"),
        (uniform_pair([9.0]), {}, "single-bundle"),
        (uniform_pair([50.0, 50.0]), {"maxUnloadPercentage": 0.01}, "too-big"),
    ],
)
def test_why_nothing_moves(data: Line, settings: dict[str, Any], rule: str) -> None:
    made = plan("UniformLoadShedder", data, **settings)
    assert not made.decisions
    assert made.rejections[0].rule == rule


def avg_brokers(cpus: dict[str, float], sheds: tuple[str, ...] = ("broker1",)) -> Line:
    """Brokers with a CPU, 20,000 messages/s on those that shed, 2,000 or 10,000 on the others."""
    brokers, bundles = {}, {}
    for name, cpu in cpus.items():
        names = [f"{name}/bundle-{i}" for i in range(11)] if name in sheds else []
        rate = 10_000 if name in sheds else 5_000 if cpu == 50 else 1_000
        brokers[name] = broker(names, cpu=cpu, rate=rate)
        for index, each in enumerate(names):
            bundles[each] = bundle(rate=450, samples=index, topics=index + sheds.index(name) * 11)
    return line(brokers, bundles)


def targets(data: Line, made: Any) -> dict[str, str | None]:
    """Where placement sends each moved bundle, given what the shedder remembers."""
    view, placement = ClusterView.from_load_data(data), AvgShedderPlacement()
    return {
        d.bundle: placement.place(
            d.bundle,
            view.brokers,
            view,
            PlannedTargets(made.memory.destinations),
            PlacementOptions(),
            Random(1),
        ).broker
        for d in made.decisions
    }


HALF = {"maxUnloadPercentage": 0.5}


def test_far_apart_moves_in_the_second_call() -> None:
    """testHitHighThreshold: 9,000 messages/s go in ten bundles of 900, all to the idlest."""
    data = avg_brokers({"broker1": 80, "broker2": 30, "broker3": 50})
    first, second = run("AvgShedder", [data, data], **HALF)
    assert not first.decisions
    assert [r.rule for r in first.rejections] == ["hit-count"]
    assert len(chosen(second)["broker1"]) == 10
    assert {d.destination for d in second.decisions} == {"broker2"}
    assert set(targets(data, second).values()) == {"broker2"}


def test_somewhat_apart_moves_after_more_calls() -> None:
    """testHitLowThreshold: low threshold 20, six hits."""
    data = avg_brokers({"broker1": 60, "broker2": 40, "broker3": 50})
    settings = {
        "loadBalancerAvgShedderLowThreshold": 20,
        "loadBalancerAvgShedderHitCountLowThreshold": 6,
    }
    plans = run("AvgShedder", [data] * 6, **HALF, **settings)
    assert [len(made.decisions) for made in plans] == [0, 0, 0, 0, 0, 10]
    assert set(targets(data, plans[5]).values()) == {"broker2"}


def test_several_pairs_move_at_once() -> None:
    """testSheddingMultiplePairs: broker1 gives to broker2, broker3 to broker4."""
    data = avg_brokers(
        {"broker1": 80, "broker2": 30, "broker3": 75, "broker4": 35}, ("broker1", "broker3")
    )
    first, second = run("AvgShedder", [data, data], **HALF)
    assert not first.decisions
    assert {name: len(found) for name, found in chosen(second).items()} == {
        "broker1": 10,
        "broker3": 10,
    }
    sent = targets(data, second)
    assert {to for name, to in sent.items() if name.startswith("broker1/")} == {"broker2"}
    assert {to for name, to in sent.items() if name.startswith("broker3/")} == {"broker4"}


def test_hits_are_lost_when_the_gap_closes_and_when_they_were_used() -> None:
    apart = avg_brokers({"broker1": 80, "broker2": 30, "broker3": 50})
    even = avg_brokers({"broker1": 50, "broker2": 50, "broker3": 50})
    plans = run("AvgShedder", [apart, even, apart, apart, apart], **HALF)
    assert [bool(made.decisions) for made in plans] == [False, False, False, True, False]
    assert plans[1].memory.low_hits == {}
    assert rules(plans[1]) == {"cluster": "even"}


def test_hits_count_even_when_nothing_can_move() -> None:
    data = avg_brokers({"broker1": 80, "broker2": 30})
    plans = run("AvgShedder", [data] * 3, minUnloadMessage=10**6)
    assert rules(plans[1]) == {"broker1": "below-minimum"}
    assert plans[1].memory.high_hits == {}
    assert plans[2].memory.high_hits == {"broker1": 1, "broker2": 1}


def test_a_broker_whose_only_bundle_fits_gives_it_away() -> None:
    data = line(
        {"b:1": broker(["a"], cpu=90, rate=9_000), "b:2": broker(cpu=10)}, {"a": bundle(rate=800)}
    )
    assert chosen(run("AvgShedder", [data, data])[1]) == {"b:1": ["a"]}


@pytest.mark.parametrize(
    ("bundles", "recent", "rule"),
    [
        ({}, (), "single-bundle"),
        ({"a": bundle(rate=800), "b": bundle()}, ("a", "b"), "recently-unloaded"),
        ({"a": bundle(rate=8_000), "b": bundle()}, (), "too-big"),
    ],
)
def test_why_an_uneven_pair_moves_nothing(
    bundles: dict[str, Any], recent: tuple[str, ...], rule: str
) -> None:
    brokers = {"b:1": broker(bundles, cpu=90, rate=9_000), "b:2": broker(cpu=10)}
    data = line(brokers, bundles, recent)
    assert rules(run("AvgShedder", [data, data])[1]) == {"b:1": rule}


def test_bundles_of_equal_statistics_share_one_promise() -> None:
    """A quirk of Pulsar's: its map is keyed by statistics, so the last pair's target wins."""
    cpus = {"broker1": 80.0, "broker2": 30.0, "broker3": 75.0, "broker4": 35.0}
    brokers = {
        name: broker([f"{name}/x"] if cpu > 50 else [], cpu=cpu, rate=10_000 if cpu > 50 else 0)
        for name, cpu in cpus.items()
    }
    data = line(brokers, {"broker1/x": bundle(rate=450), "broker3/x": bundle(rate=450)})
    made = run("AvgShedder", [data, data])[1]
    assert {d.bundle: d.destination for d in made.decisions} == {
        "broker1/x": "broker4",
        "broker3/x": "broker4",
    }
