"""What a broker measures of itself, and when it tells the others."""

from counterpoise.broker.load_report.change import needs_update
from counterpoise.broker.load_report.config import LoadReportConfig
from counterpoise.broker.load_report.counters import BundleRates, TopicCount
from counterpoise.broker.load_report.host import HostUsage, ProcessUsage, SharedProcess, Traffic
from counterpoise.broker.load_report.reporter import LoadReporter

__all__ = [
    "BundleRates",
    "HostUsage",
    "LoadReportConfig",
    "LoadReporter",
    "ProcessUsage",
    "SharedProcess",
    "TopicCount",
    "Traffic",
    "needs_update",
]
