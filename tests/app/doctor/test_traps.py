"""The traps that people really fell into: where each begins, what it needs, and what ends it."""

import pytest

from counterpoise.app.doctor.diagnosis import Severity
from counterpoise.app.settings.table import table
from counterpoise.names.properties import parse_properties
from tests.app.doctor.configurations import (
    AVG_PAIR,
    EXTENSIBLE,
    IMPL,
    PLACEMENT,
    SHEDDER,
    TRANSFER,
    TRANSFERS,
    look,
    problems,
)

TRAPS = [
    ("loadManagerClassName=com.acme.Nothing", "load-manager-falls-back"),
    ("loadManagerClassName=", "load-manager-falls-back"),
    (f"{TRANSFERS}{SHEDDER}={IMPL}ThresholdShedder", "extensible-ignores-shedder"),
    (f"{TRANSFERS}{PLACEMENT}={IMPL}LeastLongTermMessageRate", "extensible-ignores-placement"),
    (f"{SHEDDER}={TRANSFER}", "shedder-of-other-manager"),
    (f"{SHEDDER}={IMPL}DeviationShedder", "unknown-shedder"),
    (f"{SHEDDER}=ThresholdShedder", "unknown-shedder"),
    (f"{PLACEMENT}={IMPL}LeastLoaded", "unknown-placement"),
    (f"{SHEDDER}={IMPL}AvgShedder", "avg-shedder-pair"),
    (f"{PLACEMENT}={IMPL}AvgShedder", "avg-shedder-pair"),
    (
        f"{SHEDDER}={IMPL}OverloadShedder\n{PLACEMENT}={IMPL}RoundRobinBrokerSelector",
        "placement-undoes-shedder",
    ),
    (f"{AVG_PAIR}loadBalancerDistributeBundlesEvenlyEnabled=true", "even-distribution-decides"),
    ("loadBalancerBundleUnloadMinThroughputThreshold=50", "floor-silences-shedder"),
    (f"{AVG_PAIR}minUnloadMessage=5000", "floor-silences-shedder"),
    (f"{AVG_PAIR}maxUnloadPercentage=0", "moves-nothing"),
    (f"{AVG_PAIR}maxUnloadPercentage=0.8", "moves-more-than-half"),
    (
        f"{SHEDDER}={IMPL}UniformLoadShedder\nloadBalancerMsgRateDifferenceShedderThreshold=0\n"
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold=0",
        "uniform-thresholds-off",
    ),
    (f"{SHEDDER}={IMPL}UniformLoadShedder\nmaxUnloadBundleNumPerShedding=0", "moves-nothing"),
    (
        f"{SHEDDER}={IMPL}OverloadShedder\nloadBalancerBrokerOverloadedThresholdPercentage=101",
        "overload-shedder-waits",
    ),
    ("loadBalancerHistoryResourcePercentage=1", "history-never-changes"),
    ("loadBalancerHistoryResourcePercentage=0.99", "history-lags"),
    ("loadBalancerDirectMemoryResourceWeight=1", "memory-weight"),
    ("loadBalancerMemoryResourceWeight=1", "memory-weight"),
    (
        "loadBalancerBandwidthInResourceWeight=1.0\nloadBalancerBandwithInResourceWeight=0.2",
        "legacy-weight-spelling",
    ),
    (
        "loadBalancerCPUResourceWeight=0\nloadBalancerBandwidthInResourceWeight=0\n"
        "loadBalancerBandwidthOutResourceWeight=0",
        "no-resource-counts",
    ),
    ("loadBalancerNamespaceBundleMaxBandwidthMbytes=2048", "bandwidth-overflow"),
    (
        "supportedNamespaceBundleSplitAlgorithms=topic_count_equally_divide",
        "algorithm-not-supported",
    ),
    (
        "defaultNamespaceBundleSplitAlgorithm=specified_positions_divide",
        "automatic-split-needs-positions",
    ),
    (
        f"{TRANSFERS}defaultNamespaceBundleSplitAlgorithm=flow_or_qps_equally_divide",
        "extensible-refuses-flow",
    ),
    ("flowOrQpsDifferenceThresholdPercentage=20", "flow-works-only-as-default"),
    ("defaultNumberOfNamespaceBundles=128", "never-splits"),
    (f"loadBalancerEnabled=false\n{SHEDDER}={IMPL}OverloadShedder", "balancing-off"),
    ("loadBalancerSheddingGracePeriodMinutes=0", "no-grace"),
    ("loadBalancerHostUsageCheckIntervalMinutes=5", "rounds-outrun-reports"),
    (f"{TRANSFERS}loadBalancerBrokerLoadDataTTLInSeconds=60", "reports-expire-too-soon"),
    (f"{AVG_PAIR}loadBalancerAvgShedderLowThreshold=50", "avg-thresholds-crossed"),
    (f"{AVG_PAIR}loadBalancerAvgShedderLowThreshold=0", "avg-threshold-none"),
    (f"{AVG_PAIR}loadBalancerAvgShedderHitCountHighThreshold=9", "avg-hits-crossed"),
    (f"{TRANSFERS}loadBalancerBrokerLoadTargetStd=0.5", "target-deviation-unreachable"),
    (f"{TRANSFERS}loadBalancerMaxNumberOfBrokerSheddingPerCycle=0", "moves-nothing"),
    ("systemTopicsWritableByClients=true", "system-topics-writable"),
    ("minUnloadMessage=many", "bad-value"),
    ("maxUnloadPercentage=-1", "bad-value"),
    ("loadBalancerSheddingEnable=true", "misspelled-name"),
    ("minUnloadMessage=1\nminUnloadMessage=2", "repeated-name"),
]


