"""The console's page in one browser; what it shows is computed in `picture/`."""

from pathlib import Path

from nicegui import ui

from counterpoise.console.elements import Text, attributes, button
from counterpoise.console.page_session import PageSession, Sources
from counterpoise.console.parts.activity_lists import Activities, Decisions, ReachedLimits, clock
from counterpoise.console.parts.backtests import Backtests
from counterpoise.console.parts.cluster_map import ClusterMap
from counterpoise.console.parts.details import Details
from counterpoise.console.parts.listings import Brokers, Bundles
from counterpoise.console.parts.sign_in import SignIn, default_operator
from counterpoise.console.parts.summary import Summary
from counterpoise.console.roles import Operator
from counterpoise.names.units import lasted
from counterpoise.picture.cluster_picture import ClusterPicture

STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
REFRESH_EVERY_S = 0.5
STALE_AFTER_S = 10.0
THEMES = (("auto", None), ("light", False), ("dark", True))


class Page:
    """One page that is open in an operator's browser."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._session = PageSession(sources, Operator())
        self._session.operator = default_operator(self._session)
        self._session.announce = self._announce
        self._shown: ClusterPicture | None = None
        self._theme = 0

    def build(self) -> None:
        """Build the page, and refresh it while a browser has it open."""
        session = self._session
        ui.add_css(STYLE)
        self._dark = ui.dark_mode(None)
        with ui.header().classes("top"):
            skip = Text("a", "Skip to the tables", "skip")
            attributes(skip, href="#tables")
            Text("h1", "Counterpoise")
            self._state = Text("p", "", "state")
            self._theme_button = button("Theme: auto", self._next_theme)
            SignIn(session)
        self._trouble = Text("p", "", "trouble")
        attributes(self._trouble, role="alert")
        self._summary = Summary(session)
        with ui.element("div").classes("main"):
            self._map = ClusterMap(session)
            self._details = Details(session, self._map.show_only)
        with attributes(ui.element("div").classes("card tables"), id="tables", tabindex="-1"):
            self._tables()
        self._aloud = Text("p", "", "unseen")
        attributes(self._aloud, role="status")
        session.on_choice.append(self._listings)
        self._refresh()
        ui.timer(REFRESH_EVERY_S, self._refresh)

    def _tables(self) -> None:
        names = ("Brokers", "Bundles", "Decisions", "Moves", "Throttling", "Backtests")
        with ui.tabs().props("no-caps inline-label outside-arrows mobile-arrows") as tabs:
            for name in names:
                ui.tab(name)
        with ui.tab_panels(tabs, value=names[0], animated=False).classes("panels"):
            with ui.tab_panel("Brokers"):
                self._brokers = Brokers(self._session)
            with ui.tab_panel("Bundles"):
                self._bundles = Bundles(self._session)
            with ui.tab_panel("Decisions"):
                self._decisions = Decisions(self._session)
            with ui.tab_panel("Moves"):
                self._activities = Activities(self._session)
            with ui.tab_panel("Throttling"):
                self._held = ReachedLimits(self._session)
            with ui.tab_panel("Backtests"):
                self._backtests = Backtests(self._session)

    def _refresh(self) -> None:
        picture = self._sources.watch.picture
        self._show_state(picture)
        self._decisions.show()
        self._activities.show()
        if picture is self._shown:
            return
        self._shown = picture
        self._summary.show()
        self._map.show(picture)
        self._details.show()
        self._listings()
        self._held.show()
        self._backtests.show()

    def _listings(self) -> None:
        self._brokers.show()
        self._bundles.show()

    def _show_state(self, picture: ClusterPicture) -> None:
        trouble = ""
        if not picture.at_ms:
            state = "looking at the cluster …"
        else:
            ago_s = (self._sources.clock_ms() - picture.at_ms) / 1000
            state = f"live, seen {lasted(ago_s)} ago"
            seen = self._sources.watch.past.last
            since = f" What is shown is of {clock(seen.at_ms)} UTC." if seen else ""
            if picture.trouble:
                state, trouble = "out of reach", f"{picture.trouble}.{since}"
            elif ago_s > STALE_AFTER_S + self._sources.options.watch.every_s:
                state = f"a look takes long: seen {lasted(ago_s)} ago"
        if self._state.text != state:
            self._state.text = state
        if self._trouble.text != trouble:
            self._trouble.text = trouble
        self._trouble.set_visibility(bool(trouble))

    def _announce(self, sentence: str) -> None:
        self._aloud.text = sentence
        ui.notify(sentence, position="bottom", timeout=6000, close_button="Close")

    def _next_theme(self) -> None:
        self._theme = (self._theme + 1) % len(THEMES)
        name, value = THEMES[self._theme]
        self._dark.value = value
        self._theme_button.text = f"Theme: {name}"
