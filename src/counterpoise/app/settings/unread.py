"""Pulsar's balancing and rate settings that no room reads: known, checked, explained."""

from __future__ import annotations

from typing import Any

from counterpoise.names.options import INT32_MAX, INT64_MAX, Option

_ASSIGNER = "org.apache.pulsar.common.naming.ConsistentHashingTopicBundleAssigner"


def _known(
    conf: str,
    default: Any,
    why: str,
    *,
    unit: str = "",
    low: float | None = None,
    dynamic: bool = False,
    deprecated: bool = False,
    choices: tuple[str, ...] = (),
    long: bool = False,
) -> Option:
    kind = type(default)
    high = (INT64_MAX if long else INT32_MAX) if kind is int else None
    if high is not None and low is None:
        low = -high - 1
    return Option(conf, default, kind, unit, why, low, high, choices, dynamic, (), deprecated)


BALANCING: tuple[Option, ...] = (
    _known(
        "loadBalancerPlacementStrategy",
        "leastLoadedServer",
        "read by the simple manager of Pulsar 1 only",
        deprecated=True,
    ),
    _known(
        "loadBalancerBrokerUnderloadedThresholdPercentage",
        50,
        "read by the simple manager of Pulsar 1 only",
        unit="percent",
        deprecated=True,
    ),
    _known(
        "loadBalancerBrokerComfortLoadLevelPercentage",
        65,
        "read by the simple manager of Pulsar 1 only",
        unit="percent",
        deprecated=True,
    ),
    _known(
        "loadBalancerResourceQuotaUpdateIntervalMinutes",
        15,
        "how often the leader writes bundle averages to the metadata store",
        unit="minutes",
        low=1,
    ),
    _known(
        "loadBalancerMaxNumberOfBundlesInBundleLoadReport",
        10,
        "how many of its busiest bundles a broker reports (extensible); 0 or less means all",
        unit="bundles",
        dynamic=True,
    ),
    _known(
        "loadBalancerInFlightServiceUnitStateWaitingTimeInMillis",
        30000,
        "how long a bundle may be between two owners before it is given to another (extensible)",
        unit="ms",
        low=1,
        long=True,
    ),
    _known(
        "loadBalancerServiceUnitStateMonitorIntervalInSeconds",
        60,
        "how often the leader looks for bundles stuck between owners (extensible)",
        unit="s",
        low=1,
        long=True,
    ),
    _known(
        "loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds",
        3600,
        "how long the record of a bundle that is gone stays (extensible)",
        unit="s",
        low=0,
        long=True,
    ),
    _known(
        "loadBalancerServiceUnitTableViewSyncer",
        "None",
        "copies ownership between the two places while a cluster migrates (extensible)",
        dynamic=True,
        choices=("None", "SystemTopicToMetadataStoreSyncer", "MetadataStoreToSystemTopicSyncer"),
    ),
    _known(
        "topicBundleAssignmentStrategy", _ASSIGNER, "how a topic's bundle is found: by its hash"
    ),
    _known("statsUpdateInitialDelayInSecs", 60, "when rates are first measured", unit="s", low=0),
    _known(
        "zooKeeperSessionTimeoutMillis",
        -1,
        "replaced by metadataStoreSessionTimeoutMillis",
        unit="ms",
        deprecated=True,
        long=True,
    ),
    _known(
        "zookeeperSessionExpiredPolicy",
        "reconnect",
        "what a broker does whose metadata session expired",
        choices=("reconnect", "shutdown"),
    ),
)
"""What `load-balancer` settings of Pulsar 4.0.7 nothing here reads."""

_NO_LIMIT = "0 means no limit"

RATES: tuple[Option, ...] = (
    _known(
        "topicPublisherThrottlingTickTimeMillis",
        10,
        "accepted and ignored since PIP-322",
        unit="ms",
        dynamic=True,
    ),
    _known(
        "brokerPublisherThrottlingTickTimeMillis",
        50,
        "accepted and ignored since PIP-322",
        unit="ms",
        dynamic=True,
    ),
    *(
        _known(name, 0, f"{what}; {_NO_LIMIT}", unit=unit, dynamic=True, long=unit == "bytes/s")
        for name, what, unit in (
            ("dispatchThrottlingRatePerReplicatorInMsg", "replicated of a topic", "messages/s"),
            ("dispatchThrottlingRatePerReplicatorInByte", "replicated of a topic", "bytes/s"),
        )
    ),
    _known(
        "resourceUsageTransportClassName", "", "how brokers share resource-group usage; empty: not"
    ),
)
"""What publish and dispatch limits of Pulsar 4.0.7 nothing here reads."""
