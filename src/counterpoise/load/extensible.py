"""The load data that brokers publish under the extensible load manager (PIP-192)."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from counterpoise.load.fields import JsonObject, json_name
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats
from counterpoise.load.rows import RATES, RESOURCES
from counterpoise.load.usage import NO_USAGE, ResourceUsage, weighted_max

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
        report: LocalBrokerData,
        *,
        weights: npt.NDArray[np.float64],
        history: float,
        now_ms: int,
    ) -> "BrokerLoadData":
        """The load after the measurement ``report``; the exponential averages keep the fraction
        ``history`` of their former value.

        ``weights`` has one weight per resource, heap memory included. The first measurement becomes
        the average.
        """
        percent = report.percents
        weighted = float(weighted_max(percent[np.newaxis], weights)[0])
        throughput = report.msg_throughput_in + report.msg_throughput_out
        if self.updated_at:
            weighted = self.weighted_max_ema * history + (1 - history) * weighted
            throughput = self.msg_throughput_ema * history + (1 - history) * throughput
        return replace(
            self,
            **{name: getattr(report, name) for name in (*RESOURCES, *RATES)},
            bundle_count=report.num_bundles,
            topics=report.num_topics,
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
