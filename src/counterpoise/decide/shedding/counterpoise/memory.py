"""The memory of Counterpoise's strategy: each bundle's load history, and postponed moves."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from counterpoise.load.fields import (
    LoadDataError,
    read_integer,
    read_number,
    read_object,
    read_texts,
    read_times,
)

Floats32 = npt.NDArray[np.float32]
Integers32 = npt.NDArray[np.int32]
Floats16 = npt.NDArray[np.float16]
Times = npt.NDArray[np.int64]

RATES: Final = 3
"""The number of figures of a bundle: messages/s, bytes/s in, bytes/s out."""

HOURS: Final = 24


@dataclass(frozen=True, slots=True, eq=False)
class Tracks:
    """The load history of each bundle in ``CounterpoiseMemory.bundles``, condensed to 108 bytes."""

    level: Floats32
    """The smoothed load, by bundle and figure: messages/s, bytes/s in, bytes/s out."""
    trend: Floats32
    """How much the level grows in a minute."""
    average: Floats32
    """The last short-term average, from which the next sample is derived."""
    spread: Floats32
    """Mean absolute deviation of a sample from its forecast, as a part of the level."""
    count: Integers32
    """The number of samples so far."""
    outliers: Integers32
    """The number of samples in a row far above the forecast; negative if they were far below it."""
    owner: Integers32
    """The broker that served the bundle, as an index into ``CounterpoiseMemory.brokers``; -1 for
    none."""
    moved_ms: Times
    """When the bundle was first seen on that broker (ms since 1970); 0 if it was always there."""
    day: Floats16
    """The logarithm of the bundle's load by hour of the day (UTC); 0 for an hour not seen yet."""

    @staticmethod
    def empty(count: int) -> "Tracks":
        """The tracks of ``count`` bundles that were never reported."""
        return Tracks(
            np.zeros((count, RATES), np.float32, "F"),
            np.zeros((count, RATES), np.float32, "F"),
            np.zeros((count, RATES), np.float32, "F"),
            np.zeros(count, np.float32),
            np.zeros(count, np.int32),
            np.zeros(count, np.int32),
            np.full(count, -1, np.int32),
            np.zeros(count, np.int64),
            np.zeros((count, HOURS), np.float16),
        )

    def take(self, rows: npt.NDArray[np.intp]) -> "Tracks":
        """The tracks of the chosen bundles in this order; a negative row stands for a new
        bundle.
        """
        known = rows >= 0
        made = Tracks.empty(len(rows))
        for name in Tracks.__slots__:
            getattr(made, name)[known] = getattr(self, name)[rows[known]]
        return made


NO_TRACKS: Final = Tracks.empty(0)


@dataclass(frozen=True, slots=True)
class CounterpoiseMemory:
    """All that the strategy remembers between calls; it can be written as JSON and read back."""

    bundles: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    tracks: Tracks = NO_TRACKS
    seen_ms: int = 0
    """When the last view was made, in milliseconds since 1970; 0 before the first."""
    waited_min: float = 0.0
    """For how many minutes moves have been postponed because of their price (see `timing.py`)."""
    cold: frozenset[str] = frozenset()
    """Brokers found with less than half of the mean load, until they have been filled."""
    ill: Mapping[str, int] = field(default_factory=dict)
    """By broker that seems slow (`columns.suspects`): since when, in milliseconds since 1970."""
    capacity: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By broker: the most of each figure that it can carry, as last estimated."""

    def to_json(self) -> dict[str, Any]:
        """The memory as a JSON object; columns are little-endian arrays in base64."""
        return {
            "bundles": list(self.bundles),
            "brokers": list(self.brokers),
            "tracks": {name: _text(getattr(self.tracks, name)) for name in Tracks.__slots__},
            "seenAt": self.seen_ms,
            "waitedMinutes": self.waited_min,
            "cold": sorted(self.cold),
            "ill": dict(self.ill),
            "capacity": {name: list(each) for name, each in self.capacity.items()},
        }

    @classmethod
    def from_json(cls, value: object, path: str = "memory") -> Self:
        """The memory that ``to_json`` wrote; raises ``LoadDataError``."""
        fields = read_object(value, path)
        bundles = tuple(fields.get("bundles", ()))
        columns = read_object(fields.get("tracks", {}), "memory.tracks")
        tracks = Tracks.empty(len(bundles))
        made = {
            name: _column(columns.get(name), getattr(tracks, name), f"memory.tracks.{name}")
            for name in Tracks.__slots__
        }
        capacity = read_object(fields.get("capacity", {}), "memory.capacity")
        cold = fields.get("cold", ())  # An earlier version wrote an object by broker.
        return cls(
            bundles,
            tuple(fields.get("brokers", ())),
            replace(tracks, **made),
            read_integer(fields.get("seenAt", 0), "memory.seenAt"),
            read_number(fields.get("waitedMinutes", 0.0), "memory.waitedMinutes"),
            frozenset(read_texts(tuple(cold) if isinstance(cold, dict) else cold, "memory.cold")),
            read_times(fields, "ill", "memory."),
            {name: tuple(map(float, each)) for name, each in capacity.items()},
        )


def _text(column: npt.NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(column).data).decode("ascii")


def _column(text: object, like: npt.NDArray[Any], path: str) -> npt.NDArray[Any]:
    if text is None:
        return like
    try:
        raw = base64.b64decode(str(text), validate=True)
        return np.frombuffer(raw, like.dtype).reshape(like.shape).copy()
    except ValueError:
        expected = f"a column of {like.dtype} for {len(like)} bundles"
        raise LoadDataError(path, expected, text) from None
