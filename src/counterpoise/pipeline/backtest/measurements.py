"""What simulated brokers report of their bundles' loads, and the averages of these reports."""

from typing import Any

import numpy as np

from counterpoise.load.average import LONG_TERM_SAMPLES, SHORT_TERM_SAMPLES, fold_samples
from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.view import Masks

RATE_NAMES = ("rate_in", "rate_out", "throughput_in", "throughput_out")
_TERMS = (SHORT_TERM_SAMPLES, LONG_TERM_SAMPLES)


class Measurements:
    """The last report about each bundle from simulated brokers, and the averages of the reports."""

    def __init__(self, owners: Indices, *, sampled_together: bool) -> None:
        """``owners`` is the broker of each bundle; the caller changes it as bundles move.

        ``sampled_together``: when any broker reports, the latest report of every bundle is folded
        into its averages; otherwise only those of the brokers that just reported are.
        """
        self._owners = owners
        self._sampled_together = sampled_together
        self.listed = owners
        """By bundle: the broker whose last report contains it; -1 if none does."""
        shape = len(owners), 4  # column by column in memory, so that each rate is contiguous
        self._reported = np.zeros(shape, order="F")
        self._flow = np.zeros(shape, order="F")
        """By bundle: the sum of its loads at the steps since it was last measured or moved."""
        self._flowed = np.zeros(len(owners), np.int64)
        """By bundle: the number of steps in `_flow`."""
        self._arrived = np.zeros(len(owners), np.bool_)
        """By bundle: whether it moved since it was last measured."""
        self._has_begun = False
        self._counts = [np.zeros(len(owners), np.int64) for _ in _TERMS]
        self._averages = [np.zeros(shape, order="F") for _ in _TERMS]

    @property
    def reported(self) -> Rates:
        """The last reported load of each bundle."""
        return _rates(self._reported)

    @property
    def short_average(self) -> Rates:
        """The load of each bundle averaged over few reports (Pulsar's short-term data)."""
        return _rates(self._averages[0])

    @property
    def long_average(self) -> Rates:
        """The load of each bundle averaged over many reports (Pulsar's long-term data)."""
        return _rates(self._averages[1])

    @property
    def samples(self) -> Any:
        """A row for each bundle: the maximum and the present number of samples of the short
        average, then those of the long average.
        """
        count = len(self._owners)
        columns = [
            column
            for limit, counts in zip(_TERMS, self._counts, strict=True)
            for column in (np.full(count, limit, np.int64), counts)
        ]
        return np.stack(columns, axis=1)

    def measure(self, measured: Masks | None, loads: Rates, missed_steps: float) -> None:
        """Add a step with these loads; brokers in `measured` then report the mean since their last
        report.

        `measured` None: all brokers report at every step. ``missed_steps``: how many steps of its
        traffic the clients of a bundle could not publish while it moved, and publish afterwards.
        """
        sample = np.stack([getattr(loads, name) for name in RATE_NAMES]).T
        if measured is None:
            self._reported = sample
            self._sample(slice(None))
            return
        if not self._has_begun:  # these are the first reports
            self._has_begun = True
            self.listed = self._owners.copy()
            measured = np.ones_like(measured)
        self._flow += sample
        self._flowed += 1
        self.listed[(self.listed != self._owners) & measured[self.listed]] = -1
        mine = np.flatnonzero(measured[self._owners])
        steps = self._flowed[mine, np.newaxis]
        waited = missed_steps * self._arrived[mine]
        self._reported[mine] = self._flow[mine] / steps * (1 + waited[:, np.newaxis] / steps)
        self.listed[mine] = self._owners[mine]
        self._forget_flow(mine)
        if len(mine):
            self._sample(np.flatnonzero(self.listed >= 0) if self._sampled_together else mine)

    def brought(self, row: int) -> None:
        """Note that the bundle with index `row` changed brokers: its next report covers only the
        time since then.
        """
        self._forget_flow(row, arrived=True)

    def _sample(self, rows: Any) -> None:
        """Fold the latest reports of these bundles into their averages."""
        for term, limit in enumerate(_TERMS):
            counts, averages = self._counts[term], self._averages[term]
            folded = fold_samples(counts[rows], averages[rows], self._reported[rows], limit)
            counts[rows], averages[rows] = folded

    def _forget_flow(self, rows: Any, *, arrived: bool = False) -> None:
        self._flow[rows] = 0.0
        self._flowed[rows] = 0
        self._arrived[rows] = arrived


def _rates(columns: Floats) -> Rates:
    return Rates(*(np.ascontiguousarray(columns[:, i]) for i in range(4)))
