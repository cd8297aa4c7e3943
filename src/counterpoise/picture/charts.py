"""Options for Apache ECharts, which draws the console's charts, made of tiles and curves.

A name from the cluster is only ever a value, never a key: the library runs some keys as programs.
"""

from collections.abc import Sequence
from typing import Any

from counterpoise.names.units import byte_scale
from counterpoise.picture.observed import LoadCurve
from counterpoise.picture.trades import Trade
from counterpoise.picture.treemap import Tile, TileKind

NAMED, FIGURED = 0.012, 0.03
"""The parts of the whole map that a tile needs to have room for its name, and for its figure, too.
A figure that is cut off would be taken for another: 21.6 kB/s for 21."""
FLUID = 400
"""The most tiles with which changes are animated: of more, a browser is too slow."""
FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
Options = dict[str, Any]
_TO_THE_RIGHT: Options = {"position": [14, -8], "align": "left"}
_TO_THE_LEFT: Options = {"position": [-2, -8], "align": "right"}
"""The settings that place a point's label to the left of its mark; distances in pixels."""


def treemap_options(tiles: Sequence[Tile]) -> Options:
    """The options of a treemap chart with these tiles, for ECharts."""
    return {
        "aria": {"enabled": False},  # the page describes it, and has the same as a table
        "animationDurationUpdate": 400,
        "tooltip": {
            # Drawn on the canvas, not as HTML, since a name may contain anything.
            "renderMode": "richText",
            "confine": True,
        },
        "series": [
            {
                **treemap_series(tiles),
                "left": 0,
                "right": 0,
                "top": 0,
                "bottom": 0,
                "roam": False,
                "nodeClick": False,
                "breadcrumb": {"show": False},
                "visibleMin": 1,
                "emphasis": {"disabled": True},
                "label": {
                    "show": True,
                    "overflow": "truncate",
                    "fontSize": 12,
                    "lineHeight": 16,
                    "fontFamily": FONT,
                },
                "upperLabel": {
                    "show": True,
                    "height": 24,
                    "fontSize": 12,
                    "fontWeight": 600,
                    "fontFamily": FONT,
                    "padding": [0, 6],
                    "overflow": "truncate",
                },
                "levels": [
                    {
                        "upperLabel": {"show": False},
                        "itemStyle": {
                            "gapWidth": 6,
                            "borderWidth": 0,
                            "borderColor": "transparent",
                            "color": "transparent",
                        },
                    },
                    {"itemStyle": {"gapWidth": 2, "borderWidth": 2}},
                    {"itemStyle": {"gapWidth": 0, "borderWidth": 0}},
                ],
            }
        ],
    }


def treemap_series(tiles: Sequence[Tile]) -> Options:
    """The part of a treemap's options that changes with every poll."""
    whole = sum(tile.value for tile in tiles)
    return {
        "type": "treemap",
        # Set here, since the default of a treemap series overrides the chart's own setting.
        "animation": len(tiles) + sum(len(tile.tiles) for tile in tiles) <= FLUID,
        "data": [_node(tile, whole) for tile in tiles],
    }


def line_options(curve: LoadCurve, name: str) -> Options:
    """The options of a line chart of one load over time, for ECharts."""
    scale, unit = byte_scale(max((flow for flow in curve.bytes_per_s if flow), default=0.0))
    points = [
        [at, None if value is None else round(value / scale, 3)]
        for at, value in zip(curve.times_ms, curve.bytes_per_s, strict=True)
    ]
    return {
        "aria": {"enabled": False},
        "animation": False,
        "grid": {"left": 48, "right": 16, "top": 26, "bottom": 24},
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True},
        "xAxis": {"type": "time", "splitNumber": 3, "axisLabel": {"hideOverlap": True}},
        "yAxis": {
            "type": "value",
            "name": unit,
            "nameGap": 8,
            "splitNumber": 3,
            "splitLine": {"lineStyle": {"color": "#8a929b", "opacity": 0.3}},
        },
        "series": [
            {
                "type": "line",
                "name": _plain(name),
                "showSymbol": len(points) < 3,
                "areaStyle": {"opacity": 0.15},
                "lineStyle": {"width": 2},
                "color": "#4d8fc4",
                "data": points,
            }
        ],
    }


def trade_options(trades: Sequence[Trade]) -> Options:
    """The options of a chart of backtest results: load moved against imbalance."""
    best = sorted((each for each in trades if each.best), key=lambda each: each.moved)
    most = max((each.moved for each in trades), default=0.0)
    return {
        "aria": {"enabled": False},
        "animation": False,
        "grid": {"left": 64, "right": 24, "top": 16, "bottom": 48},
        "tooltip": {"renderMode": "richText", "confine": True},
        "xAxis": _axis("load moved, times the whole cluster's", 28),
        "yAxis": _axis("largest broker \N{DIVISION SIGN} mean, over time", 44),
        "series": [
            {
                "type": "line",
                "name": "nothing beats these in both",
                "color": "#2f9e77",
                "showSymbol": False,
                "data": [[each.moved, each.imbalance] for each in best],
            },
            {
                "type": "scatter",
                "name": "strategies",
                "symbolSize": 12,
                "labelLayout": {"hideOverlap": True},
                "data": [
                    {
                        "name": _plain(each.label),
                        "value": [each.moved, each.imbalance],
                        "itemStyle": {"color": "#2f9e77" if each.best else "#8a929b"},
                        "tooltip": {"formatter": _plain(each.sentence)},
                        "label": {
                            "show": True,
                            "color": "#8a929b",
                            # The label is above the line, on the side where there is room.
                            **(_TO_THE_LEFT if each.moved > most / 2 else _TO_THE_RIGHT),
                            "formatter": _plain(each.label),
                            "fontSize": 11,
                        },
                    }
                    for each in trades
                ],
            },
        ],
    }


def _axis(name: str, gap: int) -> Options:
    return {
        "type": "value",
        "scale": True,
        "name": name,
        "nameLocation": "middle",
        "nameGap": gap,
        "splitLine": {"lineStyle": {"color": "#8a929b", "opacity": 0.3}},
    }


def _node(tile: Tile, whole: float) -> Options:
    """A tile as a node of the chart's series.

    A small tile gets no label, or only its first line: measuring text to cut it takes long.
    """
    named = tile.value >= NAMED * whole
    node: Options = {
        "id": tile.key,
        "name": tile.label if tile.value >= FIGURED * whole else tile.label.partition("\n")[0],
        "value": round(tile.value, 3),
        "what": tile.what.value,
        "itemStyle": {"color": tile.paint.fill},
        "label": {"color": tile.paint.text} if named else {"show": False},
        "tooltip": {"formatter": _plain(tile.description)},
    }
    if tile.what is TileKind.BROKER:
        node["itemStyle"] = {"color": tile.paint.fill, "borderColor": tile.paint.fill}
        node["upperLabel"] = {"color": tile.paint.text}
        node["children"] = [_node(each, whole) for each in tile.tiles]
    return node


def _plain(text: str) -> str:
    """Text without placeholders and styles that the charts would interpret."""
    return text.replace("{", "(").replace("}", ")").replace("|", "/")
