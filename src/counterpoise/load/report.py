"""A broker's load report: ``LocalBrokerData``, as stored at ``/loadbalance/brokers/<id>``."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from counterpoise.load.fields import JsonObject, to_json
from counterpoise.load.rates import sequential_sum
from counterpoise.load.rows import RATES, RESOURCES
from counterpoise.load.usage import NO_USAGE, Float32s, ResourceUsage, max_usage, percents_of


@dataclass(frozen=True, slots=True)
class NamespaceBundleStats(JsonObject):
    """A broker's counts for one bundle: messages/s, bytes/s, clients, topics, cached bytes."""

    msg_rate_in: float = 0.0
    msg_throughput_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_out: float = 0.0
    consumer_count: int = 0
    producer_count: int = 0
    topics: int = 0
    cache_size: int = 0


@dataclass(frozen=True, slots=True)
class SystemResourceUsage:
    """The usage and limits of a broker's CPU, heap, direct memory and network, in and out."""

    cpu: ResourceUsage = NO_USAGE
    memory: ResourceUsage = NO_USAGE
    direct_memory: ResourceUsage = NO_USAGE
    bandwidth_in: ResourceUsage = NO_USAGE
    bandwidth_out: ResourceUsage = NO_USAGE


@dataclass(frozen=True, slots=True)
class LocalBrokerData(JsonObject):
    """Everything that a broker reports (``LocalBrokerData`` of Pulsar 4.0.7).

    Times are milliseconds since the epoch, rates messages/s, throughputs bytes/s; ``bundles`` are
    the owned ones, ``last_bundle_gains`` and ``last_bundle_losses`` what changed since the last
    report that was written.
    """

    web_service_url: str | None = None
    web_service_url_tls: str | None = None
    pulsar_service_url: str | None = None
    pulsar_service_url_tls: str | None = None
    persistent_topics_enabled: bool = True
    non_persistent_topics_enabled: bool = True
    cpu: ResourceUsage = NO_USAGE
    memory: ResourceUsage = NO_USAGE
    direct_memory: ResourceUsage = NO_USAGE
    bandwidth_in: ResourceUsage = NO_USAGE
    bandwidth_out: ResourceUsage = NO_USAGE
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    last_update: int = 0
    last_stats: Mapping[str, NamespaceBundleStats] = field(default_factory=dict)
    num_topics: int = 0
    num_bundles: int = 0
    num_consumers: int = 0
    num_producers: int = 0
    bundles: tuple[str, ...] = ()
    last_bundle_gains: tuple[str, ...] = ()
    last_bundle_losses: tuple[str, ...] = ()
    broker_version_string: str | None = None
    protocols: Mapping[str, str] = field(default_factory=dict)
    advertised_listeners: Mapping[str, Any] = field(default_factory=dict)
    load_manager_class_name: str | None = None
    start_timestamp: int = 0

    @property
    def max_resource_usage(self) -> float:
        """The largest usage of CPU, direct memory and the two bandwidths, as a 32-bit fraction.

        Heap memory does not count, as in Pulsar.
        """
        return max_usage((self.cpu, self.direct_memory, self.bandwidth_in, self.bandwidth_out))

    @property
    def percents(self) -> Float32s:
        """The usage of each resource in percent, in the order of `RESOURCES`."""
        return percents_of([getattr(self, name) for name in RESOURCES])

    def to_json(self) -> dict[str, Any]:
        """Pulsar's JSON form, with the two derived properties that Jackson adds."""
        written: dict[str, Any] = to_json(self)
        written["maxResourceUsage"] = self.max_resource_usage
        written["loadReportType"] = "LocalBrokerData"
        return written

    def updated(
        self, usage: SystemResourceUsage, stats: Mapping[str, NamespaceBundleStats], now_ms: int
    ) -> "LocalBrokerData":
        """The report after a new measurement: totals summed in the order of ``stats``, by bundle.

        Gains and losses of bundles accumulate until `without_deltas` is called, as Pulsar's do
        until a report has been written.
        """
        known, present = set(self.bundles), set(stats)
        gained = [bundle for bundle in stats if bundle not in known]
        lost = [bundle for bundle in self.bundles if bundle not in present]
        rows = stats.values()
        sums: dict[str, Any] = {
            name: sequential_sum([getattr(row, name) for row in rows]) for name in RATES
        }
        return replace(
            self,
            **{name: getattr(usage, name) for name in RESOURCES},
            **sums,
            num_topics=sum(row.topics for row in rows),
            num_consumers=sum(row.consumer_count for row in rows),
            num_producers=sum(row.producer_count for row in rows),
            num_bundles=len(stats),
            last_stats=dict(stats),
            bundles=tuple(stats),
            last_bundle_gains=_merged(self.last_bundle_gains, gained),
            last_bundle_losses=_merged(self.last_bundle_losses, lost),
            last_update=now_ms,
        )

    def without_deltas(self) -> "LocalBrokerData":
        """The report with empty gains and losses, for use after it has been written."""
        return replace(self, last_bundle_gains=(), last_bundle_losses=())


def _merged(first: tuple[str, ...], more: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *more)))
