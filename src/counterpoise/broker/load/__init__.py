"""Measures a broker's load, and publishes it."""

from counterpoise.broker.load.change import needs_update
from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.broker.load.counters import BundleRates, TopicCount
from counterpoise.broker.load.host import HostUsage, ProcessUsage, SampledUsage, SharedProcess
from counterpoise.broker.load.reporter import LoadReporter

__all__ = [
    "BundleRates",
    "HostUsage",
    "LoadReportConfig",
    "LoadReporter",
    "ProcessUsage",
    "SampledUsage",
    "SharedProcess",
    "TopicCount",
    "needs_update",
]
