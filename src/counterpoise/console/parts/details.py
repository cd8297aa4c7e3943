"""The details of the selected broker or bundle: load, past moves, decisions, and buttons."""

import math
from collections.abc import Callable

from nicegui import ui

from counterpoise.console.elements import Grid, Lines, Row, Text, attributes, section
from counterpoise.console.page_session import PageSession
from counterpoise.console.parts.action_buttons import ActionButtons
from counterpoise.console.parts.activity_lists import clock, moment, rounds_of
from counterpoise.console.parts.curve import Curve
from counterpoise.load.usage import RESOURCES
from counterpoise.names.bundle import BundleName
from counterpoise.names.errors import InvalidName
from counterpoise.names.topic import TopicName
from counterpoise.names.units import bytes_text, counted, messages_text, times
from counterpoise.picture.observed import OwnerChange
from counterpoise.picture.round_summary import about
from counterpoise.picture.tables import broker_lines, bundle_line
from counterpoise.picture.treemap import TileKind

SHOWN = 12


class Details:
    """The panel beside the map with details of the selected bundle or broker."""

    def __init__(self, session: PageSession, zoom: Callable[[str], None]) -> None:
        self._session = session
        with section("Chosen", "card chosen"):
            self._title = Text("h2", "Nothing is chosen")
            attributes(self._title, tabindex="-1")
            self._facts = Lines("Choose a broker or a bundle, in the map or in a table.")
            self._buttons = ActionButtons(session, zoom)
            with ui.element("div") as self._more:
                self._curve = Curve(session, self.show)
                with ui.element("div") as self._resources:
                    Text("h3", "Use of resources")
                    self._usage = Grid("Use of resources", ("Resource", "Used>"))
                Text("h3", "What happened to it")
                self._changes = Lines("Nothing since the console was started.")
                Text("h3", "What was decided about it")
                self._decided = Lines("Nothing that is known here.")
                Text("h3", "Throttled producers")
                self._held = Lines("None.")
        session.on_choice.append(self.show)
        self.show()

    def show(self) -> None:
        """Show the details of the selected bundle or broker."""
        session = self._session
        self._buttons.show()
        self._more.set_visibility(session.what is not None)
        self._curve.look_back()
        if session.what is TileKind.BUNDLE:
            self._show_bundle(session.key)
        elif session.what is TileKind.BROKER:
            self._show_broker(session.key)

    def _show_bundle(self, bundle: str) -> None:
        picture, watch = self._session.picture, self._session.sources.watch
        self._title.text = bundle
        row = picture.view.bundle_index(bundle)
        if row is None:
            since = watch.past.away.get(bundle)
            state = f"no broker reports it since {clock(since[0])} UTC" if since else "it is gone"
            self._facts.show([f"{state}: it is on its way, was split, or is not loaded"])
        else:
            of = bundle_line(picture, row)
            self._facts.show(
                [
                    f"owner {of.owner or 'none'}",
                    f"{bytes_text(of.bytes_per_s)}, {messages_text(of.messages_per_s)}, "
                    f"{counted(of.topics, 'topic')}",
                ]
            )
        self._curve.show(watch.past.bundle_curve(bundle), bundle)
        self._resources.set_visibility(False)
        now_ms = self._session.sources.clock_ms()
        happened = self._happened(bundle)[:SHOWN]
        self._changes.show([f"{moment(e.at_ms, now_ms)} {e.sentence}" for e in happened])
        self._decisions(bundle)
        held = [
            f"{each.subject}: {each.why}"
            for each in watch.throttled
            if any(holds(bundle, topic) for topic in each.topics)
        ]
        self._held.show(held[:SHOWN])

    def _show_broker(self, broker: str) -> None:
        picture, watch = self._session.picture, self._session.sources.watch
        self._title.text = broker
        found = next((each for each in broker_lines(picture) if each.broker == broker), None)
        if found is None:
            self._facts.show(["the cluster does not list it any more"])
        else:
            state = f"it does not answer: {found.silent}" if found.silent else "it answers"
            self._facts.show(
                [
                    state,
                    f"{bytes_text(found.bytes_per_s)}, {times(found.ratio)} the mean; "
                    f"{messages_text(found.messages_per_s)}",
                    f"{counted(found.bundles, 'bundle')}, {counted(found.topics, 'topic')}",
                ]
            )
        self._curve.show(watch.past.broker_curve(broker), broker)
        row = picture.view.broker_index(broker)
        self._resources.set_visibility(True)
        usage = [] if row is None else picture.view.broker.usage[row].tolist()
        self._usage.show(
            [
                Row(name, (name, f"{used:.0f}%"))
                for name, used in zip(RESOURCES, usage, strict=False)
            ]
        )
        took_part = [
            f"{clock(each.at_ms)} {each.bundle} {each.sentence}"
            for each in reversed(watch.past.changes)
            if broker in {each.source, each.destination}
        ]
        self._changes.show(took_part[:SHOWN])
        self._decisions(broker)
        self._held.show(
            [f"{e.subject}: {e.why}" for e in watch.throttled if e.broker == broker][:SHOWN]
        )

    def _happened(self, bundle: str) -> tuple[OwnerChange, ...]:
        """Return a bundle's changes of owner, latest first.

        The console observed the later ones, and the history recorded those before.
        """
        seen = self._session.sources.watch.past.of_bundle(bundle)
        first = seen[-1].at_ms if seen else math.inf
        return seen + tuple(e for e in reversed(self._curve.recorded.changes) if e.at_ms < first)

    def _decisions(self, subject: str) -> None:
        sources = self._session.sources
        found = [
            f"{clock(each.until_ms)} {word}: {explanation.whole} {explanation.outcome}".strip()
            for word, rounds in (("decided", rounds_of(sources)), ("advice", sources.watch.advice))
            for each, explanation in about(rounds, subject)
        ]
        self._decided.show(found[:SHOWN])


def holds(bundle: str, topic: str) -> bool:
    """Whether a bundle contains a topic, both by name; False if either name is invalid."""
    try:
        return TopicName.parse(topic) in BundleName.parse(bundle)
    except InvalidName:
        return False
