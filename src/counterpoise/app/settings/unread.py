"""Pulsar's balancing and rate settings that no room reads: known, checked, explained."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.names.options import INT64_MAX, option


@dataclass(frozen=True, slots=True)
class UnreadOptions:
    """Load balancing settings and limits of Pulsar 4.0.7 that have no effect here."""

    simple_placement: str = option(
        "leastLoadedServer", "loadBalancerPlacementStrategy", deprecated=True
    )
    """Read by the simple manager of Pulsar 1 only."""
    simple_underloaded: int = option(
        50, "loadBalancerBrokerUnderloadedThresholdPercentage", "percent", deprecated=True
    )
    """Read by the simple manager of Pulsar 1 only."""
    simple_comfort: int = option(
        65, "loadBalancerBrokerComfortLoadLevelPercentage", "percent", deprecated=True
    )
    """Read by the simple manager of Pulsar 1 only."""
    quota_update_minutes: int = option(
        15, "loadBalancerResourceQuotaUpdateIntervalMinutes", "minutes", low=1
    )
    """How often the leader writes bundle averages to the metadata store."""
    reported_bundles: int = option(
        10, "loadBalancerMaxNumberOfBundlesInBundleLoadReport", "bundles", dynamic=True
    )
    """How many of its busiest bundles a broker reports (extensible); 0 or less means all."""
    in_flight_ms: int = option(
        30000,
        "loadBalancerInFlightServiceUnitStateWaitingTimeInMillis",
        "ms",
        low=1,
        high=INT64_MAX,
    )
    """How long a bundle may be between two owners before it is given to another (extensible)."""
    monitor_s: int = option(
        60, "loadBalancerServiceUnitStateMonitorIntervalInSeconds", "s", low=1, high=INT64_MAX
    )
    """How often the leader looks for bundles stuck between owners (extensible)."""
    tombstone_delay_s: int = option(
        3600,
        "loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds",
        "s",
        low=0,
        high=INT64_MAX,
    )
    """How long the record of a bundle that no broker owns is kept (extensible)."""
    syncer: str = option(
        "None",
        "loadBalancerServiceUnitTableViewSyncer",
        choices=("None", "SystemTopicToMetadataStoreSyncer", "MetadataStoreToSystemTopicSyncer"),
        dynamic=True,
    )
    """Copies ownership between the two places while a cluster migrates (extensible)."""
    topic_assigner: str = option(
        "org.apache.pulsar.common.naming.ConsistentHashingTopicBundleAssigner",
        "topicBundleAssignmentStrategy",
    )
    """How a topic's bundle is found: by its hash."""
    first_stats_s: int = option(60, "statsUpdateInitialDelayInSecs", "s", low=0)
    """How long after its start a broker first measures rates."""
    session_timeout_ms: int = option(
        -1, "zooKeeperSessionTimeoutMillis", "ms", high=INT64_MAX, deprecated=True
    )
    """Replaced by metadataStoreSessionTimeoutMillis."""
    session_expired: str = option(
        "reconnect", "zookeeperSessionExpiredPolicy", choices=("reconnect", "shutdown")
    )
    """What a broker does whose metadata session expired."""
    topic_tick_ms: int = option(10, "topicPublisherThrottlingTickTimeMillis", "ms", dynamic=True)
    """Accepted and ignored since PIP-322."""
    broker_tick_ms: int = option(50, "brokerPublisherThrottlingTickTimeMillis", "ms", dynamic=True)
    """Accepted and ignored since PIP-322."""
    replicated_messages: int = option(
        0, "dispatchThrottlingRatePerReplicatorInMsg", "messages/s", dynamic=True
    )
    """Messages replicated from one topic; 0 means no limit."""
    replicated_bytes: int = option(
        0, "dispatchThrottlingRatePerReplicatorInByte", "bytes/s", high=INT64_MAX, dynamic=True
    )
    """Bytes replicated from one topic; 0 means no limit."""
    usage_transport: str = option("", "resourceUsageTransportClassName")
    """How brokers share resource-group usage; empty: not."""
