"""The page: what one browser shows. Everything that it says is decided in `picture/`."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from pathlib import Path

from nicegui import ui

from counterpoise.console.watch import Watch
from counterpoise.picture.charts import treemap_options
from counterpoise.picture.scene import Scene
from counterpoise.picture.tables import broker_rows, bundle_page
from counterpoise.picture.treemap import treemap
from counterpoise.picture.units import bytes_per_s, lasted, messages_per_s, times

STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
REFRESH_EVERY_S = 0.5
BROKER_COLUMNS = (
    ("broker", "Broker", "left"),
    ("load", "Load", "right"),
    ("rate", "Messages", "right"),
    ("ratio", "÷ mean", "right"),
    ("bundles", "Bundles", "right"),
    ("topics", "Topics", "right"),
    ("usage", "Most used", "right"),
    ("state", "State", "left"),
)
BUNDLE_COLUMNS = (
    ("bundle", "Bundle", "left"),
    ("owner", "Owner", "left"),
    ("load", "Load", "right"),
    ("rate", "Messages", "right"),
    ("topics", "Topics", "right"),
)


class Page:
    """One open page."""

    def __init__(self, watch: Watch, clock_ms: Callable[[], int]) -> None:
        self._watch = watch
        self._clock_ms = clock_ms
        self._shown = watch.scene

    def build(self) -> None:
        """Lay it out, and keep it up to date as long as somebody has it open."""
        ui.add_css(STYLE)
        heading(1, "Counterpoise")
        self._state = ui.label().props('role="status"')
        self._chart = ui.echart(treemap_options(treemap(self._shown))).classes("treemap")
        heading(2, "Brokers")
        self._brokers = table("Brokers", BROKER_COLUMNS)
        heading(2, "Bundles")
        self._wanted = ui.input("Find a bundle or an owner", on_change=self._list)
        self._bundles = table("Bundles", BUNDLE_COLUMNS)
        self._show(self._shown)
        ui.timer(REFRESH_EVERY_S, self._refresh)

    def _refresh(self) -> None:
        scene = self._watch.scene
        self._state.text = self._told(scene)
        if scene is not self._shown:
            self._shown = scene
            self._show(scene)

    def _show(self, scene: Scene) -> None:
        self._chart.options["series"] = treemap_options(treemap(scene))["series"]
        self._chart.update()
        self._brokers.rows = [
            {
                "broker": row.broker,
                "load": bytes_per_s(row.bytes_per_s),
                "rate": messages_per_s(row.messages_per_s),
                "ratio": times(row.ratio),
                "bundles": row.bundles,
                "topics": row.topics,
                "usage": f"{row.resource} {row.usage:.0f}%",
                "state": row.silent or "answers",
            }
            for row in broker_rows(scene)
        ]

        self._list()

    def _list(self) -> None:
        self._bundles.rows = [
            {
                "bundle": row.bundle,
                "owner": row.owner or "nobody",
                "load": bytes_per_s(row.bytes_per_s),
                "rate": messages_per_s(row.messages_per_s),
                "topics": row.topics,
            }
            for row in bundle_page(self._shown, self._wanted.value or "").rows
        ]

    def _told(self, scene: Scene) -> str:
        if not scene.at_ms:
            return "looking at the cluster …"
        ago = lasted((self._clock_ms() - scene.at_ms) / 1000)
        return f"{scene.trouble} ({ago} ago)" if scene.trouble else f"seen {ago} ago"


def heading(level: int, text: str) -> ui.html:
    """A heading of the page's outline."""
    return ui.html(html.escape(text), tag=f"h{level}", sanitize=False)


def table(name: str, columns: Iterable[tuple[str, str, str]]) -> ui.table:
    """A table as a region of its own, whose rows are told apart by their first column."""
    told = [
        {"name": key, "label": label, "field": key, "align": align} for key, label, align in columns
    ]
    with ui.element("section").props(f'aria-label="{name}"'):
        return ui.table(columns=told, rows=[], row_key=told[0]["name"])