@pytest.mark.parametrize(("text", "rule"), TRAPS, ids=[rule for _, rule in TRAPS])
def test_a_trap_is_a_problem(text, rule):
    assert rule in problems(text)


@pytest.mark.parametrize(
    ("text", "last_sound", "first_bad", "rule"),
    [
        ("loadBalancerNamespaceBundleMaxBandwidthMbytes={}", 2047, 2048, "bandwidth-overflow"),
        ("defaultNumberOfNamespaceBundles={}", 127, 128, "never-splits"),
        ("loadBalancerSheddingGracePeriodMinutes={}", 1, 0, "no-grace"),
        ("loadBalancerHostUsageCheckIntervalMinutes={}", 1, 2, "rounds-outrun-reports"),
        ("statsUpdateFrequencyInSecs={}", 60, 61, "rounds-outrun-reports"),
        ("loadBalancerReportUpdateMinIntervalMillis={}", 60_000, 60_001, "rounds-outrun-reports"),
        (
            f"{TRANSFERS}loadBalancerBrokerLoadDataTTLInSeconds={{}}",
            901,
            900,
            "reports-expire-too-soon",
        ),
        (f"{AVG_PAIR}loadBalancerAvgShedderLowThreshold={{}}", 40, 41, "avg-thresholds-crossed"),
        (f"{AVG_PAIR}loadBalancerAvgShedderHitCountHighThreshold={{}}", 8, 9, "avg-hits-crossed"),
        (f"{AVG_PAIR}loadBalancerAvgShedderLowThreshold={{}}", 1, 0, "avg-threshold-none"),
        (
            f"{TRANSFERS}loadBalancerBrokerLoadTargetStd={{}}",
            0.49,
            0.5,
            "target-deviation-unreachable",
        ),
        (f"{TRANSFERS}loadBalancerMaxNumberOfBrokerSheddingPerCycle={{}}", 1, 0, "moves-nothing"),
        ("loadBalancerDirectMemoryResourceWeight={}", 0, 0.1, "memory-weight"),
        (f"{AVG_PAIR}maxUnloadPercentage={{}}", 0.5, 0.51, "moves-more-than-half"),
        (
            f"{SHEDDER}={IMPL}OverloadShedder\n"
            "loadBalancerBrokerOverloadedThresholdPercentage={}",
            100,
            101,
            "overload-shedder-waits",
        ),
        ("loadBalancerBundleUnloadMinThroughputThreshold={}", 10, 10.1, "floor-silences-shedder"),
        (f"{AVG_PAIR}minUnloadMessage={{}}", 1000, 1001, "floor-silences-shedder"),
        (
            f"{AVG_PAIR}minUnloadMessageThroughput={{}}",
            1_048_576,
            1_048_577,
            "floor-silences-shedder",
        ),
        ("managedLedgerDefaultWriteQuorum={}", 2, 3, "quorums-contradict"),
    ],
)
def test_a_trap_begins_at_its_limit(text, last_sound, first_bad, rule):
    assert rule not in problems(text.format(last_sound))
    assert rule in problems(text.format(first_bad))


