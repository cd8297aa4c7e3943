"""The map: brokers and bundles as areas that can be clicked."""

import math
import time
from collections.abc import Mapping

from nicegui import events, ui

from counterpoise.console.elements import Text, attributes, button, section
from counterpoise.console.page_session import PageSession, drawn
from counterpoise.picture.charts import Options, treemap_options, treemap_series
from counterpoise.picture.cluster_picture import ClusterPicture
from counterpoise.picture.figures import in_words
from counterpoise.picture.treemap import Area, TileKind

PATIENCE_S = 15.0
"""Seconds after which a browser that has not finished drawing is sent the whole chart again."""


class ClusterMap:
    """The treemap of the cluster's load.

    It shows all brokers until `show_only` or a click zooms into one of them, and then that one
    until the operator zooms out, or it is gone.
    """

    def __init__(self, session: PageSession) -> None:
        self._session = session
        self._area = Area.BYTES
        self._only = ""
        self._shown: Options = {}
        self._busy, self._sent_at = True, -math.inf
        """Whether the browser is still drawing, and since when (`time.monotonic`)."""
        self._waits = False
        """Whether a newer picture was not sent, since the browser was still drawing."""
        with section("Map of the cluster", "card map"):
            with ui.element("div").classes("bar"):
                Text("h2", "Where the load is")
                self._back = button("All brokers", self._zoom_out)
                choice = {each: f"area: {each.value}" for each in Area}
                ui.select(choice, value=self._area, on_change=self._measure).props(
                    'dense outlined options-dense aria-label="What an area stands for"'
                ).classes("measure")
            with ui.element("div").classes("picture") as self._picture:
                attributes(self._picture, role="img")
                self._chart = ui.echart(
                    treemap_options(()), on_point_click=self._clicked, renderer="canvas"
                ).classes("chart")
                self._chart.on("chart:finished", self._drawn, args=[])
            with ui.element("p").classes("legend quiet"):
                for shade, words in LEGEND:
                    with ui.element("span").classes("shade"):
                        ui.element("span").classes(f"swatch swatch-{shade}")
                        Text("span", words)

    def show(self, picture: ClusterPicture) -> None:
        """Draw this picture, unless the browser is still drawing the last one."""
        now = time.monotonic()
        self._waits = self._busy and now - self._sent_at <= PATIENCE_S
        if self._waits:
            return
        if self._only and self._only not in picture.view.brokers:
            self._only = ""
        self._back.set_visibility(bool(self._only))
        series = treemap_series(drawn(picture, self._area, self._only))
        if series == self._shown:
            return
        self._shown = series
        if self._busy:
            # Changing one option of the element makes NiceGUI send all of them.
            self._chart.options["series"][0] |= series
        else:
            # Send only what changed, and straight to ECharts: in an element's options the page's
            # framework would observe every figure, which costs the browser several times as much.
            # With `lazyUpdate` the browser reads and draws in two tasks, so that neither is long.
            self._chart.run_chart_method("setOption", {"series": [series]}, {"lazyUpdate": True})
        self._busy, self._sent_at = True, now
        attributes(self._picture, aria_label=in_words(picture))

    def _drawn(self) -> None:
        self._busy = False
        if self._waits:
            self.show(self._session.picture)

    def show_only(self, broker: str) -> None:
        """Draw one broker alone, in detail; an empty name: all brokers."""
        self._only = broker
        self.show(self._session.picture)

    def _zoom_out(self) -> None:
        self.show_only("")

    def _measure(self, event: events.ValueChangeEventArguments[Area]) -> None:
        self._area = Area(event.value)
        self.show(self._session.picture)

    def _clicked(self, event: events.EChartPointClickEventArguments) -> None:
        data: Mapping[str, str] = event.data if isinstance(event.data, dict) else {}
        what, key = data.get("what"), str(data.get("id", ""))
        if what == TileKind.REST:
            self.show_only(key.removeprefix("rest of "))
        elif what in {TileKind.BROKER, TileKind.BUNDLE}:
            self._session.choose(TileKind(what), key)


LEGEND = (
    ("low", "less than the mean"),
    ("mean", "the mean"),
    ("high", "more"),
    ("most", "twice the mean and more"),
)
