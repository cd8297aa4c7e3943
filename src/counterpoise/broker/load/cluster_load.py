"""The cluster's load as this broker knows it: every report and every bundle's averages.

It corresponds to ``LoadData`` of ``ModularLoadManagerImpl``. Reports are added to the averages by
the code that the balancer on Spark uses, too (``load/fold.py``).
"""

import asyncio
import json
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from counterpoise.broker.base import paths
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.load import average
from counterpoise.load.assignments import Assignment, Assignments
from counterpoise.load.average import BundleData
from counterpoise.load.fields import LoadDataError
from counterpoise.load.fold import Batch, FoldOptions, FoldState, fold
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.measured import Measured, measured_of
from counterpoise.load.poll_rows import Fetched, poll_rows
from counterpoise.load.remembered import (
    bundle_data,
    reported_bundles,
    with_averages,
    without_averages,
)
from counterpoise.load.report import LocalBrokerData
from counterpoise.load.view import ClusterView, bundle_namespace, unloaded_mask
from counterpoise.metadata import MetadataStore
from counterpoise.names.bundle import namespace_of
from counterpoise.names.callbacks import MillisecondClock

_FIELDS = ("bandwidthIn", "bandwidthOut", "msgRateIn", "msgRateOut")


def quota_data(value: bytes) -> average.BundleData:
    """Return a new bundle's averages from its stored resource quota (JSON).

    They have the highest number of samples, so that reports change them slowly: an operator can set
    a bundle's expected load in advance.
    Raises `LoadDataError`. Source: ``ModularLoadManagerImpl.getBundleDataOrDefault``.
    """
    try:
        quota = json.loads(value)
        rates = [float(quota.get(name, 0.0)) for name in _FIELDS]
        if not all(map(math.isfinite, rates)):
            raise ValueError(rates)
    except (ValueError, TypeError, AttributeError):
        raise LoadDataError("ResourceQuota", "an object of numbers", value[:40]) from None
    short, long = (
        average.TimeAverageMessageData(samples, samples, *rates)
        for samples in (average.SHORT_TERM_SAMPLES, average.LONG_TERM_SAMPLES)
    )
    return average.BundleData(short, long)


log = logging.getLogger(__name__)


class ClusterLoad:
    """The load reports of all brokers and the averages of all bundles, as of the last `refresh`.

    Derived values are cached until the next change, since every placement needs them.
    """

    def __init__(
        self,
        registry: BrokerRegistry,
        store: MetadataStore,
        clock_ms: MillisecondClock,
        options: Callable[[], FoldOptions],
    ) -> None:
        """``options`` returns the settings for averaging reports: its ``forget_after_ms`` must be
        longer than brokers may be silent.
        """
        self._registry = registry
        self._store = store
        self._clock_ms = clock_ms
        self._options = options
        self._turn = asyncio.Lock()
        self._polled_at_ms = 0
        self._measured: Mapping[str, Measured] = {}
        self._state = FoldState.empty()
        self._derived = _Derived(self._state, 0, options(), Assignments())
        self._deleted: set[str] = set()
        self.reports: dict[str, LocalBrokerData] = {}
        """The last report of each broker that is registered, by id, sorted."""
        self.assigned = Assignments()
        """Bundles that were assigned to brokers whose reports do not list them yet."""

    async def refresh(self) -> None:
        """Read the reports written since the last call; raises `StoreUnavailable`."""
        async with self._turn:
            reports = await self._registry.reports()
            fresh = [name for name, each in reports.items() if self.reports.get(name) is not each]
            if fresh or reports.keys() != self.reports.keys():
                news = {bundle for name in fresh for bundle in reports[name].last_stats}
                remembered = await self._remembered(news)
                self._fold(reports, fresh, remembered)
            self._drop_deleted()

    def _fold(
        self,
        reports: dict[str, LocalBrokerData],
        fresh: Collection[str],
        remembered: Mapping[str, BundleData],
    ) -> None:
        now_ms = self._polled_at_ms = max(self._clock_ms(), self._polled_at_ms + 1)
        self._measured = {
            name: measured_of(report) if name in fresh else self._measured[name]
            for name, report in reports.items()
        }
        poll = [
            Fetched(name, now_ms, each, name in fresh, each.reported_ms)
            for name, each in self._measured.items()
        ]
        had = self._state.averages["bundle"]
        before = with_averages(self._state, remembered, now_ms)
        self._state = fold(before, Batch.of(poll_rows(now_ms, "", poll)), self._options())
        self.reports = reports
        oldest_ms = now_ms - self._options().forget_after_ms
        self.assigned.drop_ended(self._state.served, reports, oldest_ms)
        row_of = self._derived.row_of() if self._state.averages["bundle"] is had else None
        self._derived = _Derived(self._state, now_ms, self._options(), self.assigned, row_of)

    def forget(self, namespace: str) -> None:
        """Drop the averages of a deleted namespace's bundles once no broker reports them.

        Otherwise a namespace that is created again under this name would start with their load.
        """
        known = self._derived.row_of()
        self._deleted.update(each for each in known if namespace_of(each) == namespace)

    def reported(self) -> set[str]:
        """The names of all bundles that a broker reports."""
        return {bundle for report in self.reports.values() for bundle in report.last_stats}

    def _drop_deleted(self) -> None:
        gone = self._deleted - self.reported() if self._deleted else None
        if gone:
            self._deleted -= gone
            self._state = without_averages(self._state, gone)
            now_ms, options = self._polled_at_ms, self._options()
            self._derived = _Derived(self._state, now_ms, options, self.assigned)

    def assign(self, bundle: str, broker: str) -> None:
        """Count a bundle's load as a broker's until the broker reports the bundle."""
        before = self._derived.holders(bundle)
        self.assigned.add(bundle, Assignment(broker, self._known(bundle), self._clock_ms()))
        self._derived.moved(bundle, before, broker)

    def namespaces(self) -> Mapping[str, Counter[str]]:
        """By broker, how many bundles of each namespace it has, those just assigned included."""
        return self._derived.namespaces()

    def bundles(self) -> dict[str, BundleData]:
        """The averages of every reported bundle, by name."""
        return reported_bundles(self._state, self._options())

    def view(self) -> ClusterView:
        """The cluster's load as columns, as of the last `refresh`."""
        return self._derived.view()

    def view_now(self, recently_unloaded: Collection[str]) -> ClusterView:
        """The cluster's load as columns at this moment, with recently unloaded bundles marked."""
        view = self.view()
        marked = unloaded_mask(view.bundles, recently_unloaded)
        bundle = replace(view.bundle, recently_unloaded=marked)
        return replace(view, now_ms=max(self._clock_ms(), view.now_ms), bundle=bundle)

    def _known(self, bundle: str) -> BundleData:
        """Return a bundle's averages, even if no broker reports it now; otherwise the defaults."""
        row = self._derived.row_of().get(bundle)
        if row is None:
            return BundleData.unseen()
        view = self._derived.view()
        place = view.bundle_index(bundle)
        topics = 0 if place is None else view.bundle.topics.item(place)
        return bundle_data(self._state, row, topics, self._options())

    async def _remembered(self, bundles: Collection[str]) -> dict[str, BundleData]:
        """Read what the store has of those of these bundles that have no averages here yet.

        That is the averages that a leader stored, or else the bundle's resource quota.
        """
        found = {}
        quotas = bool(bundles) and await self._store.exists(paths.RESOURCE_QUOTA)
        for bundle in sorted(bundles - self._derived.row_of().keys()):
            data = await self._stored_averages(bundle)
            if data is None and quotas:
                data = await self._quota(bundle)
            if data is not None:
                found[bundle] = data
        return found

    async def _stored_averages(self, bundle: str) -> BundleData | None:
        stored = await self._store.get(paths.bundle_data(bundle))
        if stored is None:
            return None
        try:
            return BundleData.from_json(json.loads(stored.value), bundle)
        except (LoadDataError, ValueError) as error:
            log.warning("ignoring the stored averages of %s: %s", bundle, error)
            return None

    async def _quota(self, bundle: str) -> BundleData | None:
        stored = await self._store.get(paths.resource_quota(bundle))
        if stored is None:
            return None
        try:
            return quota_data(stored.value)
        except LoadDataError as error:
            log.warning("ignoring the resource quota of %s: %s", bundle, error)
            return None


