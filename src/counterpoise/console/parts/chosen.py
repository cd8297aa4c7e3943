"""The broker or bundle that is chosen: what it carries, what became of it, what can be done."""

from __future__ import annotations

import math
from collections.abc import Callable

from nicegui import ui

from counterpoise.console.desk import Desk
from counterpoise.console.elements import Grid, Lines, Row, Text, attributes, section
from counterpoise.console.parts.curve import Curve
from counterpoise.console.parts.doing import Doing
from counterpoise.console.parts.told import clock, moment, rounds_of
from counterpoise.load.usage import RESOURCES
from counterpoise.names.bundle import BundleName
from counterpoise.names.errors import InvalidName
from counterpoise.names.topic import TopicName
from counterpoise.picture.decided import about
from counterpoise.picture.past import Change
from counterpoise.picture.tables import broker_rows, bundle_row
from counterpoise.picture.treemap import What
from counterpoise.picture.units import bytes_per_s, counted, messages_per_s, times

SHOWN = 12


class Chosen:
    """The panel beside the map."""

    def __init__(self, desk: Desk, zoom: Callable[[str], None]) -> None:
        self._desk = desk
        with section("Chosen", "card chosen"):
            self._title = Text("h2", "Nothing is chosen")
            attributes(self._title, tabindex="-1")
            self._facts = Lines("Choose a broker or a bundle, in the map or in a table.")
            self._doing = Doing(desk, zoom)
            with ui.element("div") as self._more:
                self._curve = Curve(desk, self.show)
                with ui.element("div") as self._resources:
                    Text("h3", "Use of resources")
                    self._usage = Grid("Use of resources", ("Resource", "Used>"))
                Text("h3", "What happened to it")
                self._changes = Lines("Nothing since the console was started.")
                Text("h3", "What was decided about it")
                self._decided = Lines("Nothing that is known here.")
                Text("h3", "Who is held back")
                self._held = Lines("Nobody.")
        desk.on_choice.append(self.show)
        self.show()

    def show(self) -> None:
        """Show what is known now."""
        desk = self._desk
        self._doing.show()
        self._more.set_visibility(desk.what is not None)
        self._curve.look_back()
        if desk.what is What.BUNDLE:
            self._show_bundle(desk.key)
        elif desk.what is What.BROKER:
            self._show_broker(desk.key)

    def _show_bundle(self, bundle: str) -> None:
        scene, watch = self._desk.scene, self._desk.sources.watch
        self._title.text = bundle
        row = scene.view.bundle_index(bundle)
        if row is None:
            since = watch.past.away.get(bundle)
            told = f"no broker reports it since {clock(since[0])} UTC" if since else "it is gone"
            self._facts.show([f"{told}: it is on its way, was split, or is not loaded"])
        else:
            of = bundle_row(scene, row)
            self._facts.show(
                [
                    f"owner {of.owner or 'nobody'}",
                    f"{bytes_per_s(of.bytes_per_s)}, {messages_per_s(of.messages_per_s)}, "
                    f"{counted(of.topics, 'topic')}",
                ]
            )
        self._curve.show(watch.past.trace(bundle), bundle)
        self._resources.set_visibility(False)
        now_ms = self._desk.sources.clock_ms()
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
        scene, watch = self._desk.scene, self._desk.sources.watch
        self._title.text = broker
        found = next((each for each in broker_rows(scene) if each.broker == broker), None)
        if found is None:
            self._facts.show(["the cluster does not list it any more"])
        else:
            state = f"it does not answer: {found.silent}" if found.silent else "it answers"
            self._facts.show(
                [
                    state,
                    f"{bytes_per_s(found.bytes_per_s)}, {times(found.ratio)} the mean; "
                    f"{messages_per_s(found.messages_per_s)}",
                    f"{counted(found.bundles, 'bundle')}, {counted(found.topics, 'topic')}",
                ]
            )
        self._curve.show(watch.past.broker_trace(broker), broker)
        row = scene.view.broker_index(broker)
        self._resources.set_visibility(True)
        usage = [] if row is None else scene.view.broker.usage[row].tolist()
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

    def _happened(self, bundle: str) -> tuple[Change, ...]:
        """What happened to it, the latest first: what was seen, and what was recorded before."""
        seen = self._desk.sources.watch.past.of_bundle(bundle)
        first = seen[-1].at_ms if seen else math.inf
        return seen + tuple(e for e in reversed(self._curve.recorded.changes) if e.at_ms < first)

    def _decisions(self, subject: str) -> None:
        sources = self._desk.sources
        found = [
            f"{clock(each.until_ms)} {word}: {said.whole} {said.came_of_it}".strip()
            for word, told in (("decided", rounds_of(sources)), ("advice", sources.watch.advice))
            for each, said in about(told, subject)
        ]
        self._decided.show(found[:SHOWN])


def holds(bundle: str, topic: str) -> bool:
    """Whether a topic is one of a bundle; not for names that are none."""
    try:
        return TopicName.parse(topic) in BundleName.parse(bundle)
    except InvalidName:
        return False
