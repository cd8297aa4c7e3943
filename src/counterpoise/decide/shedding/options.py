"""The options of the shedders, under Pulsar's names."""

from dataclasses import dataclass
from typing import Final

from counterpoise.decide.weights import DEFAULT_WEIGHTS, ResourceWeights
from counterpoise.names.options import INT64_MAX, option


@dataclass(frozen=True, slots=True)
class OverloadOptions:
    """What OverloadShedder reads."""

    overloaded_threshold_percentage: int = option(
        85,
        conf="loadBalancerBrokerOverloadedThresholdPercentage",
        unit="percent",
        low=0,
        dynamic=True,
        why="a broker whose scarcest resource is used this much sheds bundles",
    )
    weights: ResourceWeights = DEFAULT_WEIGHTS


@dataclass(frozen=True, slots=True)
class ThresholdOptions:
    """What ThresholdShedder reads."""

    threshold_percentage: int = option(
        10,
        conf="loadBalancerBrokerThresholdShedderPercentage",
        unit="percentage points",
        low=0,
        dynamic=True,
        why="how far above the cluster's average a broker may be before it sheds",
    )
    history_percentage: float = option(
        0.9,
        conf="loadBalancerHistoryResourcePercentage",
        unit="fraction",
        low=0.0,
        high=1.0,
        dynamic=True,
        why="weight of the past in the usage average; the rest is the latest report",
    )
    min_throughput_mib: float = option(
        10.0,
        conf="loadBalancerBundleUnloadMinThroughputThreshold",
        unit="MiB/s",
        low=0.0,
        dynamic=True,
        why="a broker that would shed less than this is left alone",
    )
    lower_boundary: bool = option(
        False,
        conf="lowerBoundarySheddingEnabled",
        why="also unload the busiest broker when another is far below the average",
    )
    weights: ResourceWeights = DEFAULT_WEIGHTS


@dataclass(frozen=True, slots=True)
class UnloadLimits:
    """How much one call may move: UniformLoadShedder and AvgShedder share these."""

    max_unload_percentage: float = option(
        0.2,
        conf="maxUnloadPercentage",
        unit="fraction",
        low=0.0,
        dynamic=True,
        why="how much of the difference between two brokers is moved at once",
    )
    min_unload_message: int = option(
        1000,
        conf="minUnloadMessage",
        unit="messages/s",
        low=0,
        dynamic=True,
        why="less traffic than this is not worth an unload",
    )
    min_unload_throughput: int = option(
        1024 * 1024,
        conf="minUnloadMessageThroughput",
        unit="bytes/s",
        low=0,
        dynamic=True,
        why="less traffic than this is not worth an unload",
    )


DEFAULT_LIMITS: Final = UnloadLimits()


@dataclass(frozen=True, slots=True)
class UniformOptions:
    """What UniformLoadShedder reads."""

    rate_threshold_percentage: float = option(
        50.0,
        conf="loadBalancerMsgRateDifferenceShedderThreshold",
        unit="percent",
        low=0.0,
        dynamic=True,
        why="how far the busiest broker may be above the idlest in messages/s; 0 switches it off",
    )
    throughput_threshold_ratio: float = option(
        4.0,
        conf="loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
        unit="times",
        low=0.0,
        dynamic=True,
        why="how many times the idlest broker's bytes/s the busiest may have; 0 switches it off",
    )
    max_bundles: int = option(
        -1,
        conf="maxUnloadBundleNumPerShedding",
        unit="bundles",
        low=-1,
        dynamic=True,
        why="most bundles unloaded in one call; -1 for no limit",
    )
    limits: UnloadLimits = DEFAULT_LIMITS


@dataclass(frozen=True, slots=True)
class AvgOptions:
    """What AvgShedder reads (PIP-364)."""

    low_threshold: int = option(
        15,
        conf="loadBalancerAvgShedderLowThreshold",
        unit="percentage points",
        low=0,
        dynamic=True,
        why="a pair of brokers this far apart counts as uneven",
    )
    high_threshold: int = option(
        40,
        conf="loadBalancerAvgShedderHighThreshold",
        unit="percentage points",
        low=0,
        dynamic=True,
        why="a pair this far apart is evened out after fewer calls",
    )
    low_hits: int = option(
        8,
        conf="loadBalancerAvgShedderHitCountLowThreshold",
        unit="calls",
        low=0,
        dynamic=True,
        why="calls in a row beyond the low threshold before anything moves",
    )
    high_hits: int = option(
        2,
        conf="loadBalancerAvgShedderHitCountHighThreshold",
        unit="calls",
        low=0,
        dynamic=True,
        why="calls in a row beyond the high threshold before anything moves",
    )
    limits: UnloadLimits = DEFAULT_LIMITS
    weights: ResourceWeights = DEFAULT_WEIGHTS


@dataclass(frozen=True, slots=True)
class TransferOptions:
    """What TransferShedder reads."""

    target_std: float = option(
        0.25,
        conf="loadBalancerBrokerLoadTargetStd",
        unit="fraction",
        low=0.0,
        dynamic=True,
        why="standard deviation of the brokers' load above which bundles move",
    )
    hit_count_threshold: int = option(
        3,
        conf="loadBalancerSheddingConditionHitCountThreshold",
        unit="calls",
        low=0,
        dynamic=True,
        why="calls in a row that may find the cluster uneven; the next one acts",
    )
    transfer_enabled: bool = option(
        True,
        conf="loadBalancerTransferEnabled",
        dynamic=True,
        why="name the new owner at once instead of leaving it to placement",
    )
    max_brokers_per_cycle: int = option(
        3,
        conf="loadBalancerMaxNumberOfBrokerSheddingPerCycle",
        unit="brokers",
        low=0,
        dynamic=True,
        why="most brokers that shed in one call",
    )
    shedding_delay_s: int = option(
        180,
        conf="loadBalanceSheddingDelayInSeconds",
        unit="s",
        low=0,
        high=INT64_MAX,
        dynamic=True,
        why="time a broker has to measure its load again after bundles moved",
    )
    load_data_ttl_s: int = option(
        1800,
        conf="loadBalancerBrokerLoadDataTTLInSeconds",
        unit="s",
        low=0,
        high=INT64_MAX,
        dynamic=True,
        why="older load data says nothing about a broker",
    )
    overloaded_threshold_percentage: int = option(
        85,
        conf="loadBalancerBrokerOverloadedThresholdPercentage",
        unit="percent",
        low=0,
        dynamic=True,
        why="a broker above this, and far above the average, is overloaded whatever the deviation",
    )
    bundles_with_policies: bool = option(
        False,
        conf="loadBalancerSheddingBundlesWithPoliciesEnabled",
        dynamic=True,
        why="also move bundles with an isolation policy or an anti-affinity group",
    )
    debug_mode: bool = option(
        False,
        conf="loadBalancerDebugModeEnabled",
        dynamic=True,
        why="logs more; in Pulsar it also changes what is moved back (see TransferShedder)",
    )