NO_SPLITS = "loadBalancerAutoBundleSplitEnabled=false\n"
POSITIONS = "defaultNamespaceBundleSplitAlgorithm=specified_positions_divide\n"
BY_FLOW = "defaultNamespaceBundleSplitAlgorithm=flow_or_qps_equally_divide\n"
UNIFORM = f"{SHEDDER}={IMPL}UniformLoadShedder\n"
ONLY_MEMORY = (
    "loadBalancerCPUResourceWeight=0\nloadBalancerBandwidthInResourceWeight=0\n"
    "loadBalancerBandwidthOutResourceWeight=0\nloadBalancerMemoryResourceWeight=1\n"
)


@pytest.mark.parametrize(
    ("with_it", "without_it", "rule"),
    [
        (POSITIONS, POSITIONS + NO_SPLITS, "automatic-split-needs-positions"),
        (TRANSFERS + BY_FLOW, TRANSFERS + BY_FLOW + NO_SPLITS, "extensible-refuses-flow"),
        (
            "defaultNumberOfNamespaceBundles=128",
            f"defaultNumberOfNamespaceBundles=128\n{NO_SPLITS}",
            "never-splits",
        ),
        (
            "loadBalancerAutoUnloadSplitBundlesEnabled=false",
            f"{TRANSFERS}loadBalancerAutoUnloadSplitBundlesEnabled=false",
            "split-stays",
        ),
        ("", TRANSFERS, "one-broker-never-splits"),
        ("", "loadBalancerBundleUnloadMinThroughputThreshold=0", "floor-silences-shedder"),
        (AVG_PAIR, f"{AVG_PAIR}minUnloadMessage=0", "floor-silences-shedder"),
        (
            f"{UNIFORM}loadBalancerMsgRateDifferenceShedderThreshold=0\n"
            "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold=0",
            f"{UNIFORM}loadBalancerMsgRateDifferenceShedderThreshold=0",
            "uniform-thresholds-off",
        ),
        (
            "loadBalancerHistoryResourcePercentage=1",
            "loadManagerClassName=Acme\nloadBalancerHistoryResourcePercentage=1",
            "history-never-changes",
        ),
        (
            "loadBalancerPlacementStrategy=weightedRandomSelection",
            "loadBalancerMemoryResourceWeight=1",
            "deprecated-name",
        ),
        ("managedLedgerDefaultAckQuorum=1", "", "one-copy-acknowledged"),
        (
            f"{TRANSFERS}{SHEDDER}={IMPL}AvgShedder",
            f"loadManagerClassName={EXTENSIBLE}",
            "extensible-ignores-shedder",
        ),
        ("", UNIFORM, "placement-undoes-shedder"),
        ("", TRANSFERS, "even-distribution-decides"),
        ("", "loadManagerClassName=", "even-distribution-decides"),
        ("", f"{PLACEMENT}={IMPL}AvgShedder", "even-distribution-decides"),
        (
            "loadBalancerSheddingEnabled=false",
            "loadBalancerSheddingEnabled=false\nloadBalancerEnabled=false",
            "shedding-off",
        ),
        (ONLY_MEMORY, TRANSFERS + ONLY_MEMORY, "no-resource-counts"),
    ],
)
def test_a_trap_needs_all_that_makes_it_one(with_it, without_it, rule):
    assert rule in {each.rule for each in look(with_it, brokers=1)}
    assert rule not in {each.rule for each in look(without_it, brokers=1)}


def test_every_finding_says_which_values_why_and_what_to_do():
    for text, _ in TRAPS:
        for finding in look(text, brokers=10):
            assert finding.settings
            assert finding.why.endswith((".", "!"))
            assert finding.change or finding.advice or finding.rule == "one-broker-never-splits"
            assert set(finding.change) <= set(table())
            for name, value in finding.change.items():
                table()[name].option.parse(value)


@pytest.mark.parametrize("rule", sorted({rule for _, rule in TRAPS} - {"repeated-name"}))
def test_the_change_takes_the_problem_away(rule):
    """Do what the doctor says, again and again: it runs out of problems."""
    text = next(text for text, each in TRAPS if each == rule)
    for _ in range(6):
        wrong = [each for each in look(text) if each.severity is Severity.PROBLEM]
        if not wrong:
            return
        dropped = {
            each.advice.split()[1].rstrip(",") for each in wrong if each.advice.startswith("delete")
        }
        values = dict(parse_properties(text).values)
        for each in wrong:
            values |= each.change
        text = "".join(f"{name}={value}\n" for name, value in values.items() if name not in dropped)
    pytest.fail(f"still: {[each.title for each in wrong]}")
