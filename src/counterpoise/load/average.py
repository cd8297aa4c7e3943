"""Averages over a bundle's samples: an exact mean at first, then an exponential one.

``TimeAverageMessageData.update`` is an ordered fold: with ``n = min(n + 1, maxSamples)`` each value
becomes ``((n - 1) * average + sample) / n``. The first sample replaces the assumed load.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.load.fields import JsonObject
from counterpoise.load.rates import Floats

SHORT_TERM_SAMPLES: Final = 10
LONG_TERM_SAMPLES: Final = 1000

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TimeAverageMessageData:
    """A capped running average of a bundle's rates (messages/s) and throughputs (bytes/s)."""

    max_samples: int = 0
    num_samples: int = 0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0

    @property
    def throughput(self) -> float:
        """Bytes/s in plus out."""
        return self.msg_throughput_in + self.msg_throughput_out

    @property
    def rate(self) -> float:
        """Messages/s in plus out."""
        return self.msg_rate_in + self.msg_rate_out


NO_SAMPLES: Final = TimeAverageMessageData()
"""Stands for an average that is missing in JSON; Pulsar's own JSON always has both averages."""


@dataclass(frozen=True, slots=True)
class BundleData(JsonObject):
    """A bundle's load: short- and long-term averages and its number of topics."""

    short_term_data: TimeAverageMessageData = NO_SAMPLES
    long_term_data: TimeAverageMessageData = NO_SAMPLES
    topics: int = 0

    @staticmethod
    def unseen() -> "BundleData":
        """The load that Pulsar assumes for a bundle never reported: 50 messages/s, 50 kB/s each
        way.

        Its number of samples is 0, so the first real sample replaces it.
        """
        return BundleData(
            TimeAverageMessageData(SHORT_TERM_SAMPLES, 0, 50000.0, 50000.0, 50.0, 50.0),
            TimeAverageMessageData(LONG_TERM_SAMPLES, 0, 50000.0, 50000.0, 50.0, 50.0),
        )


class Folded(NamedTuple):
    """The result of `fold_samples`: each bundle's number of samples and its new averages."""

    num_samples: Counts
    values: Floats


def fold_samples(num_samples: Counts, averages: Floats, sample: Floats, max_samples: int) -> Folded:
    """Add one sample per bundle to capped running averages, and return the new counts and averages.

    ``averages`` and ``sample`` have one row per bundle and may have several columns;
    ``num_samples`` has one entry per bundle. Counts stop at ``max_samples``: from then on each
    sample has the weight 1 ÷ ``max_samples``.
    """
    counts = np.minimum(num_samples + 1, max_samples)
    divisor = counts.astype(np.float64)
    if averages.ndim > 1:
        divisor = divisor[:, np.newaxis]
    with np.errstate(all="ignore"):
        # In place, so that three columns of up to a million values are not allocated.
        values = (divisor - 1.0) * averages
        values += sample
        values /= divisor
    return Folded(counts, values)
