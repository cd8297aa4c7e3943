"""Which measurements brokers publish under the extensible load manager (PIP-192).

A broker publishes its load data when they differ enough from those it published last, when these
are old, and when it acquired or released a bundle. The leader knows nothing else about its load.
"""

import numpy as np

from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import Integers, Masks


class Publications:
    """The load data that each simulated broker published last, and when.

    A broker publishes its figures only if they have changed enough
    (`BrokerLoadDataReporter.needBrokerDataUpdate`).
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
