"""OverloadShedder and ThresholdShedder on the scenarios of Pulsar's own unit tests."""

from typing import Any

import pytest

from counterpoise.load.usage import ResourceUsage
from tests.decide.shedding.clusters import MIB, Line, broker, bundle, chosen, line, plan, rules, run

BOTH = ["OverloadShedder", "ThresholdShedder"]
HOT = {"bandwidth": 99.9}


def ten_bundles(recent: tuple[str, ...] = (), **hot: Any) -> Line:
    """A hot broker with bundles of 1 to 10 MiB/s each way, and an idle one with the same again."""
    names = {i: f"bundle-{i}" for i in range(1, 11)}
    others = {i: f"broker2-bundle-{i + 10}" for i in range(1, 11)}
    bundles = {n: bundle(throughput=i * MIB) for side in (names, others) for i, n in side.items()}
    brokers = {
        "broker-1": broker(names.values(), throughput=55 * MIB, **(hot or HOT)),
        "broker2": broker(others.values()),
    }
    return line(brokers, bundles, recent)


@pytest.mark.parametrize("strategy", BOTH)
@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (line({}, {}), {}),  # testNoBrokers
        (line({"broker-1": broker(**HOT)}, {}), "single-bundle"),  # testBrokersWithNoBundles
        (
            line({"broker-1": broker(["bundle-1"], **HOT)}, {"bundle-1": bundle(throughput=1000)}),
            "single-bundle",  # testBrokerWithSingleBundle
        ),
        (
            line(
                {"broker-1": broker(["bundle-1"], bandwidth=50)},
                {"bundle-1": bundle(throughput=1000)},
            ),
            "below-threshold",  # testBrokerNotOverloaded, testBrokerNotReachThreshold
        ),
    ],
)
def test_nothing_to_shed(strategy: str, data: Line, rule: str) -> None:
    made = plan(strategy, data)
    assert made.decisions == ()
    if data["brokerData"] and strategy == "OverloadShedder":
        assert rules(made) == {"broker-1": rule}


@pytest.mark.parametrize(
    ("strategy", "recent", "expected"),
    [
        ("OverloadShedder", (), [10, 9]),
        ("OverloadShedder", ("bundle-10", "bundle-9"), [8, 7]),
        ("ThresholdShedder", (), [10, 9, 8]),
        ("ThresholdShedder", ("bundle-10", "bundle-9"), [8, 7, 6, 5]),
    ],
)
def test_busiest_bundles_go_first_and_those_moved_lately_stay(
    strategy: str, recent: tuple[str, ...], expected: list[int]
) -> None:
    """testBrokerWithMultipleBundles, testBrokerReachThreshold, testFilterRecentlyUnloaded."""
    made = plan(strategy, ten_bundles(recent))
    assert chosen(made) == {"broker-1": [f"bundle-{i}" for i in expected]}


def test_a_resource_without_weight_does_not_count() -> None:
    """OverloadShedderTest.testBrokerWithResourceWeight: hot only in what counts 0."""
    hot = {"bandwidth": 99.9, "cpu": 50.0}
    free = {"loadBalancerBandwidthInResourceWeight": 0, "loadBalancerBandwidthOutResourceWeight": 0}
    assert chosen(plan("OverloadShedder", ten_bundles(**hot)))
    made = plan("OverloadShedder", ten_bundles(**hot), **free)
    assert rules(made) == {"broker-1": "below-threshold", "broker2": "below-threshold"}
    half = plan("OverloadShedder", ten_bundles(**hot), **free, loadBalancerCPUResourceWeight=2.0)
    assert chosen(half)


def test_heap_and_direct_memory_do_not_count_by_default() -> None:
    full = ResourceUsage(5000, 100)
    data = ten_bundles(cpu=50.0, memory=full, direct_memory=full)
    assert not plan("OverloadShedder", data).decisions
    made = plan("OverloadShedder", data, loadBalancerDirectMemoryResourceWeight=1.0)
    assert made.decisions[0].figures["resource"] == "directMemory"
    assert not plan("OverloadShedder", data, loadBalancerMemoryResourceWeight=1.0).decisions


@pytest.mark.parametrize(("cpu", "sheds"), [(84.99, False), (85.0, True), (200.0, True)])
def test_a_broker_at_the_limit_sheds(cpu: float, sheds: bool) -> None:
    assert bool(plan("OverloadShedder", ten_bundles(cpu=cpu)).decisions) is sheds


def test_at_least_one_bundle_goes_however_small() -> None:
    names = ["a", "b"]
    data = line({"b:1": broker(names, cpu=99)}, {n: bundle() for n in names})
    assert chosen(plan("OverloadShedder", data)) == {"b:1": ["a"]}


def test_bundles_without_data_and_of_other_brokers_are_counted_but_not_chosen() -> None:
    data = line({"b:1": broker(["a", "gone"], cpu=99)}, {"a": bundle(throughput=1), "x": bundle()})
    assert chosen(plan("OverloadShedder", data)) == {"b:1": ["a"]}
    data = line({"b:1": broker(["gone", "lost"], cpu=99)}, {"x": bundle()})
    assert rules(plan("OverloadShedder", data)) == {"b:1": "no-movable-bundle"}


