"""Where series come from: a Prometheus, or files of its answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from counterpoise.names.errors import ExplainedError
from counterpoise.pipeline.prometheus.answer import RangeAnswer
from counterpoise.pipeline.prometheus.time_grid import TimeGrid


class SeriesError(ExplainedError):
    """Series that cannot be had; the message says which, why, and what to do."""


class TooManyValuesError(Exception):
    """More was asked for at once than a Prometheus gives, or gives in time: ask for less."""


@dataclass(frozen=True, slots=True)
class SeriesOutline:
    """What there is, before any of it is read."""

    grid: TimeGrid
    """The moments to read."""
    most: int
    """Series of one name at one moment, at most."""
    clusters: Mapping[str, int]
    """How many series each value of the label `cluster` has, at most."""


class SeriesSource(Protocol):
    """Gives the values of Pulsar's series."""

    @property
    def address(self) -> str:
        """Where they come from, without secrets."""

    async def outline(self, name: str, grid: TimeGrid) -> SeriesOutline:
        """What there is of the series of a name. Raises `SeriesError`, also for nothing."""

    async def values(self, name: str, labels: Mapping[str, str], grid: TimeGrid) -> RangeAnswer:
        """The series of a name that have these labels; raises `SeriesError` and
        `TooManyValuesError`.
        """
