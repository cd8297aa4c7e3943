"""Ranks the bundles that may leave a broker, and computes how many of them have to."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import ClusterView, Masks

_INT64_MAX = np.iinfo(np.int64).max
_SIGN = 63


def ascending(values: Floats) -> Indices:
    """The indices that sort values, smallest first, equal values in the order given.

    Values compare as in ``Double.compare``: NaN is the largest, and 0.0 is larger than -0.0.
    """
    order: Indices = values.argsort(kind="stable")
    if len(order) and values.item(order.item(0)) > 0:
        return order
    # Plain sorting, which is quicker, takes 0.0 and -0.0 for equal.
    return _comparable(values).argsort(kind="stable")


def _comparable(values: Floats) -> npt.NDArray[np.int64]:
    """Integers that compare as the doubles do under ``Double.compare``."""
    bits = values.view(np.int64)
    ordered = bits ^ ((bits >> _SIGN) & _INT64_MAX)
    ordered[np.isnan(values)] = _INT64_MAX
    return ordered


class Ranked(NamedTuple):
    """The bundles that may leave one broker, busiest first: rows of the view, and their loads."""

    rows: Indices
    values: Floats


def by_throughput(view: ClusterView, brokers: Indices, movable: Masks | None = None) -> "Ranking":
    """Each broker's candidates by short-term bytes/s in plus out; ties by name.

    Java leaves ties in the order of a hash table, so among bundles of equal throughput any is
    admissible.
    """
    rows, bounds = view.candidates(brokers, movable)
    return Ranking(rows, view.bundle.short.throughput(rows), bounds)


def by_rate(view: ClusterView, brokers: Indices, movable: Masks | None = None) -> "Ranking":
    """Each broker's candidates by short-term messages/s in plus out; ties by name.

    Java's order among equals is that of a hash table, so any is admissible.
    """
    rows, bounds = view.candidates(brokers, movable)
    return Ranking(rows, view.bundle.short.rate(rows), bounds)


class Ranking:
    """The bundles that may leave each of several brokers, each broker's sorted on first use."""

    __slots__ = ("_bounds", "_keys", "_rows", "_values")

    def __init__(self, rows: Indices, values: Floats, bounds: Indices) -> None:
        self._rows = rows
        self._values = values
        self._keys = ~_comparable(values)
        self._bounds: list[int] = bounds.tolist()

    def __getitem__(self, place: int) -> Ranked:
        """The ranked bundles of the broker at ``place`` among the brokers of the ranking."""
        part = slice(self._bounds[place], self._bounds[place + 1])
        order = self._keys[part].argsort(kind="stable")
        return Ranked(self._rows[part][order], self._values[part][order])


def how_many(values: npt.NDArray[np.float64], need: float) -> int:
    """How many of the first ``values`` it takes for their sum to reach ``need``; at least one.

    Sums are taken left to right, as in Java. A NaN, among the values or as the need, ends the sum.
    The caller silences numpy's overflow warnings (``np.errstate``).
    """
    if len(values) == 0:
        return 0
    short = np.add.accumulate(values) < need
    reached = int(short.argmin())
    return len(values) if short[reached] else reached + 1
