"""Random broker.conf settings under Pulsar's names: half the cases keep the defaults."""

from collections.abc import Callable, Mapping
from random import Random

Setting = int | float | bool | str
Draw = Callable[[Random], Setting]


def one_of(*values: Setting) -> Draw:
    return lambda rng: rng.choice(values)


def between(low: float, high: float) -> Draw:
    return lambda rng: round(rng.uniform(low, high), 3)


def whole(low: int, high: int) -> Draw:
    return lambda rng: rng.randint(low, high)


_FLAG = one_of(False, True)
_WEIGHTS: Mapping[str, Draw] = {
    "loadBalancerCPUResourceWeight": one_of(1.0, 1.0, 0.0, 0.5, 2.0),
    "loadBalancerDirectMemoryResourceWeight": one_of(0.0, 1.0, 0.3),
    "loadBalancerBandwidthInResourceWeight": one_of(1.0, 1.0, 0.0, 0.25),
    "loadBalancerBandwidthOutResourceWeight": one_of(1.0, 1.0, 0.0, 1.5),
}
_UNLOAD: Mapping[str, Draw] = {
    "maxUnloadPercentage": one_of(0.2, 0.5, 1.0, 0.05, 0.0),
    "minUnloadMessage": one_of(1000, 0, 1, 100),
    "minUnloadMessageThroughput": one_of(1048576, 0, 1, 1000),
}
SETTINGS: Mapping[str, Mapping[str, Draw]] = {
    "OverloadShedder": {
        **_WEIGHTS,
        "loadBalancerBrokerOverloadedThresholdPercentage": one_of(85, 50, 70, 90, 100, 1, 20),
    },
    "ThresholdShedder": {
        **_WEIGHTS,
        "loadBalancerBrokerThresholdShedderPercentage": one_of(10, 0, 5, 20, 40),
        "loadBalancerHistoryResourcePercentage": one_of(0.9, 0.0, 0.5, 1.0, 0.75),
        "loadBalancerBundleUnloadMinThroughputThreshold": one_of(10.0, 0.0, 0.1, 1.5, 0.001),
        "lowerBoundarySheddingEnabled": _FLAG,
    },
    "UniformLoadShedder": {
        **_UNLOAD,
        "loadBalancerMsgRateDifferenceShedderThreshold": one_of(50.0, 0.0, 10.0, 200.0, 1e9),
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": one_of(4.0, 0.0, 1.5, 2.0),
        "maxUnloadBundleNumPerShedding": one_of(-1, -1, 0, 1, 3),
    },
    "AvgShedder": {
        **_WEIGHTS,
        **_UNLOAD,
        "loadBalancerAvgShedderLowThreshold": one_of(15, 0, 5, 10, 30),
        "loadBalancerAvgShedderHighThreshold": one_of(40, 15, 20, 60),
        "loadBalancerAvgShedderHitCountLowThreshold": one_of(8, 1, 2, 4),
        "loadBalancerAvgShedderHitCountHighThreshold": one_of(2, 1, 3),
    },
    "load": {
        **_WEIGHTS,
        "loadBalancerMemoryResourceWeight": one_of(0.0, 0.5),
        "loadBalancerHistoryResourcePercentage": one_of(0.9, 0.0, 0.5, 1.0),
    },
    "select": {
        "loadBalancerBrokerMaxTopics": one_of(50000, 50000, 9, 1),
        "loadBalancerDistributeBundlesEvenlyEnabled": _FLAG,
        "preferLaterVersions": _FLAG,
        "failureDomainsEnabled": _FLAG,
        "loadBalancerBrokerOverloadedThresholdPercentage": one_of(85, 50, 95),
    },
    "report-change": {
        **_WEIGHTS,
        "loadBalancerReportUpdateThresholdPercentage": one_of(10, 0, 5, 50),
        "loadBalancerReportUpdateMaxIntervalMinutes": one_of(15, 1, 30),
    },
    "split": {
        "loadBalancerNamespaceBundleMaxTopics": one_of(1000, 2, 100),
        "loadBalancerNamespaceBundleMaxSessions": one_of(1000, 0, 100),
        "loadBalancerNamespaceBundleMaxMsgRate": one_of(30000, 0, 1000, 5000),
        "loadBalancerNamespaceBundleMaxBandwidthMbytes": one_of(100, 1, 10, 2047, 2048, 4096),
        "loadBalancerNamespaceMaximumBundles": one_of(128, 5, 127),
        "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": one_of(3, 0, 1),
        "loadBalancerMaxNumberOfBundlesToSplitPerCycle": one_of(10, 0, 1, 2),
        "flowOrQpsDifferenceThresholdPercentage": one_of(10, 0, 50),
        "defaultNamespaceBundleSplitAlgorithm": one_of(
            "range_equally_divide",
            "range_equally_divide",
            "topic_count_equally_divide",
            "specified_positions_divide",
            "flow_or_qps_equally_divide",
        ),
    },
    "place/LeastLongTermMessageRate": {
        **_WEIGHTS,
        "loadBalancerBrokerOverloadedThresholdPercentage": one_of(85, 50, 20, 100),
    },
    "place/LeastResourceUsageWithWeight": {
        **_WEIGHTS,
        "loadBalancerAverageResourceUsageDifferenceThresholdPercentage": one_of(10, 0, 5, 30),
        "loadBalancerHistoryResourcePercentage": one_of(0.9, 0.0, 0.5, 1.0, 0.75),
    },
    "place/RoundRobinBrokerSelector": {},
    "place/AvgShedder": {},
    "TransferShedder": {
        "loadBalancerBrokerLoadTargetStd": one_of(0.25, 0.1, 0.05, 0.0, 0.5, 2.0),
        "loadBalancerSheddingConditionHitCountThreshold": one_of(3, 0, 0, 1),
        "loadBalancerTransferEnabled": one_of(True, True, False),
        "loadBalancerMaxNumberOfBrokerSheddingPerCycle": one_of(3, 1, 2, 10, 100),
        "loadBalanceSheddingDelayInSeconds": one_of(180, 1, 600),
        "loadBalancerBrokerLoadDataTTLInSeconds": one_of(1800, 60),
        "loadBalancerBrokerOverloadedThresholdPercentage": one_of(85, 50, 70),
        "loadBalancerDebugModeEnabled": one_of(False, False, False, True),
        "loadBalancerSheddingBundlesWithPoliciesEnabled": _FLAG,
    },
}


def settings(rng: Random, strategy: str) -> dict[str, Setting]:
    """Settings for one case: empty, or a random value for about half of what the class reads."""
    if rng.random() < 0.3:
        return {}
    return {name: draw(rng) for name, draw in SETTINGS[strategy].items() if rng.random() < 0.6}
