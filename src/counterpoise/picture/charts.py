"""Tiles and series as the options of Apache ECharts, the charts that the page's library brings.

A name from the cluster is only ever a value, never a key: the library takes some keys for programs.
"""

from collections.abc import Iterable
from typing import Any

from counterpoise.picture.treemap import Tile, What

Options = dict[str, Any]


def treemap_options(tiles: Iterable[Tile]) -> Options:
    """The treemap's options."""
    return {
        "aria": {"enabled": False},  # the page describes it, and has the same as a table
        "animationDurationUpdate": 400,
        "tooltip": {
            # Drawn, not HTML: a name may hold anything.
            "renderMode": "richText",
            "confine": True,
        },
        "series": [
            {
                "type": "treemap",
                "left": 0,
                "right": 0,
                "top": 0,
                "bottom": 0,
                "roam": False,
                "nodeClick": False,
                "breadcrumb": {"show": False},
                "visibleMin": 1,
                "label": {"show": True, "overflow": "truncate", "fontSize": 11},
                "upperLabel": {
                    "show": True,
                    "height": 24,
                    "fontSize": 12,
                    "fontWeight": 600,
                    "overflow": "truncate",
                },
                "levels": [
                    {
                        "upperLabel": {"show": False},
                        "itemStyle": {"gapWidth": 6, "borderWidth": 0, "color": "transparent"},
                    },
                    {"itemStyle": {"gapWidth": 1, "borderWidth": 2}},
                    {"itemStyle": {"gapWidth": 1, "borderWidth": 0}},
                ],
                "data": [_node(tile) for tile in tiles],
            }
        ],
    }


def _node(tile: Tile) -> Options:
    node: Options = {
        "id": tile.key,
        "name": tile.label,
        "value": round(tile.value, 3),
        "what": tile.what.value,
        "itemStyle": {"color": tile.paint.fill},
        "label": {"color": tile.paint.text},
        "tooltip": {"formatter": _plain(tile.told)},
    }
    if tile.what is What.BROKER:
        node["itemStyle"] = {"color": tile.paint.fill, "borderColor": tile.paint.fill}
        node["upperLabel"] = {"color": tile.paint.text}
        node["children"] = [_node(each) for each in tile.tiles]
    return node


def _plain(text: str) -> str:
    """Text in which the charts find nothing to fill in, and no style."""
    return text.replace("{", "(").replace("}", ")").replace("|", "/")
