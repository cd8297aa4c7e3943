"""The interface of what series are read from: a Prometheus server, or files of its responses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from counterpoise.names.errors import ExplainedError
from counterpoise.pipeline.prometheus.answer import RangeAnswer
from counterpoise.pipeline.prometheus.time_grid import TimeGrid


class SeriesError(ExplainedError):
    """Series cannot be imported: they cannot be read, their bundles are unknown, or the history is
    of another origin. The message says what to do.
    """


class TooManyValuesError(Exception):
    """A query asked for more than a Prometheus returns, or returns in time; split it."""


@dataclass(frozen=True, slots=True)
class SeriesOutline:
    """The times at which a metric has series, and their number, found before values are read."""

    grid: TimeGrid
    """The moments to read."""
    most: int
    """The most series of one metric at one moment."""
    clusters: Mapping[str, int]
    """By value of the label `cluster`, the most series at one moment."""


class SeriesSource(Protocol):
    """Where series of Pulsar's metrics are read from: a Prometheus server, or exported files."""

    @property
    def address(self) -> str:
        """The source's name as messages show it, without credentials."""

    async def outline(self, name: str, grid: TimeGrid) -> SeriesOutline:
        """Find at which times the metric `name` has series; raises `SeriesError`, also if there are
        none.
        """

    async def values(self, name: str, labels: Mapping[str, str], grid: TimeGrid) -> RangeAnswer:
        """Return the values of the series with this name and these labels at the times of a grid.

        Raises `SeriesError` and `TooManyValuesError`.
        """
