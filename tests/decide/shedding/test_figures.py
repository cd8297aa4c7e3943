"""The figures that the reasons of modular shedders name, by hand."""

import pytest

from tests.decide.shedding.clusters import MIB, Line, broker, bundle, line, plan

TWO = {"a": bundle(throughput=30 * MIB), "b": bundle(throughput=20 * MIB)}


def hot(**more: float) -> Line:
    return line({"b:1": broker(TWO, throughput=50 * MIB, **more), "b:2": broker()}, TWO)


def apart(busy: dict[str, float], **rates: float) -> Line:
    """A broker with bundles of these messages/s each way, far above an idle one."""
    bundles = {name: bundle(rate=rate) for name, rate in busy.items()}
    return line({"b:1": broker(bundles, cpu=90, **rates), "b:2": broker(cpu=10)}, bundles)


QUICK = {"loadBalancerAvgShedderHitCountHighThreshold": 1}


@pytest.mark.parametrize(
    ("strategy", "data", "settings", "said"),
    [
        (
            "OverloadShedder",
            line({"b:1": broker(TWO, cpu=99)}, TWO, ["a", "b"]),
            {},
            "b:1 would shed, but all its bundles moved a moment ago; it waits "
            "(loadBalancerSheddingGracePeriodMinutes)",
        ),
        (
            "OverloadShedder",
            line({"b:1": broker([*TWO, "unknown"], cpu=99)}, TWO, ["a", "b"]),
            {},
            "b:1 would shed, but 2 of its 3 bundles moved a moment ago and the others cannot move; "
            "it waits (loadBalancerSheddingGracePeriodMinutes)",
        ),
        (
            "ThresholdShedder",
            line({"b:1": broker(cpu=50), "b:2": broker(cpu=50), "b:3": broker(cpu=44)}, {}),
            {"lowerBoundarySheddingEnabled": "true"},
            "the idlest broker is 4.0% below the cluster's average, and has to be more than 10.0% "
            "below it (loadBalancerBrokerThresholdShedderPercentage)",
        ),
        (
            "UniformLoadShedder",
            line({"b:1": broker(rate=0.7), "b:2": broker()}, {}),
            {},
            "the busiest broker handles 1 messages/s and the idlest 0 (counted as 1); more than "
            "50% above that would be too much (loadBalancerMsgRateDifferenceShedderThreshold)",
        ),
        (
            "UniformLoadShedder",
            line({"b:1": broker(rate=600), "b:2": broker(rate=500)}, {}),
            {},
            "the busiest broker handles 1,200 messages/s and the idlest 1,000; more than 50% above "
            "that would be too much (loadBalancerMsgRateDifferenceShedderThreshold)",
        ),
        (
            "UniformLoadShedder",
            apart({"a": 9_000, "b": 8_000}, rate=10_000),
            {"maxUnloadPercentage": 0.1},
            "even the smallest bundle of b:1 carries 16,000 messages/s, more than the 2,999 "
            "messages/s to give up; split it, or raise maxUnloadPercentage",
        ),
        (
            "AvgShedder",
            apart({"a": 4_000, "b": 3_000}, rate=10_000),
            QUICK,
            "the smallest bundle of b:1 with traffic carries 6,000 messages/s, more than the 4,000 "
            "messages/s to be moved; split it, or raise maxUnloadPercentage",
        ),
        (
            "AvgShedder",
            apart({"a": 14_000, "b": 13_000}, rate=10_000),
            QUICK,
            "the smallest bundle of b:1 with traffic carries 26,000 messages/s, more than the "
            "4,000 messages/s to be moved; split it",
        ),
    ],
)
def test_why_nothing_moves_is_said_with_the_figures_that_decided(
    strategy: str, data: Line, settings: dict[str, object], said: str
) -> None:
    sentences = [each.sentence for each in plan(strategy, data, **settings).rejections]
    assert said in sentences


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (1.0, "uses 99.0% of its cpu, and sheds from 85% on"),
        (1.5, "uses 148.5% of its cpu, weighted, and sheds from 85% on"),
        (0.9, "uses 89.1% of its cpu, weighted, and sheds from 85% on"),
    ],
)
def test_a_use_that_is_weighted_is_said_to_be(weight: float, said: str) -> None:
    made = plan("OverloadShedder", hot(cpu=99), loadBalancerCPUResourceWeight=weight)
    assert said in made.decisions[0].sentence


BIG = {"maxUnloadPercentage": 0.75}


@pytest.mark.parametrize(
    ("strategy", "settings", "said"),
    [
        (
            "ThresholdShedder",
            {},
            "b:1 averages 80.0%, the cluster 40.0%, and sheds from 10% above it on "
            "(loadBalancerBrokerThresholdShedderPercentage): its busiest bundles go until "
            "36,700,160 B/s have left; a carries 62,914,560 B/s",
        ),
        (
            "UniformLoadShedder",
            BIG,
            "b:1 handles 104,857,600 B/s, more than 4 times the idlest broker's 0 (counted as 1) "
            "(loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold): about 78,643,199 B/s "
            "go (maxUnloadPercentage); a carries 62,914,560 B/s",
        ),
        (
            "AvgShedder",
            BIG | QUICK,
            "b:1 scores 80.0, b:2 0.0: 80.0 points apart, and uneven for long enough "
            "(loadBalancerAvgShedderLowThreshold, loadBalancerAvgShedderHitCountLowThreshold, "
            "loadBalancerAvgShedderHitCountHighThreshold), so 78,643,200 B/s may move between them "
            "(maxUnloadPercentage); a carries 62,914,560 B/s",
        ),
    ],
)
def test_a_decision_names_the_figures_of_its_broker_and_those_of_its_own_bundle(
    strategy: str, settings: dict[str, object], said: str
) -> None:
    """Of 100 MiB/s in all, in bundles of 60 and 40."""
    made = plan(strategy, hot(cpu=80), **settings)
    assert made.decisions[0].sentence == said
