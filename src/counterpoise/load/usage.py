"""A resource's usage in per cent of its limit, computed with the number types of Pulsar's class.

Pulsar computes the percentage in 32-bit floats (``ResourceUsage.percentUsage``) and widens it
afterwards; thresholds are compared with the widened value, so the rounding decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]

RESOURCES: Final = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
"""Order of the usage columns everywhere; the names are those of the load report."""

CPU, MEMORY, DIRECT_MEMORY, BANDWIDTH_IN, BANDWIDTH_OUT = range(5)


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """A resource's use and its limit, in the same unit (percent, MiB or kbit/s)."""

    usage: float = 0.0
    limit: float = 0.0

    @property
    def percent(self) -> float:
        """Use in percent of the limit, rounded to 32 bits as Pulsar's; 0 without a limit."""
        return float(percents_of([self])[0])


NO_USAGE: Final = ResourceUsage()
"""A resource that was not measured: 0 percent."""


def percent_of(usage: Float64s, limit: Float64s) -> Float32s:
    """Usage in percent of the limit, elementwise in 32-bit floats; may exceed 100."""
    with np.errstate(all="ignore"):
        quotient = usage.astype(np.float32) / limit.astype(np.float32)
        percent = np.multiply(quotient, 100.0, dtype=np.float32)
    percent[~(limit > 0)] = np.float32(0.0)
    return percent


def percents_of(usages: Sequence[ResourceUsage]) -> Float32s:
    """The usage of each resource in percent, as `percent_of`."""
    columns = np.array([[u.usage for u in usages], [u.limit for u in usages]], dtype=np.float64)
    return percent_of(columns[0], columns[1])


def weighted_max(percent: Float32s, weights: Float64s) -> Float64s:
    """The largest weighted use of each row of ``percent``, as a fraction (0.85, not 85).

    ``percent`` has one row per broker in :data:`RESOURCES` order. A weight of NaN leaves the
    resource out. As in Java, a NaN product never wins, and a row of NaN alone gives -infinity.
    """
    with np.errstate(all="ignore"):
        # One row per resource: numpy compares long rows much faster than many short ones.
        products = np.multiply(percent.T, weights[:, np.newaxis], order="C")
        largest: Float64s = np.fmax.reduce(products, axis=0, initial=-np.inf)
        return largest / 100.0


def max_usage(usages: tuple[ResourceUsage, ...]) -> float:
    """The largest percentage of these resources, divided by 100, all in 32-bit floats.

    Source: ``LocalBrokerData.getMaxResourceUsage``.
    """
    with np.errstate(all="ignore"):
        largest = np.fmax.reduce(percents_of(usages), initial=-np.inf)
        return float(np.float32(largest) / np.float32(100.0))