def uneven(hot: float = 80.0, idle: float = 0.0, count: int = 10) -> Line:
    """Brokers at ``hot`` with bundles up to 100 MiB/s, and one at ``idle`` without."""
    brokers, bundles = {}, {}
    for number in range(count):
        names = [f"broker{number}/bundle-{i}" for i in range(11)]
        loads = [i * 10 * MIB for i in range(11)]
        bundles |= {n: bundle(throughput=v) for n, v in zip(names, loads, strict=True)}
        brokers[f"broker{number}"] = broker(names, bandwidth=hot, throughput=sum(loads))
    brokers["idle"] = broker(bandwidth=idle)
    return line(brokers, bundles)


def test_the_busiest_broker_gives_to_an_idle_one_when_none_is_far_above() -> None:
    """testLowerBoundaryShedding: ten brokers at 80 %, one at 0."""
    assert not plan("ThresholdShedder", uneven()).decisions
    made = plan("ThresholdShedder", uneven(), lowerBoundarySheddingEnabled="true")
    assert [*chosen(made)] == ["broker0"]
    assert {d.reason for d in made.decisions} == {"LowerBoundary"}


@pytest.mark.parametrize(("worth_mib", "sheds"), [(275.0, True), (275.1, False)])
def test_the_lower_boundary_sheds_what_is_just_worth_it(worth_mib: float, sheds: bool) -> None:
    """Half of half of 1,100 MiB/s, in and out."""
    settings = {
        "lowerBoundarySheddingEnabled": "true",
        "loadBalancerBrokerThresholdShedderPercentage": "50",
        "loadBalancerBundleUnloadMinThroughputThreshold": worth_mib,
    }
    assert bool(plan("ThresholdShedder", uneven(), **settings).decisions) is sheds


def test_the_lower_boundary_needs_an_idle_broker() -> None:
    """testLowerBoundarySheddingNoBrokerToOffload."""
    made = plan("ThresholdShedder", uneven(idle=78.0), lowerBoundarySheddingEnabled="true")
    assert not made.decisions
    assert rules(made)["cluster"] == "no-broker-below"


def test_the_lower_boundary_leaves_single_bundles_alone() -> None:
    """testLowerBoundarySheddingBrokerWithOneBundle."""
    brokers = {f"broker{i}": broker([f"b{i}"], bandwidth=80, throughput=MIB) for i in range(10)}
    brokers["idle"] = broker()
    data = line(brokers, {f"b{i}": bundle(throughput=MIB) for i in range(10)})
    made = plan("ThresholdShedder", data, lowerBoundarySheddingEnabled="true")
    assert not made.decisions
    assert rules(made)["cluster"] == "no-broker-to-relieve"


def test_the_lower_boundary_moves_history_a_second_step() -> None:
    """A quirk of Pulsar's: the call that looks at the lower boundary averages twice."""
    lines = [uneven(), uneven(hot=50.0)]
    once = run("ThresholdShedder", lines)[1].memory.usage["broker0"]
    twice = run("ThresholdShedder", lines, lowerBoundarySheddingEnabled="true")[1]
    step = 0.8 * 0.9 + (1 - 0.9) * 0.5
    assert once == step
    assert twice.memory.usage["broker0"] == step * 0.9 + (1 - 0.9) * 0.5


def test_history_outlives_a_broker_until_it_is_forgotten() -> None:
    """testCleanCache, through onActiveBrokersChange."""
    from counterpoise.decide.shedding.threshold import ThresholdShedder

    memory = plan("ThresholdShedder", ten_bundles()).memory
    assert set(memory.usage) == {"broker-1", "broker2"}
    assert set(ThresholdShedder().forget(memory, {"broker2"}).usage) == {"broker2"}


def test_less_than_the_minimum_throughput_is_not_worth_it() -> None:
    made = plan(
        "ThresholdShedder", ten_bundles(), loadBalancerBundleUnloadMinThroughputThreshold=1e6
    )
    rejection = next(r for r in made.rejections if r.subject == "broker-1")
    assert rejection.rule == "below-minimum-throughput"
    assert rejection.setting == "loadBalancerBundleUnloadMinThroughputThreshold"
    assert rejection.limit == 1e6 * MIB


def test_an_idle_cluster_has_nothing_to_even_out() -> None:
    made = plan("ThresholdShedder", line({"b:1": broker(), "b:2": broker()}, {}))
    assert rules(made) == {"cluster": "no-usage"}


@pytest.mark.parametrize("strategy", [*BOTH, "AvgShedder"])
def test_usages_that_are_all_unknown_are_explained_without_a_warning(strategy: str) -> None:
    """NaN never wins in Java, so a broker without a single number is at minus infinity."""
    entry = broker(["a", "b"])
    for resource in ("cpu", "bandwidthIn", "bandwidthOut", "directMemory"):
        entry["localData"][resource] = {"usage": "NaN", "limit": 100.0}
    data = line({"b:1": entry, "b:2": entry}, {"a": bundle(), "b": bundle()})
    lower = {"lowerBoundarySheddingEnabled": "true"}
    made = run(strategy, [data, data], **lower)
    assert all([*each.rejections] or each.decisions for each in made)
