"""Settings of bundle ownership."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class OwnershipOptions:
    """How patient the leader of the extensible load manager is with changes of ownership."""

    in_flight_ms: int = option(
        30_000,
        conf="loadBalancerInFlightServiceUnitStateWaitingTimeInMillis",
        unit="ms",
        low=1,
        why="a change of a bundle's owner that takes longer is ended by the leader",
    )
    tombstone_delay_s: int = option(
        3600,
        conf="loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds",
        unit="s",
        low=1,
        why="how long the record of a bundle that nobody owns is kept",
    )
    monitor_interval_s: int = option(
        60,
        conf="loadBalancerServiceUnitStateMonitorIntervalInSeconds",
        unit="s",
        low=1,
        why="how often the leader looks for bundles that nobody will mend; a broker that comes or "
        "goes makes it look at once",
    )
    overrides_at_once: int = option(
        64,
        conf="loadBalancerServiceUnitStateMaxConcurrentOverrides",
        unit="bundles",
        low=1,
        dynamic=True,
        why="how many bundles that nobody will mend the leader mends side by side",
    )
    names_owner: bool = option(
        True,
        conf="loadBalancerMultiPhaseBundleUnload",
        why="whether clients of a bundle that moves are told its new owner; off, they are "
        "disconnected and look it up",
    )
