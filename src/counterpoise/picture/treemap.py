"""Brokers as areas with their bundles inside, by load; small bundles are aggregated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import numpy as np

from counterpoise.load.rates import Floats, Indices
from counterpoise.names.bundle import namespace_of, range_of
from counterpoise.names.units import bytes_text, counted, messages_text, times
from counterpoise.picture.cluster_picture import ClusterPicture
from counterpoise.picture.colour import Paint, of_load

TILES_MOST: Final = 300
"""The most bundles that are drawn at once; more could not be distinguished, and would slow the
browser down."""
TILES_LEAST: Final = 3
"""At least this many bundles of each broker are drawn, however many brokers there are."""
FLOOR: Final = 0.004
"""The area of a bundle without load, as a part of the mean broker's, so that it can be seen."""

EMPTY: Final = 0.08
"""The least area of a broker, as a part of the mean broker's, so that it can be clicked."""

CROWD: Final = 60
"""With more brokers than this, a broker's headline is its load ratio alone."""


class Area(StrEnum):
    """What the size of the treemap's areas shows."""

    BYTES = "bytes/s"
    MESSAGES = "messages/s"
    TOPICS = "topics"


class TileKind(StrEnum):
    """What a tile of the treemap stands for."""

    BROKER = "broker"
    BUNDLE = "bundle"
    REST = "rest"
    """The bundles of a broker that are too small to be drawn one by one."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile of the treemap; `key` identifies its subject, `label` is the text that fits."""

    what: TileKind
    key: str
    label: str
    description: str
    """The tooltip, also read by screen readers."""
    value: float
    paint: Paint
    tiles: tuple["Tile", ...] = ()


def treemap(picture: ClusterPicture, area: Area = Area.BYTES, only: str = "") -> tuple[Tile, ...]:
    """A tile for each broker, largest first, with its largest bundles inside.

    With `only`, just that broker.
    """
    measure, formatted = MEASURES[area]
    values, view = measure(picture), picture.view
    chosen = [i for i, name in enumerate(view.brokers) if not only or name == only]
    most = max(TILES_LEAST, TILES_MOST // max(1, len(chosen)))
    floor = FLOOR * (values.sum() / max(1, len(view.brokers)) or 1.0)
    brush = _Brush(picture, values, formatted, floor, most)
    order = np.argsort(picture.owners, kind="stable")
    bounds = np.searchsorted(picture.owners[order], np.arange(len(view.brokers) + 1))
    drawn = [brush.broker(i, order[bounds[i] : bounds[i + 1]]) for i in chosen]
    return tuple(sorted(drawn, key=lambda tile: (-tile.value, tile.key)))


@dataclass(frozen=True, slots=True)
class _Brush:
    """What all tiles of one treemap share: the picture, bundles' values, their format, limits."""

    picture: ClusterPicture
    values: Floats
    formatted: Callable[[float], str]
    floor: float
    most: int

    def broker(self, broker: int, rows: Indices) -> Tile:
        picture, values = self.picture, self.values
        name, ratio = picture.view.brokers[broker], float(picture.ratios[broker])
        silent = name in picture.silent
        heat = None if silent else ratio
        largest = rows[np.argsort(-values[rows], kind="stable")]
        # A single bundle that would be left over is drawn itself, not as the rest.
        most = self.most if len(largest) > self.most + 1 else len(largest)
        shown, rest = largest[:most], largest[most:]
        peak = float(values[largest[0]]) if len(largest) else 0.0
        tiles = [self._bundle(row, peak, heat) for row in shown.tolist()]
        if len(rest):
            tiles.append(self._rest(name, rest, heat))
        load = bytes_text(float(picture.bundle_bytes[rows].sum()))
        state = "does not answer" if silent else f"{times(ratio)} the mean"
        return Tile(
            TileKind.BROKER,
            name,
            _headline(name, load, "silent" if silent else times(ratio), len(picture.view.brokers)),
            f"broker {name}: {load}, {state}, {counted(len(rows), 'bundle')}",
            max(sum(tile.value for tile in tiles), self.floor * EMPTY / FLOOR),
            of_load(heat),
            tuple(tiles),
        )

    def _bundle(self, row: int, peak: float, heat: float | None) -> Tile:
        picture, value = self.picture, float(self.values[row])
        name = picture.view.bundles[row]
        flows = f"{bytes_text(float(picture.bundle_bytes[row]))}, "
        flows += messages_text(float(picture.bundle_messages[row]))
        topics = counted(int(picture.view.bundle.topics[row]), "topic")
        return Tile(
            TileKind.BUNDLE,
            name,
            f"{short_name(name)}\n{self.formatted(value)}",
            f"{name}: {flows}, {topics}",
            max(value, self.floor),
            of_load(heat, value / peak if peak > 0 else 0.0),
        )

    def _rest(self, broker: str, rows: Indices, heat: float | None) -> Tile:
        total = float(self.values[rows].sum())
        return Tile(
            TileKind.REST,
            f"rest of {broker}",
            f"{len(rows):,} more\n{self.formatted(total)}",
            f"{counted(len(rows), 'smaller bundle')} of {broker}: {self.formatted(total)}",
            max(total, self.floor),
            of_load(heat, 0.0),
        )


def _headline(name: str, load: str, state: str, brokers: int) -> str:
    """A broker's headline; what distinguishes it comes first, since the end is cut off."""
    return state if brokers > CROWD else f"{state} {name}  {load}"


def short_name(bundle: str) -> str:
    """A bundle's name for a tile: its namespace, and where its range begins."""
    namespace = namespace_of(bundle).rpartition("/")[2]
    return f"{namespace} {range_of(bundle).partition('_')[0]}"


Measure = tuple[Callable[[ClusterPicture], Floats], Callable[[float], str]]

MEASURES: Final[Mapping[Area, Measure]] = MappingProxyType(
    {
        Area.BYTES: (lambda picture: picture.bundle_bytes, bytes_text),
        Area.MESSAGES: (lambda picture: picture.bundle_messages, messages_text),
        Area.TOPICS: (
            lambda picture: picture.view.bundle.topics.astype(float),
            lambda count: counted(round(count), "topic"),
        ),
    }
)
"""By what is shown as area: the function that computes it for each bundle, and the format of its
text."""
