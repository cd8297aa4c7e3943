"""Traffic of many brokers or bundles as four arrays: messages/s and bytes/s, in and out."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Base of classes whose fields are arrays with one entry for each broker or bundle."""

    def take(self, rows: Indices) -> Self:
        """The same columns with only the entries ``rows`` (indices), in that order."""
        columns = (getattr(self, each.name) for each in fields(self))
        chosen = (it.take(rows) if isinstance(it, Columns) else it[rows] for it in columns)
        return type(self)(*chosen)


@dataclass(frozen=True, slots=True, eq=False)
class Rates(Columns):
    """Rates (messages/s) and throughputs (bytes/s) of brokers or bundles, one entry each."""

    rate_in: Floats
    rate_out: Floats
    throughput_in: Floats
    throughput_out: Floats

    @staticmethod
    def of(
        rate_in: Sequence[float] | Floats,
        rate_out: Sequence[float] | Floats,
        throughput_in: Sequence[float] | Floats,
        throughput_out: Sequence[float] | Floats,
    ) -> "Rates":
        """Build columns from four equally long sequences of numbers."""
        columns = (rate_in, rate_out, throughput_in, throughput_out)
        return Rates(*(np.asarray(column, dtype=np.float64) for column in columns))

    @staticmethod
    def zeros(count: int) -> "Rates":
        """Rates of 0 for ``count`` brokers or bundles."""
        return Rates(*(np.zeros(count) for _ in range(4)))

    def __len__(self) -> int:
        return len(self.rate_in)

    def rate(self, rows: Indices | slice = slice(None)) -> Floats:
        """Messages/s in plus out, of all entries or of the chosen ones."""
        with np.errstate(all="ignore"):
            return self.rate_in[rows] + self.rate_out[rows]

    def throughput(self, rows: Indices | slice = slice(None)) -> Floats:
        """Bytes/s in plus out, of all entries or of the chosen ones."""
        with np.errstate(all="ignore"):
            return self.throughput_in[rows] + self.throughput_out[rows]

    def throughput_of(self, row: int) -> float:
        """One entry's bytes/s in plus out."""
        return self.throughput_in.item(row) + self.throughput_out.item(row)

    def entry(self, row: int) -> tuple[float, float, float, float]:
        """The figures of one row: rate in and out (messages/s), throughput in and out (bytes/s)."""
        return (
            self.rate_in.item(row),
            self.rate_out.item(row),
            self.throughput_in.item(row),
            self.throughput_out.item(row),
        )


def sum_in_order(values: Floats) -> float:
    """The sum from left to right, rounded after each step.

    ``np.sum`` adds pairwise, so it rounds differently from Java's loops, and a threshold may lie
    between the two results.
    """
    return np.add.accumulate(values).item(-1) if len(values) else 0.0


def sequential_sum(values: Sequence[float]) -> float:
    """Add floats from left to right, as Java does; ``sum`` compensates errors since Python 3.12."""
    return reduce(lambda total, value: total + value, values, 0.0)
