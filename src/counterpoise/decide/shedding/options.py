"""The options of the shedders, under Pulsar's names."""

from dataclasses import dataclass
from typing import Final

from counterpoise.decide.weights import DEFAULT_WEIGHTS, ResourceWeights
from counterpoise.names.options import INT64_MAX, option


@dataclass(frozen=True, slots=True)
class OverloadOptions:
    """The settings that OverloadShedder reads."""

    overloaded_threshold_percentage: int = option(
        85, "loadBalancerBrokerOverloadedThresholdPercentage", "percent", low=0, dynamic=True
    )
    """A broker sheds bundles when its most used resource is used at least this much."""
    weights: ResourceWeights = DEFAULT_WEIGHTS


@dataclass(frozen=True, slots=True)
class ThresholdOptions:
    """The settings that ThresholdShedder reads."""

    threshold_percentage: int = option(
        10, "loadBalancerBrokerThresholdShedderPercentage", "percentage points", low=0, dynamic=True
    )
    """How far above the cluster's average a broker may be before it sheds."""
    history_percentage: float = option(
        0.9, "loadBalancerHistoryResourcePercentage", "fraction", low=0.0, high=1.0, dynamic=True
    )
    """The weight of the past in the usage average; the rest is the latest report."""
    min_throughput_mib: float = option(
        10.0, "loadBalancerBundleUnloadMinThroughputThreshold", "MiB/s", low=0.0, dynamic=True
    )
    """A broker that would shed less than this sheds nothing."""
    lower_boundary: bool = option(False, "lowerBoundarySheddingEnabled")
    """Whether the busiest broker also sheds when another one is far below the average."""
    weights: ResourceWeights = DEFAULT_WEIGHTS


@dataclass(frozen=True, slots=True)
class UnloadLimits:
    """How much one call may move, for UniformLoadShedder and AvgShedder."""

    max_unload_percentage: float = option(
        0.2, "maxUnloadPercentage", "fraction", low=0.0, dynamic=True
    )
    """How much of the difference between two brokers is moved at once."""
    min_unload_message: int = option(1000, "minUnloadMessage", "messages/s", low=0, dynamic=True)
    """Less traffic than this is not worth an unload."""
    min_unload_throughput: int = option(
        1024 * 1024, "minUnloadMessageThroughput", "bytes/s", low=0, dynamic=True
    )
    """Less traffic than this is not worth an unload."""


DEFAULT_LIMITS: Final = UnloadLimits()


@dataclass(frozen=True, slots=True)
class UniformOptions:
    """The settings that UniformLoadShedder reads."""

    rate_threshold_percentage: float = option(
        50.0, "loadBalancerMsgRateDifferenceShedderThreshold", "percent", low=0.0, dynamic=True
    )
    """How far the busiest broker may be above the idlest in messages/s; 0 switches it off."""
    throughput_threshold_ratio: float = option(
        4.0,
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
        "times",
        low=0.0,
        dynamic=True,
    )
    """How many times the idlest broker's bytes/s the busiest may have; 0 switches it off."""
    max_bundles: int = option(-1, "maxUnloadBundleNumPerShedding", "bundles", low=-1, dynamic=True)
    """The most bundles that one call unloads; -1 for no limit."""
    limits: UnloadLimits = DEFAULT_LIMITS


@dataclass(frozen=True, slots=True)
class AvgOptions:
    """The settings that AvgShedder reads (PIP-364)."""

    low_threshold: int = option(
        15, "loadBalancerAvgShedderLowThreshold", "percentage points", low=0, dynamic=True
    )
    """A pair of brokers this far apart counts as uneven."""
    high_threshold: int = option(
        40, "loadBalancerAvgShedderHighThreshold", "percentage points", low=0, dynamic=True
    )
    """A pair this far apart is evened out after fewer calls."""
    low_hits: int = option(
        8, "loadBalancerAvgShedderHitCountLowThreshold", "calls", low=0, dynamic=True
    )
    """How many calls in a row a pair must be beyond the low threshold before anything moves."""
    high_hits: int = option(
        2, "loadBalancerAvgShedderHitCountHighThreshold", "calls", low=0, dynamic=True
    )
    """How many calls in a row a pair must be beyond the high threshold before anything moves."""
    limits: UnloadLimits = DEFAULT_LIMITS
    weights: ResourceWeights = DEFAULT_WEIGHTS


@dataclass(frozen=True, slots=True)
class TransferOptions:
    """The settings that TransferShedder reads."""

    target_std: float = option(
        0.25, "loadBalancerBrokerLoadTargetStd", "fraction", low=0.0, dynamic=True
    )
    """The standard deviation of the brokers' loads above which bundles move."""
    hit_count_threshold: int = option(
        3, "loadBalancerSheddingConditionHitCountThreshold", "calls", low=0, dynamic=True
    )
    """In how many calls in a row the cluster may be uneven; the next call moves bundles."""
    transfer_enabled: bool = option(True, "loadBalancerTransferEnabled", dynamic=True)
    """Whether the new owner is named at once instead of chosen by placement."""
    max_brokers_per_cycle: int = option(
        3, "loadBalancerMaxNumberOfBrokerSheddingPerCycle", "brokers", low=0, dynamic=True
    )
    """The most brokers that shed in one call."""
    shedding_delay_s: int = option(
        180, "loadBalanceSheddingDelayInSeconds", "s", low=0, high=INT64_MAX, dynamic=True
    )
    """How long after bundles moved a broker is waited for, so that it measures its load again."""
    load_data_ttl_s: int = option(
        1800, "loadBalancerBrokerLoadDataTTLInSeconds", "s", low=0, high=INT64_MAX, dynamic=True
    )
    """Load data older than this is not used."""
    overloaded_threshold_percentage: int = option(
        85, "loadBalancerBrokerOverloadedThresholdPercentage", "percent", low=0, dynamic=True
    )
    """A broker above this, and far above the average, is overloaded whatever the deviation."""
    bundles_with_policies: bool = option(
        False, "loadBalancerSheddingBundlesWithPoliciesEnabled", dynamic=True
    )
    """Whether bundles with an isolation policy or an anti-affinity group move, too."""
    debug_mode: bool = option(False, "loadBalancerDebugModeEnabled", dynamic=True)
    """Pulsar's debug mode, which logs more and also changes what is moved back (see
    TransferShedder)."""
