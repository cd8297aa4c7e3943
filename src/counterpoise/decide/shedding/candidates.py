"""Which bundles go first, and how many: the walk that Overload- and ThresholdShedder share."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import ClusterView, Masks

_INT64_MAX = np.iinfo(np.int64).max


def descending(values: Floats) -> Indices:
    """Rows from the largest value to the smallest, equal ones in the order given.

    Values compare as ``Double.compare`` does: NaN is the largest, and 0.0 is larger than -0.0.
    """
    order: Indices = np.argsort(~_comparable(values), kind="stable")
    return order


def ascending(values: Floats) -> Indices:
    """Rows from the smallest value to the largest, equal ones in the order given (see above)."""
    order: Indices = np.argsort(_comparable(values), kind="stable")
    return order


def _comparable(values: Floats) -> npt.NDArray[np.int64]:
    """Integers that compare as the doubles do under ``Double.compare``."""
    bits = values.view(np.int64)
    ordered = np.where(bits < 0, bits ^ _INT64_MAX, bits)
    ordered[np.isnan(values)] = _INT64_MAX
    return ordered


class Ranked(NamedTuple):
    """A broker's candidates from the busiest bundle down: rows of the view, and their values."""

    rows: Indices
    values: Floats


def by_throughput(view: ClusterView, broker: int, movable: Masks | None = None) -> Ranked:
    """A broker's candidates by short-term bytes/s in plus out; ties by name.

    Java leaves ties in the order of a hash table, so among bundles of equal throughput any is
    admissible.
    """
    rows = view.candidates(broker, movable)
    return _ranked(rows, view.bundle.short.throughput(rows))


def by_rate(view: ClusterView, broker: int, movable: Masks | None = None) -> Ranked:
    """A broker's candidates by short-term messages/s in plus out; ties by name (see above)."""
    rows = view.candidates(broker, movable)
    return _ranked(rows, view.bundle.short.rate(rows))


def _ranked(rows: Indices, values: Floats) -> Ranked:
    order = descending(values)
    return Ranked(rows[order], values[order])


def how_many(values: npt.NDArray[np.float64], need: float) -> int:
    """How many of the leading ``values`` it takes to reach ``need``; the first always counts.

    Sums run left to right as Java's do. A NaN, in the values or in the need, ends the walk.
    """
    if len(values) == 0:
        return 0
    with np.errstate(all="ignore"):
        short = np.add.accumulate(values) < need
    return len(values) if short.all() else int(np.argmin(short)) + 1
