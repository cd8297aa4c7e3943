"""Load reports, their averages, and the cluster as columns."""

from counterpoise.load.average import BundleData, TimeAverageMessageData, fold
from counterpoise.load.broker_average import TimeAverageBrokerData
from counterpoise.load.fields import LoadDataError
from counterpoise.load.rates import Rates
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats, SystemResourceUsage
from counterpoise.load.usage import ResourceUsage, percent_of, weighted_max
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView

__all__ = [
    "BrokerColumns",
    "BundleColumns",
    "BundleData",
    "ClusterView",
    "LoadDataError",
    "LocalBrokerData",
    "NamespaceBundleStats",
    "Rates",
    "ResourceUsage",
    "SystemResourceUsage",
    "TimeAverageBrokerData",
    "TimeAverageMessageData",
    "fold",
    "percent_of",
    "weighted_max",
]
