"""Colours for the load of brokers, with readable contrast.

Blue is less than the mean, grey the mean, orange to red more: a scale that colour-blind people can
read. Tiles have their own background, so the same colours serve a light and a dark page.
"""

from itertools import pairwise
from typing import Final, NamedTuple

READABLE: Final = 4.5
"""The least contrast of text on its background (WCAG 2.2, AA)."""

_STOPS: Final[tuple[tuple[float, tuple[int, int, int]], ...]] = (
    (0.0, (29, 92, 148)),
    (0.7, (97, 150, 194)),
    (0.95, (146, 156, 166)),
    (1.1, (157, 156, 150)),
    (1.3, (226, 165, 74)),
    (1.8, (213, 94, 20)),
    (2.6, (158, 30, 30)),
)
"""The colours of brokers with these loads ÷ the mean; the colours between them are mixed."""
_LIGHTER: Final = 0.16
"""The part of the way to white by which a broker's smallest bundle is lighter than its largest."""
_UNKNOWN: Final = (108, 114, 120)


class Paint(NamedTuple):
    """A background colour and the colour of text on it, as ``#rrggbb``."""

    fill: str
    text: str


def of_load(ratio: float | None, prominence: float = 1.0) -> Paint:
    """The colours for a load ÷ the mean (None: unknown).

    ``prominence`` from 0 to 1 is the size among the bundles of the same broker: small ones are
    lighter.
    """
    base = _UNKNOWN if ratio is None else _mixed(ratio)
    lift = _LIGHTER * (1 - min(1.0, max(0.0, prominence)))
    shade = tuple(round(part + (255 - part) * lift) for part in base)
    return Paint(_hex(shade), _text_on(shade))


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, 1 to 21 (WCAG 2.2)."""
    bright, dark = sorted((_luminance(_parts(one)), _luminance(_parts(other))), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _mixed(ratio: float) -> tuple[int, ...]:
    if not ratio > 0:
        return _STOPS[0][1]
    for (low, start), (high, end) in pairwise(_STOPS):
        if ratio <= high:
            part = (ratio - low) / (high - low)
            return tuple(round(a + (b - a) * part) for a, b in zip(start, end, strict=True))
    return _STOPS[-1][1]


def _text_on(background: tuple[int, ...]) -> str:
    # Black itself: with anything lighter some greys would leave neither of the two readable.
    dark, light = "#000000", "#ffffff"
    over = _hex(background)
    return dark if contrast(dark, over) >= contrast(light, over) else light


def _hex(parts: tuple[int, ...]) -> str:
    return "#" + "".join(f"{part:02x}" for part in parts)


def _parts(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))


def _luminance(parts: tuple[int, ...]) -> float:
    linear = [
        part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4
        for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
