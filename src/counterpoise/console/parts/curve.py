"""One load over time: as the console saw it, and as a history recorded it before."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import background_tasks, ui

from counterpoise.console.desk import Desk
from counterpoise.console.elements import Text, attributes
from counterpoise.picture.charts import line_options
from counterpoise.picture.past import Trace
from counterpoise.picture.recorded import Recorded
from counterpoise.picture.treemap import What
from counterpoise.picture.units import bytes_per_s

SPANS = {
    0: "since the console started",
    3600: "recorded: the last hour",
    6 * 3600: "recorded: 6 hours",
    24 * 3600: "recorded: 24 hours",
    7 * 24 * 3600: "recorded: 7 days",
}
"""How far back a curve reaches, s."""
Asked = tuple[What | None, str, int]


class Curve:
    """The chart of whatever is chosen."""

    def __init__(self, desk: Desk, changed: Callable[[], None]) -> None:
        """`changed` is called when the history has answered."""
        self._desk, self._changed = desk, changed
        self._trace: Trace | None = None
        self.recorded = Recorded()
        """What the history tells of it."""
        self._asked: Asked = (None, "", 0)
        self._span = (
            ui.select(SPANS, value=0, on_change=changed)
            .props('dense outlined options-dense aria-label="How far back"')
            .classes("measure span")
        )
        self._span.set_visibility(desk.sources.rounds.can_be_told)
        self._told = Text("p", "", "quiet")
        attributes(self._told, role="status")
        with ui.element("div") as self._picture:
            attributes(self._picture, role="img")
            empty = line_options(Trace((), (), ()), "")
            self._chart = ui.echart(empty, renderer="svg").classes("spark")

    def look_back(self) -> None:
        """Ask the history about what is chosen, unless that is what was asked last."""
        desk = self._desk
        asked = (desk.what, desk.key, int(self._span.value or 0))
        if asked == self._asked:
            return
        self._asked, self.recorded, self._told.text = asked, Recorded(), ""
        if asked[0] is not None and asked[2]:
            self._told.text = "reading the history …"
            background_tasks.create(self._read(asked[0], asked[1], asked[2]))

    async def _read(self, what: What, key: str, span_s: int) -> None:
        try:
            found = await self._desk.sources.rounds.recorded(what, key, span_s * 1000)
            told = "" if found.trace.times_ms else "The history tells nothing of it in that time."
        except (OSError, ValueError) as error:
            found, told = Recorded(), f"The history cannot be read: {error}"
        if self._asked == (what, key, span_s):
            self.recorded, self._told.text = found, told
            self._changed()

    def show(self, seen: Trace, name: str) -> None:
        """Draw what was recorded, and after its end what was seen."""
        trace = self.recorded.with_seen(seen)
        if trace == self._trace:
            return
        self._trace = trace
        self._chart.options.clear()
        self._chart.options.update(line_options(trace, name))
        self._chart.update()
        known = [value for value in trace.bytes_per_s if value is not None]
        words = "No load is known yet."
        if known:
            words = f"Load over time: {bytes_per_s(min(known))} to {bytes_per_s(max(known))}, "
            words += f"{bytes_per_s(known[-1])} now."
        attributes(self._picture, aria_label=words)
