"""The options of TransferShedder, under Pulsar's names."""

from dataclasses import dataclass

from counterpoise.names.options import INT64_MAX, option


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