class _Derived:
    """Values that follow from the averages and the assignments, each computed on first use."""

    def __init__(
        self,
        state: FoldState,
        now_ms: int,
        options: FoldOptions,
        assigned: Assignments,
        row_of: Mapping[str, int] | None = None,
    ) -> None:
        """``row_of`` is each bundle's row in the averages, if known already."""
        self._state = state
        self._now_ms = now_ms
        self._options = options
        self._assigned = assigned
        self._reported: ClusterView | None = None
        self._view: ClusterView | None = None
        self._namespaces: defaultdict[str, Counter[str]] | None = None
        self._row_of = row_of

    def holders(self, bundle: str) -> list[str]:
        """The brokers for which a bundle counts: the one assigned, or those that report it."""
        given = self._assigned.broker_of(bundle)
        if given is not None:
            return [given]
        view = self.view()
        place = view.bundle_index(bundle)
        return [] if place is None else [view.brokers[row] for row in view.reporters(place)]

    def moved(self, bundle: str, before: Collection[str], after: str) -> None:
        """Count a bundle for the broker ``after``, and no longer for those of ``before``."""
        self._view = None
        if self._namespaces is not None:
            namespace = bundle_namespace(bundle)
            for broker in before:
                self._namespaces[broker][namespace] -= 1
            self._namespaces[after][namespace] += 1

    def view(self) -> ClusterView:
        """The cluster as columns, with bundles that were assigned and are not reported yet."""
        if self._reported is None:
            self._reported = cluster_view(self._state, self._now_ms, options=self._options)
        if self._view is None:
            rates = [self._assigned.rate(broker) for broker in self._reported.brokers]
            self._view = self._reported.with_preallocated(rates)
        return self._view

    def namespaces(self) -> Mapping[str, Counter[str]]:
        """By broker: the number of bundles of each namespace (``ClusterLoad.namespaces``)."""
        if self._namespaces is None:
            self._namespaces = self._assigned.namespaces(self._state.served)
        return self._namespaces

    def row_of(self) -> Mapping[str, int]:
        """By bundle: its row in the table of averages."""
        if self._row_of is None:
            names = self._state.averages["bundle"].tolist()
            self._row_of = {name: row for row, name in enumerate(names)}
        return self._row_of
