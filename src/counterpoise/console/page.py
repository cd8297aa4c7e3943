"""The page: what one browser shows. Everything that it says is decided in `picture/`."""

from __future__ import annotations

from pathlib import Path

from nicegui import ui

from counterpoise.console.desk import Desk, Sources
from counterpoise.console.elements import Text, attributes, button
from counterpoise.console.parts.backtests import Backtests
from counterpoise.console.parts.chosen import Chosen
from counterpoise.console.parts.cluster_map import ClusterMap
from counterpoise.console.parts.listings import Brokers, Bundles
from counterpoise.console.parts.sign_in import SignIn, default_operator
from counterpoise.console.parts.summary import Summary
from counterpoise.console.parts.told import Activities, Decisions, HeldBack, clock
from counterpoise.console.roles import Operator
from counterpoise.picture.scene import Scene
from counterpoise.picture.units import lasted

STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
REFRESH_EVERY_S = 0.5
STALE_AFTER_S = 10.0
THEMES = (("auto", None), ("light", False), ("dark", True))


class Page:
    """One open page."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._desk = Desk(sources, Operator())
        self._desk.operator = default_operator(self._desk)
        self._desk.announce = self._announce
        self._shown: Scene | None = None
        self._theme = 0

    def build(self) -> None:
        """Lay it out, and keep it up to date as long as somebody has it open."""
        desk = self._desk
        ui.add_css(STYLE)
        self._dark = ui.dark_mode(None)
        with ui.header().classes("top"):
            skip = Text("a", "Skip to the tables", "skip")
            attributes(skip, href="#tables")
            Text("h1", "Counterpoise")
            self._state = Text("p", "", "state")
            self._theme_button = button("Theme: auto", self._next_theme)
            SignIn(desk)
        self._trouble = Text("p", "", "trouble")
        attributes(self._trouble, role="alert")
        self._summary = Summary(desk)
        with ui.element("div").classes("main"):
            self._map = ClusterMap(desk)
            self._chosen = Chosen(desk, self._map.show_only)
        with attributes(ui.element("div").classes("card tables"), id="tables", tabindex="-1"):
            self._tables()
        self._aloud = Text("p", "", "unseen")
        attributes(self._aloud, role="status")
        desk.on_choice.append(self._listings)
        self._refresh()
        ui.timer(REFRESH_EVERY_S, self._refresh)

    def _tables(self) -> None:
        names = ("Brokers", "Bundles", "Decisions", "Moves", "Throttling", "Backtests")
        with ui.tabs().props("no-caps inline-label outside-arrows mobile-arrows") as tabs:
            for name in names:
                ui.tab(name)
        with ui.tab_panels(tabs, value=names[0], animated=False).classes("panels"):
            with ui.tab_panel("Brokers"):
                self._brokers = Brokers(self._desk)
            with ui.tab_panel("Bundles"):
                self._bundles = Bundles(self._desk)
            with ui.tab_panel("Decisions"):
                self._decisions = Decisions(self._desk)
            with ui.tab_panel("Moves"):
                self._activities = Activities(self._desk)
            with ui.tab_panel("Throttling"):
                self._held = HeldBack(self._desk)
            with ui.tab_panel("Backtests"):
                self._backtests = Backtests(self._desk)

    def _refresh(self) -> None:
        scene = self._sources.watch.scene
        self._tell_state(scene)
        self._decisions.show()
        self._activities.show()
        if scene is self._shown:
            return
        self._shown = scene
        self._summary.show()
        self._map.show(scene)
        self._chosen.show()
        self._listings()
        self._held.show()
        self._backtests.show()

    def _listings(self) -> None:
        self._brokers.show()
        self._bundles.show()

    def _tell_state(self, scene: Scene) -> None:
        trouble = ""
        if not scene.at_ms:
            state = "looking at the cluster …"
        else:
            ago_s = (self._sources.clock_ms() - scene.at_ms) / 1000
            state = f"live, seen {lasted(ago_s)} ago"
            seen = self._sources.watch.past.last
            since = f" What is shown is of {clock(seen.at_ms)} UTC." if seen else ""
            if scene.trouble:
                state, trouble = "out of reach", f"{scene.trouble}.{since}"
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
