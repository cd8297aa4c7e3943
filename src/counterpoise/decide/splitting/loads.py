"""The loads of bundles that split checks compare with limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from counterpoise.load.average import BundleData
from counterpoise.load.rates import Floats
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class BundleLoads:
    """The loads of the bundles in each broker's report, in the order in which they are checked.

    ``sessions`` are producers and consumers; ``msg_rate`` (messages/s) and ``msg_throughput``
    (bytes/s) are sums of in and out.
    """

    bundles: tuple[str, ...]
    brokers: tuple[str, ...]
    topics: Integers
    sessions: Integers
    msg_rate: Floats
    msg_throughput: Floats

    @staticmethod
    def averaged(
        reports: Mapping[str, LocalBrokerData], bundle_data: Mapping[str, BundleData]
    ) -> "BundleLoads":
        """The loads that the modular manager checks: topics and sessions as reported, long-term
        averages of the rates.

        A bundle without ``bundle_data`` has the rate and throughput 0. Brokers are in order of
        name.
        """
        rows = [
            (broker, bundle, stats)
            for broker in sorted(reports)
            for bundle, stats in reports[broker].last_stats.items()
        ]
        known = [bundle_data.get(bundle) for _, bundle, _ in rows]
        return _columns(
            rows,
            [data.long_term_data.rate if data else 0.0 for data in known],
            [data.long_term_data.throughput if data else 0.0 for data in known],
        )

    @staticmethod
    def measured(broker: str, stats: Mapping[str, NamespaceBundleStats]) -> "BundleLoads":
        """The loads that an extensible manager's broker checks: its own bundles', as measured."""
        rows = [(broker, bundle, each) for bundle, each in stats.items()]
        return _columns(
            rows,
            [each.msg_rate_in + each.msg_rate_out for each in stats.values()],
            [each.msg_throughput_in + each.msg_throughput_out for each in stats.values()],
        )


def _columns(
    rows: Sequence[tuple[str, str, NamespaceBundleStats]],
    msg_rate: Sequence[float],
    msg_throughput: Sequence[float],
) -> BundleLoads:
    return BundleLoads(
        tuple(bundle for _, bundle, _ in rows),
        tuple(broker for broker, _, _ in rows),
        np.array([stats.topics for _, _, stats in rows], dtype=np.int64),
        np.array([s.consumer_count + s.producer_count for _, _, s in rows], dtype=np.int64),
        np.array(msg_rate, dtype=np.float64),
        np.array(msg_throughput, dtype=np.float64),
    )
