"""A chart of the load of one bundle or broker over time, as recorded and as observed since."""

from nicegui import background_tasks, ui

from counterpoise.console.elements import Text, attributes
from counterpoise.console.page_session import PageSession
from counterpoise.names.callbacks import Notify
from counterpoise.names.units import bytes_text
from counterpoise.picture.charts import line_options
from counterpoise.picture.observed import LoadCurve
from counterpoise.picture.recorded_load import RecordedLoad
from counterpoise.picture.treemap import TileKind
from counterpoise.pipeline.tables.faults import HistoryFaultError

SPANS = {
    0: "since the console started",
    3600: "recorded: the last hour",
    6 * 3600: "recorded: 6 hours",
    24 * 3600: "recorded: 24 hours",
    7 * 24 * 3600: "recorded: 7 days",
}
"""By how many seconds a curve reaches back: the choice's label. 0: since the console started."""
Asked = tuple[TileKind | None, str, int]
"""Which load was read from the history: kind and name of the selection, and seconds back."""


class Curve:
    """The chart of the load of the selected bundle or broker over time."""

    def __init__(self, session: PageSession, changed: Notify) -> None:
        """`changed` is called when another span is chosen, and when the history has been read."""
        self._session, self._changed = session, changed
        self._drawn: LoadCurve | None = None
        self.recorded = RecordedLoad()
        """What the history recorded of the selection; empty until it has been read."""
        self._asked: Asked = (None, "", 0)
        self._span = (
            ui.select(SPANS, value=0, on_change=changed)
            .props('dense outlined options-dense aria-label="How far back"')
            .classes("measure span")
        )
        self._span.set_visibility(session.sources.rounds.accepts_control)
        self._note = Text("p", "", "quiet")
        attributes(self._note, role="status")
        with ui.element("div") as self._picture:
            attributes(self._picture, role="img")
            empty = line_options(LoadCurve((), (), ()), "")
            self._chart = ui.echart(empty, renderer="svg").classes("spark")

    def look_back(self) -> None:
        """Start to read the selection's load from the history, for as far back as is chosen.

        Does nothing if the last reading was for the same selection and span.
        """
        session = self._session
        shown = (session.what, session.key, int(self._span.value or 0))
        if shown == self._asked:
            return
        self._asked, self.recorded, self._note.text = shown, RecordedLoad(), ""
        if shown[0] is not None and shown[2]:
            self._note.text = "reading the history …"
            background_tasks.create(self._read(shown[0], shown[1], shown[2]))

    async def _read(self, what: TileKind, key: str, span_s: int) -> None:
        try:
            found = await self._session.sources.rounds.recorded(what, key, span_s * 1000)
            note = "" if found.curve.times_ms else "The history holds nothing of it in that time."
        except HistoryFaultError as error:
            found, note = RecordedLoad(), f"The history cannot be read: {error}"
        if self._asked == (what, key, span_s):
            self.recorded, self._note.text = found, note
            self._changed()

    def show(self, seen: LoadCurve, name: str) -> None:
        """Draw the load that the history recorded, followed by `seen`, which the console observed.

        `name` is that of the broker or bundle.
        """
        curve = self.recorded.with_seen(seen)
        if curve == self._drawn:
            return
        self._drawn = curve
        self._chart.options.clear()
        self._chart.options.update(line_options(curve, name))
        self._chart.update()
        known = [value for value in curve.bytes_per_s if value is not None]
        words = "No load is known yet."
        if known:
            words = f"Load over time: {bytes_text(min(known))} to {bytes_text(max(known))}, "
            words += f"{bytes_text(known[-1])} now."
        attributes(self._picture, aria_label=words)
