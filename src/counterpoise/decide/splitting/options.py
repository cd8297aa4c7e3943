"""The settings that decide when and where a bundle is split."""

from dataclasses import dataclass

from counterpoise.names.options import option

MEBIBYTE = 1048576

ALGORITHM_NAMES = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """Every setting that `counterpoise.decide.splitting` reads."""

    auto_split_enabled: bool = option(True, "loadBalancerAutoBundleSplitEnabled", dynamic=True)
    """Whether bundles are split automatically."""
    auto_unload_enabled: bool = option(
        True, "loadBalancerAutoUnloadSplitBundlesEnabled", dynamic=True
    )
    """Whether the parts of a split bundle are unloaded, so that they can go elsewhere."""
    max_topics: int = option(
        1000, "loadBalancerNamespaceBundleMaxTopics", "topics", low=0, dynamic=True
    )
    """A bundle with more topics is split."""
    max_sessions: int = option(
        1000,
        "loadBalancerNamespaceBundleMaxSessions",
        "producers and consumers",
        low=-1,
        dynamic=True,
    )
    """A bundle with more producers and consumers is split; 0 or -1 switches this test off."""
    max_msg_rate: int = option(
        30000,
        "loadBalancerNamespaceBundleMaxMsgRate",
        "messages/s, in and out",
        low=0,
        dynamic=True,
    )
    """A bundle with a greater rate is split; flow_or_qps_equally_divide fills parts to it."""
    max_bandwidth_mbytes: int = option(
        100,
        "loadBalancerNamespaceBundleMaxBandwidthMbytes",
        "MiB/s, in and out",
        low=0,
        dynamic=True,
    )
    """A bundle with more traffic is split; 2048 and more overflow in Pulsar."""
    maximum_bundles: int = option(
        128, "loadBalancerNamespaceMaximumBundles", "bundles of a namespace", low=0, dynamic=True
    )
    """A namespace with this many bundles is split no further."""
    hit_count_threshold: int = option(
        3,
        "loadBalancerNamespaceBundleSplitConditionHitCountThreshold",
        "checks",
        low=0,
        dynamic=True,
    )
    """How often in a row a bundle may exceed a limit before it is split (extensible)."""
    max_splits_per_cycle: int = option(
        10,
        "loadBalancerMaxNumberOfBundlesToSplitPerCycle",
        "bundles of a broker",
        low=0,
        dynamic=True,
    )
    """How many bundles one broker splits at once (extensible); 0 means all."""
    interval_minutes: int = option(1, "loadBalancerSplitIntervalMinutes", "minutes", low=1)
    """How often a broker looks for bundles to split."""
    supported_algorithms: tuple[str, ...] = option(
        ALGORITHM_NAMES, "supportedNamespaceBundleSplitAlgorithms", dynamic=True
    )
    """The algorithms that a split may ask for."""
    default_algorithm: str = option(
        "range_equally_divide",
        "defaultNamespaceBundleSplitAlgorithm",
        choices=ALGORITHM_NAMES,
        dynamic=True,
    )
    """The algorithm of a split that names none, every automatic one included."""
    flow_difference_percentage: int = option(
        10, "flowOrQpsDifferenceThresholdPercentage", "%", low=0, dynamic=True
    )
    """How far above a limit flow_or_qps_equally_divide lets a bundle go before it splits."""

    @property
    def max_bandwidth_bytes(self) -> int:
        """The bandwidth limit in bytes/s, exactly."""
        return self.max_bandwidth_mbytes * MEBIBYTE

    @property
    def max_bandwidth_bytes_int32(self) -> int:
        """The bandwidth limit as both of Pulsar's split checks compute it, in 32 bits.

        Quirk kept: 2048 MiB becomes negative (every bundle exceeds it), 4096 becomes 0.
        """
        return (self.max_bandwidth_bytes + 2**31) % 2**32 - 2**31
