"""The cluster's load as this broker knows it: every report, every bundle's averages.

What ``ModularLoadManagerImpl`` keeps in ``LoadData``. One thing differs: there a report counts as a
new sample of each of its bundles again whenever *any* broker's report changes; here each report
counts once.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Final

import numpy as np

from counterpoise.broker import paths
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.load.average import BundleData
from counterpoise.load.broker_average import TimeAverageBrokerData
from counterpoise.load.fields import LoadDataError
from counterpoise.load.rates import Rates, sequential_sum
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats
from counterpoise.load.usage import percent_of
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView, movable_mask
from counterpoise.metadata import MetadataStore

log = logging.getLogger(__name__)

DEFAULT_STATS: Final = NamespaceBundleStats(50.0, 50000.0, 50.0, 50000.0)
"""What is assumed of a bundle nobody has reported yet: 50 messages/s and 50 kB/s each way."""


class ClusterLoad:
    """Reports and averages; up to date after `refresh`."""

    def __init__(self, registry: BrokerRegistry, store: MetadataStore) -> None:
        self._registry = registry
        self._store = store
        self._turn = asyncio.Lock()
        self.reports: dict[str, LocalBrokerData] = {}
        """The last report of each broker that is alive, by id, sorted."""
        self.bundles: Final[dict[str, BundleData]] = {}
        """The averages of every bundle in any of these reports, or just assigned."""
        self._assigned: Final[dict[str, str]] = {}

    async def refresh(self) -> None:
        """Read what brokers reported since the last time; raises `StoreUnavailable`."""
        async with self._turn:
            await self._refresh()

    async def _refresh(self) -> None:
        before, self.reports = self.reports, await self._registry.reports()
        for broker_id, report in self.reports.items():
            if before.get(broker_id) is not report:
                await self._sample(report)
        self._settle_assignments()
        reported = {bundle for report in self.reports.values() for bundle in report.bundles}
        for bundle in self.bundles.keys() - reported - self._assigned.keys():
            del self.bundles[bundle]

    def assign(self, bundle: str, broker_id: str) -> None:
        """Count a bundle to a broker already now; its next report will confirm it."""
        self._assigned[bundle] = broker_id
        self.bundles.setdefault(bundle, BundleData.unseen())

    def held(self) -> dict[str, set[str]]:
        """The bundles of each broker, with assignments that no report has confirmed yet."""
        found = {
            broker_id: {each for each in report.bundles if each not in self._assigned}
            for broker_id, report in self.reports.items()
        }
        for bundle, broker_id in self._assigned.items():
            found.setdefault(broker_id, set()).add(bundle)
        return found

    def assigned_to(self, broker_id: str) -> list[str]:
        """The bundles assigned to a broker that it has not reported yet, sorted."""
        return sorted(bundle for bundle, owner in self._assigned.items() if owner == broker_id)

    def time_averages(self) -> dict[str, TimeAverageBrokerData]:
        """Each broker's averages: the sums over the bundles that it reports."""
        return {
            broker_id: TimeAverageBrokerData.of(report.last_stats, self.bundles, DEFAULT_STATS)
            for broker_id, report in self.reports.items()
        }

    def view(self, now_ms: int) -> ClusterView:
        """All of it as columns."""
        brokers, bundles = list(self.reports), sorted(self.bundles)
        index = {bundle: place for place, bundle in enumerate(bundles)}
        pairs = [
            (owner, index[bundle])
            for owner, report in enumerate(self.reports.values())
            for bundle in sorted(set(report.bundles))
            if bundle in index
        ]
        rows = [self.bundles[bundle] for bundle in bundles]
        return ClusterView.from_columns(
            now_ms=now_ms,
            brokers=brokers,
            broker=self._broker_columns(),
            bundles=bundles,
            bundle=BundleColumns(
                _rates([row.short_term_data for row in rows]),
                _rates([row.long_term_data for row in rows]),
                np.array([row.topics for row in rows], dtype=np.int64),
                np.zeros(len(rows), dtype=np.bool_),
                movable_mask(bundles),
            ),
            reported=(
                np.array([pair[0] for pair in pairs], dtype=np.intp),
                np.array([pair[1] for pair in pairs], dtype=np.intp),
            ),
        )

    def _broker_columns(self) -> BrokerColumns:
        reports = list(self.reports.values())
        usages = [
            (each.cpu, each.memory, each.direct_memory, each.bandwidth_in, each.bandwidth_out)
            for each in reports
        ]
        used = np.array([[each.usage for each in row] for row in usages], dtype=np.float64)
        limit = np.array([[each.limit for each in row] for row in usages], dtype=np.float64)
        averages = self.time_averages().values()
        return BrokerColumns(
            percent_of(used.reshape(-1, 5), limit.reshape(-1, 5)),
            _rates(reports),
            np.array([len(set(each.bundles)) for each in reports], dtype=np.int64),
            np.array([each.num_topics for each in reports], dtype=np.int64),
            Rates.of(
                [each.short_term_msg_rate_in for each in averages],
                [each.short_term_msg_rate_out for each in averages],
                [each.short_term_msg_throughput_in for each in averages],
                [each.short_term_msg_throughput_out for each in averages],
            ),
            Rates.of(
                [each.long_term_msg_rate_in for each in averages],
                [each.long_term_msg_rate_out for each in averages],
                [each.long_term_msg_throughput_in for each in averages],
                [each.long_term_msg_throughput_out for each in averages],
            ),
            np.array([self._assigned_rate(each) for each in self.reports], dtype=np.float64),
        )

    def _assigned_rate(self, broker_id: str) -> float:
        long_terms = [self.bundles[each].long_term_data for each in self.assigned_to(broker_id)]
        return sequential_sum([each.rate for each in long_terms])

    async def _sample(self, report: LocalBrokerData) -> None:
        for bundle, stats in report.last_stats.items():
            known = self.bundles.get(bundle) or await self._remembered(bundle)
            self.bundles[bundle] = known.updated(stats)

    async def _remembered(self, bundle: str) -> BundleData:
        """What a leader before us wrote down of a bundle, else the assumed default."""
        stored = await self._store.get(paths.bundle_data(bundle))
        if stored is None:
            return BundleData.unseen()
        try:
            return BundleData.from_json(json.loads(stored.value), bundle)
        except (LoadDataError, ValueError) as error:
            log.warning("ignoring the stored averages of %s: %s", bundle, error)
            return BundleData.unseen()

    def _settle_assignments(self) -> None:
        for bundle, broker_id in list(self._assigned.items()):
            report = self.reports.get(broker_id)
            if report is None or bundle in report.bundles:
                del self._assigned[bundle]


def _rates(rows: Sequence[object]) -> Rates:
    names = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
    return Rates.of(*([float(getattr(row, name)) for row in rows] for name in names))
