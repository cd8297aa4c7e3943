"""The simulated brokers of a backtest: which bundles each owns, and what it last reported."""

from dataclasses import replace

import numpy as np

from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.decide.balancing.round import BalancingStrategy, store_weights
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.usage import BANDWIDTH_IN, BANDWIDTH_OUT, CPU
from counterpoise.load.view import (
    BrokerColumns,
    BundleColumns,
    ClusterView,
    Integers,
    Masks,
    movable_mask,
)
from counterpoise.pipeline.backtest.measurements import RATE_NAMES, Measurements
from counterpoise.pipeline.backtest.trace import LoadTrace, time_ms

_PROCESSOR_AND_NETWORK = (CPU, BANDWIDTH_IN, BANDWIDTH_OUT)


class Publications:
    """The load figures that each simulated broker published last, and when, under PIP-192.

    A broker publishes its figures when they have changed enough
    (`BrokerLoadDataReporter.needBrokerDataUpdate`), when the last ones are old, and when it gained
    or lost a bundle. The leader knows nothing else about its load.
    """

    def __init__(self, brokers: int, options: BalanceOptions, weights: Floats) -> None:
        self._options = options
        self.weights = weights
        """The weight of each resource in the average usage that brokers publish."""
        self._figures = np.full((brokers, 4), np.nan)
        self.at_ms: Integers = np.zeros(brokers, np.int64)
        self.averages: Floats = np.zeros(brokers)
        """Each broker's own average of its usage; 0 where it is unknown."""

    def publish(self, now_ms: int, measured: Masks, figures: Floats, averages: Floats) -> None:
        """For each broker in `measured`, publish its figures if they changed enough or the last
        ones are too old.

        ``figures`` has for each broker messages/s, bytes/s, bundles, and per cent used.
        """
        before, most = self._figures, self._options.report_threshold_percent
        with np.errstate(all="ignore"):
            change = 100.0 * np.abs(figures - before) / before
        change[:, 3] = np.abs(figures - before)[:, 3]
        # A change from 0 is infinite. NaN, which means never published or moved, fails both tests.
        changed = ~((change <= most) | (figures == before)).all(axis=1)
        old = now_ms - self.at_ms > self._options.report_max_minutes * 60_000
        those = measured & (changed | old)
        self._figures[those] = figures[those]
        self.at_ms[those] = now_ms
        self.averages[those] = averages[those]

    def moved(self, brokers: Indices) -> None:
        """Let these brokers, which gained or lost a bundle, publish at their next measurement."""
        self._figures[brokers] = np.nan


