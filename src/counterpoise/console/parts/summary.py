"""The cluster's key figures in one line."""

from nicegui import ui

from counterpoise.console.elements import Text, section
from counterpoise.console.page_session import PageSession
from counterpoise.picture.figures import KeyFigure, key_figures


class Summary:
    """The section with the cluster's key figures."""

    def __init__(self, session: PageSession) -> None:
        self._session = session
        self._values: list[tuple[ui.element, Text]] = []
        with section("The cluster in figures"), ui.element("dl").classes("figures"):
            for figure in self._figures():
                with ui.element("div").classes("figure") as holder:
                    Text("dt", figure.label)
                    self._values.append((holder, Text("dd", figure.value)))

    def show(self) -> None:
        """Show the key figures of the latest poll."""
        for (holder, value), figure in zip(self._values, self._figures(), strict=True):
            if value.text != figure.value:
                value.text = figure.value
            on, off = ("alarming", "") if figure.alarming else ("", "alarming")
            holder.classes(add=on, remove=off)

    def _figures(self) -> tuple[KeyFigure, ...]:
        watch = self._session.sources.watch
        return key_figures(watch.picture, watch.past, watch.throttled)
