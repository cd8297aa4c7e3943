"""The load data that brokers publish under the extensible load manager (PIP-192)."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from counterpoise.load.fields import JsonObject, json_name
from counterpoise.load.report import NamespaceBundleStats, SystemResourceUsage
from counterpoise.load.usage import NO_USAGE, ResourceUsage, percent_of, weighted_max

_NO_HEAP = np.array([1.0, np.nan, 1.0, 1.0, 1.0])


@dataclass(frozen=True, slots=True)
class BrokerLoadData(JsonObject):
    """A broker's load: resources, traffic, and the exponential averages that strategies compare.

    Usages are fractions (0.85), times milliseconds since the epoch; ``updated_at`` is 0 until the
    first measurement.
    """

    cpu: ResourceUsage = NO_USAGE
    memory: ResourceUsage = NO_USAGE
    direct_memory: ResourceUsage = NO_USAGE
    bandwidth_in: ResourceUsage = NO_USAGE
    bandwidth_out: ResourceUsage = NO_USAGE
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    bundle_count: int = 0
    topics: int = 0
    max_resource_usage: float = 1.0
    weighted_max_ema: float = json_name("weightedMaxEMA", 1.0)
    msg_throughput_ema: float = json_name("msgThroughputEMA", 0.0)
    updated_at: int = 0
    reported_at: int = 0

    def updated(
        self,
        usage: SystemResourceUsage,
        traffic: NamespaceBundleStats,
        bundle_count: int,
        *,
        weights: npt.NDArray[np.float64],
        history: float,
        now_ms: int,
    ) -> "BrokerLoadData":
        """The load after a new measurement; the exponential averages keep the fraction ``history``
        of their former value.

        ``traffic`` has the broker's totals; ``weights`` has one weight per resource, heap memory
        included. The first measurement becomes the average.
        """
        resources = (
            usage.cpu,
            usage.memory,
            usage.direct_memory,
            usage.bandwidth_in,
            usage.bandwidth_out,
        )
        percent = percent_of(
            np.array([each.usage for each in resources], dtype=np.float64),
            np.array([each.limit for each in resources], dtype=np.float64),
        )
        weighted = float(weighted_max(percent[np.newaxis], weights)[0])
        throughput = traffic.msg_throughput_in + traffic.msg_throughput_out
        if self.updated_at:
            weighted = self.weighted_max_ema * history + (1 - history) * weighted
            throughput = self.msg_throughput_ema * history + (1 - history) * throughput
        return replace(
            self,
            cpu=usage.cpu,
            memory=usage.memory,
            direct_memory=usage.direct_memory,
            bandwidth_in=usage.bandwidth_in,
            bandwidth_out=usage.bandwidth_out,
            msg_throughput_in=traffic.msg_throughput_in,
            msg_throughput_out=traffic.msg_throughput_out,
            msg_rate_in=traffic.msg_rate_in,
            msg_rate_out=traffic.msg_rate_out,
            bundle_count=bundle_count,
            topics=traffic.topics,
            max_resource_usage=float(weighted_max(percent[np.newaxis], _NO_HEAP)[0]),
            weighted_max_ema=weighted,
            msg_throughput_ema=throughput,
            updated_at=now_ms,
        )


@dataclass(frozen=True, slots=True)
class BundleLoadData:
    """The load of one of a broker's busiest bundles."""

    bundle_name: str
    stats: NamespaceBundleStats

    @property
    def throughput(self) -> float:
        """Bytes/s in plus out."""
        return self.stats.msg_throughput_in + self.stats.msg_throughput_out


@dataclass(frozen=True, slots=True)
class TopBundlesLoadData(JsonObject):
    """A broker's busiest bundles, in ascending order of load."""

    top_bundles_load_data: tuple[BundleLoadData, ...] = ()