class SimulatedBrokers:
    """The brokers of a trace, which measure their bundles and report to a strategy."""

    def __init__(self, trace: LoadTrace, first: int, strategy: BalancingStrategy | None) -> None:
        """The bundles are where they were in the recording at step `first`."""
        self._trace = trace
        self.rank = {name: rank for rank, name in enumerate(trace.brokers)}
        """The index of each broker."""
        self.owners = trace.owners.copy()
        """By bundle: the index of its owner."""
        for step in range(first):
            for row, _, destination in trace.moved(step):
                self.owners[row] = destination
        # Whenever a broker reports, Pulsar's leader folds all brokers' latest reports again.
        leads = strategy is not None and strategy.as_leader is not None
        self._measurements = Measurements(self.owners, sampled_together=leads)
        self._published: Publications | None = None
        """What brokers published under PIP-192, if the strategy is a leader that decides by it."""
        if strategy is not None and leads and strategy.reads_stores:
            weights = store_weights(strategy)
            self._published = Publications(len(trace.brokers), strategy.balance, weights)
        self._movable = movable_mask(trace.bundles)
        self._view: ClusterView | None = None

    def report(self, step: int, move_s: float) -> Rates:
        """Let the brokers that measure at this step report; returns the load of each bundle.

        The clients of a bundle that moved could not publish for `move_s` seconds.
        """
        loads, measured = self._trace.loads(step), self._trace.measured(step)
        self._measurements.measure(measured, loads, move_s * 1000 / self._trace.step_ms)
        if self._published is not None:
            self._publish(self._published, step, measured)
        return loads

    def usage(self, step: int, loads: Rates) -> Floats:
        """Each broker's usage in per cent: of its processor or network, whichever is higher."""
        size = len(self.rank)
        carried = [
            np.bincount(self.owners, getattr(loads, n), size).astype(float) for n in RATE_NAMES
        ]
        usage = self._trace.hosts.usage(Rates.of(*carried), step)
        return np.asarray(usage[:, _PROCESSOR_AND_NETWORK].max(axis=1), np.float64)

    def move(self, row: int, broker: int) -> None:
        """Move a bundle to a broker, to which its clients reconnect; both are indices."""
        if self._published is not None:
            self._published.moved(np.array([self.owners[row], broker]))
        self.owners[row] = broker
        self._measurements.brought(row)

    def _publish(self, published: Publications, step: int, measured: Masks | None) -> None:
        """Let the brokers that measured publish the load data that a leader under PIP-192 reads."""
        count = len(self.rank)
        served = np.flatnonzero(self._measurements.listed >= 0)
        owner, reported = self._measurements.listed[served], self._measurements.reported
        each = (getattr(reported, name)[served] for name in RATE_NAMES)
        rates = Rates(*(np.bincount(owner, flow, count).astype(float) for flow in each))
        usage = self._trace.hosts.usage(rates, step)
        bundles = np.bincount(self.owners, minlength=count)
        used = usage[:, _PROCESSOR_AND_NETWORK].max(axis=1)
        figures = np.stack([rates.rate(), rates.throughput(), bundles, used], axis=1)
        averages = self._trace.hosts.averages(usage, published.weights, step)
        there = np.ones(count, np.bool_) if measured is None else measured
        published.publish(time_ms(self._trace, step), there, figures, averages)

    def snapshot(self, step: int, up: Masks) -> ClusterSnapshot:
        """What strategies decide on, from the last reports of the brokers in `up`."""
        there = np.flatnonzero(up)
        rank = np.full(len(up), -1, np.intp)
        rank[there] = np.arange(len(there))
        listed = self._measurements.listed
        owner = np.where(listed >= 0, rank[listed], -1)
        served = np.flatnonzero(owner >= 0)
        # NumPy sorts numbers of 16 bits by counting them, and there are few brokers.
        narrow = owner[served].astype(np.min_scalar_type(len(there)))
        order = served[np.argsort(narrow, kind="stable")]
        counts = np.bincount(owner[served], minlength=len(there))
        offsets = np.zeros(len(there) + 1, np.intp)
        np.cumsum(counts, out=offsets[1:])
        broker = self._broker_columns(step, owner, served, there, counts)
        bundle = BundleColumns(
            self._measurements.short_average,
            self._measurements.long_average,
            self._trace.topics,
            self._measurements.samples,
            np.zeros(len(owner), np.bool_),
            self._movable,
        )
        names, now_ms = (
            tuple(self._trace.brokers[i] for i in there.tolist()),
            time_ms(self._trace, step),
        )
        known = self._view
        if known is None or known.brokers != names:
            known = ClusterView.from_columns(
                now_ms=now_ms,
                brokers=names,
                broker=broker,
                bundles=self._trace.bundles,
                bundle=bundle,
                reported=(owner[order], order),
            )
        seen = known.with_reports(offsets, order)
        view = self._view = replace(seen, now_ms=now_ms, broker=broker, bundle=bundle)
        return ClusterSnapshot(view, view.brokers, newest=self._measurements.reported)

    def _broker_columns(
        self, step: int, owner: Indices, served: Indices, there: Indices, counts: Indices
    ) -> BrokerColumns:
        mine = slice(None) if len(served) == len(owner) else served
        owners, size = owner[mine], len(there)

        def added(column: Floats) -> Floats:
            return np.bincount(owners, column[mine], minlength=size).astype(np.float64)

        def summed(columns: Rates) -> Rates:
            return Rates(*(added(getattr(columns, name)) for name in RATE_NAMES))

        carried, traffic = Rates.zeros(len(self.rank)), summed(self._measurements.reported)
        for name in RATE_NAMES:
            getattr(carried, name)[there] = getattr(traffic, name)
        topics = np.bincount(owners, self._trace.topics[served], minlength=len(there))
        known = {}
        if self._published is not None:
            known = {
                "load_average": self._published.averages[there],
                "measured_ms": self._published.at_ms[there],
            }
        return BrokerColumns.of(
            self._trace.hosts.usage(carried, step)[there].astype(np.float32),
            traffic,
            counts,
            topics=topics.astype(np.int64),
            short_average=summed(self._measurements.short_average),
            long_average=summed(self._measurements.long_average),
            **known,
        )
