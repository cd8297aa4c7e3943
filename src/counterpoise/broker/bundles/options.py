"""Settings of bundle ownership."""

from dataclasses import dataclass
from typing import Final

from counterpoise.names.options import option

_CHANNEL: Final = "org.apache.pulsar.broker.loadbalance.extensions.channel."
ON_TOPIC: Final = _CHANNEL + "ServiceUnitStateTableViewImpl"
IN_STORE: Final = _CHANNEL + "ServiceUnitStateMetadataStoreTableViewImpl"


@dataclass(frozen=True, slots=True)
class StateChannelOptions:
    """Settings of the bundle state channel, which the extensible load manager uses."""

    in_flight_ms: int = option(
        30_000, "loadBalancerInFlightServiceUnitStateWaitingTimeInMillis", "ms", low=1
    )
    """How long a change of a bundle's owner may take before the leader repairs it."""
    tombstone_delay_s: int = option(
        3600, "loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds", "s", low=1
    )
    """How long the record of a bundle that no broker owns is kept."""
    monitor_interval_s: int = option(
        60, "loadBalancerServiceUnitStateMonitorIntervalInSeconds", "s", low=1
    )
    """How often the leader looks for bundles whose ownership needs repair; a broker that comes or
    goes makes it look at once."""
    overrides_at_once: int = option(
        64, "loadBalancerServiceUnitStateMaxConcurrentOverrides", "bundles", low=1, dynamic=True
    )
    """How many bundles whose ownership needs repair the leader repairs at the same time."""
    names_owner: bool = option(True, "loadBalancerMultiPhaseBundleUnload")
    """Whether clients of a bundle that moves are redirected to its new owner; if false, they are
    disconnected and look it up."""
    clients_may_write: bool = option(False, "systemTopicsWritableByClients")
    """Whether every client may write to the topics of pulsar/system, as in Pulsar without
    authorization. If false, only brokers and super users may: a client that writes bundles' states
    there can make bundles unavailable."""
    table_view: str = option(
        ON_TOPIC, "loadManagerServiceUnitStateTableViewClassName", choices=(ON_TOPIC, IN_STORE)
    )
    """Where the owners of bundles are kept: on a system topic, or in the metadata store."""
