"""Settings of bundle ownership."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from counterpoise.names.options import option

_CHANNEL: Final = "org.apache.pulsar.broker.loadbalance.extensions.channel."
ON_TOPIC: Final = _CHANNEL + "ServiceUnitStateTableViewImpl"
IN_STORE: Final = _CHANNEL + "ServiceUnitStateMetadataStoreTableViewImpl"


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
    table_view: str = option(
        ON_TOPIC,
        conf="loadManagerServiceUnitStateTableViewClassName",
        choices=(ON_TOPIC, IN_STORE),
        why="where it is kept who owns which bundle: on a system topic, or in the metadata store",
    )
