"""Settings of the load report."""

from dataclasses import dataclass

from counterpoise.decide.weights import DEFAULT_WEIGHTS, ResourceWeights
from counterpoise.load.fold import FORGET_AFTER_MS
from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class LoadReportConfig:
    """Settings of when a broker measures its load and publishes its report."""

    min_interval_ms: int = option(
        5000, "loadBalancerReportUpdateMinIntervalMillis", "ms", low=10, dynamic=True
    )
    """How often a broker measures its load; rates are averages over this time."""
    max_interval_minutes: int = option(
        15, "loadBalancerReportUpdateMaxIntervalMinutes", "minutes", low=1, dynamic=True
    )
    """After how long a broker writes its report again even if nothing changed."""
    threshold_percentage: int = option(
        10, "loadBalancerReportUpdateThresholdPercentage", "%", low=0, dynamic=True
    )
    """By how much the load has to change for the report to be written at once."""
    host_usage_minutes: int = option(
        1, "loadBalancerHostUsageCheckIntervalMinutes", "minutes", low=0, dynamic=True
    )
    """How often a broker measures CPU, memory and network (CPU and network as averages since the
    last measurement); 0 means for every report."""
    averages_interval_minutes: int = option(
        15, "loadBalancerResourceQuotaUpdateIntervalMinutes", "minutes", low=1
    )
    """How often the leader stores the averages of bundles and brokers."""
    bundles_in_report: int = option(
        10,
        "loadBalancerMaxNumberOfBundlesInBundleLoadReport",
        "bundles of a broker",
        low=0,
        dynamic=True,
    )
    """How many of the busiest bundles, per broker, are stored or published; 0 means all."""
    override_nic_speed_gbps: float | None = option(
        None, "loadBalancerOverrideBrokerNicSpeedGbps", "Gbit/s", low=0.0, kind=float
    )
    """The network's speed, instead of what the operating system reports."""
    weights: ResourceWeights = DEFAULT_WEIGHTS

    @property
    def kept_ms(self) -> int:
        """How long, in milliseconds, to keep the averages of a bundle that no broker reports.

        It is longer than a broker without changes takes to publish its next report.
        """
        return max(FORGET_AFTER_MS, 2 * self.max_interval_minutes * 60_000)
