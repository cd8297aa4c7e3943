"""Load reports, their averages, and the cluster as columns."""

from counterpoise.load.average import BundleData, TimeAverageMessageData, fold_samples
from counterpoise.load.broker_average import TimeAverageBrokerData
from counterpoise.load.extensible import BrokerLoadData, BundleLoadData, TopBundlesLoadData
from counterpoise.load.fields import LoadDataError
from counterpoise.load.ranking import bundle_key, stats_key
from counterpoise.load.rates import Rates
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats, SystemResourceUsage
from counterpoise.load.store_view import BundleRules, LoadStoreView
from counterpoise.load.topk import top_bundles
from counterpoise.load.usage import ResourceUsage, percent_of, weighted_max
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView

__all__ = [
    "BrokerColumns",
    "BrokerLoadData",
    "BundleColumns",
    "BundleData",
    "BundleLoadData",
    "BundleRules",
    "ClusterView",
    "LoadDataError",
    "LoadStoreView",
    "LocalBrokerData",
    "NamespaceBundleStats",
    "Rates",
    "ResourceUsage",
    "SystemResourceUsage",
    "TimeAverageBrokerData",
    "TimeAverageMessageData",
    "TopBundlesLoadData",
    "bundle_key",
    "fold_samples",
    "percent_of",
    "stats_key",
    "top_bundles",
    "weighted_max",
]
