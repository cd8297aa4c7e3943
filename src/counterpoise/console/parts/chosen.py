"""The broker or bundle that is chosen: what it carries, what became of it, what can be done."""

from __future__ import annotations

from collections.abc import Callable

import aiohttp
from nicegui import ui

from counterpoise.console.desk import Desk
from counterpoise.console.elements import Grid, Lines, Row, Text, attributes, button, section
from counterpoise.console.parts.confirm import Confirm
from counterpoise.console.parts.told import clock, rounds_of
from counterpoise.decide.balancing.drain import DrainPlan
from counterpoise.load.usage import RESOURCES
from counterpoise.names.bundle import BundleName
from counterpoise.names.errors import InvalidName
from counterpoise.names.topic import TopicName
from counterpoise.picture.charts import line_options
from counterpoise.picture.decided import about
from counterpoise.picture.past import Trace
from counterpoise.picture.plans import (
    Deed,
    Plan,
    of_moves,
    plan_split,
    plan_transfer,
    plan_unload,
)
from counterpoise.picture.tables import broker_rows, bundle_row
from counterpoise.picture.treemap import What
from counterpoise.picture.units import bytes_per_s, counted, messages_per_s, times
from counterpoise.pipeline.drive.drain import Drain, DrainOptions, DrainRefusedError
from counterpoise.pipeline.drive.scene import CannotSeeError, SceneReader

SHOWN = 12


class Chosen:
    """The panel beside the map."""

    def __init__(self, desk: Desk, zoom: Callable[[str], None]) -> None:
        self._desk = desk
        self._confirm = Confirm(desk)
        self._trace: Trace | None = None
        with section("Chosen", "card chosen"):
            self._title = Text("h2", "Nothing is chosen")
            attributes(self._title, tabindex="-1")
            self._facts = Lines("Choose a broker or a bundle, in the map or in a table.")
            with ui.element("div").classes("bar") as self._of_bundle:
                button("Transfer…", self._transfer, "strong")
                button("Unload…", self._unload)
                button("Split…", self._split)
            with ui.element("div").classes("bar") as self._of_broker:
                button("Drain…", self._drain, "strong")
                button("Show it alone", lambda: zoom(desk.key))
            with ui.element("div") as self._more:
                with ui.element("div") as self._picture:
                    attributes(self._picture, role="img")
                    self._chart = ui.echart(
                        line_options(Trace((), (), ()), ""), renderer="svg"
                    ).classes("spark")
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
        self._of_bundle.set_visibility(desk.what is What.BUNDLE)
        self._of_broker.set_visibility(desk.what is What.BROKER)
        self._more.set_visibility(desk.what is not None)
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
        self._draw(watch.past.trace(bundle), bundle)
        self._resources.set_visibility(False)
        self._changes.show(
            [f"{clock(e.at_ms)} {e.sentence}" for e in watch.past.of_bundle(bundle)[:SHOWN]]
        )
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
        self._draw(watch.past.broker_trace(broker), broker)
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

    def _decisions(self, subject: str) -> None:
        sources = self._desk.sources
        found = [
            f"{clock(each.until_ms)} {word}: {said.whole} {said.came_of_it}".strip()
            for word, told in (("decided", rounds_of(sources)), ("advice", sources.watch.advice))
            for each, said in about(told, subject)
        ]
        self._decided.show(found[:SHOWN])

    def _draw(self, trace: Trace, name: str) -> None:
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

    # What can be done.

    async def _transfer(self) -> None:
        scene, bundle = self._desk.scene, self._desk.key
        row = scene.view.bundle_index(bundle)
        owner = bundle_row(scene, row).owner if row is not None else ""
        others = [
            each
            for each in reversed(broker_rows(scene))
            if not each.silent and each.broker != owner
        ]
        choices = {each.broker: f"{each.broker}, {times(each.ratio)} the mean" for each in others}
        first = next(iter(choices), "")
        await self._confirm.show(
            plan_transfer(scene, bundle, first),
            self._move,
            choices,
            lambda broker: plan_transfer(self._desk.scene, bundle, broker),
            first,
        )

    async def _unload(self) -> None:
        await self._confirm.show(plan_unload(self._desk.scene, self._desk.key), self._move)

    def _move(self, plan: Plan) -> None:
        desk = self._desk
        brokers, where = desk.scene.view.brokers, desk.sources.watch.address
        desk.sources.deeds.moves(plan, desk.operator, brokers, where)

    async def _split(self) -> None:
        desk = self._desk

        def act(plan: Plan) -> None:
            row = bundle_row(desk.scene, desk.scene.view.bundle_index(plan.bundle) or 0)
            desk.sources.deeds.split(plan, desk.operator, desk.sources.watch.address(row.owner))

        await self._confirm.show(plan_split(desk.scene, desk.key), act)

    async def _drain(self) -> None:
        desk, broker = self._desk, self._desk.key
        title = f"Drain {broker}"
        options = desk.sources.options
        rules = options.drain_rules(desk.sources.watch.settings)
        made: list[DrainPlan] = []

        def drain_with(
            session: aiohttp.ClientSession, tell: Callable[[str], None] = lambda sentence: None
        ) -> Drain:
            reader = SceneReader(session, options.watch.addresses, desk.sources.clock_ms)
            clock_ms = desk.sources.clock_ms
            return Drain(session, reader, broker, rules, clock_ms, tell, DrainOptions(partial=True))

        async with desk.operator.session() as session:
            try:
                made.append(await drain_with(session).plan())
            except (DrainRefusedError, CannotSeeError) as error:
                await self._confirm.show(
                    Plan(Deed.DRAIN, title, refused=str(error)), lambda _: None
                )
                return
        stuck = [f"{each.subject} can go nowhere: {each.sentence}" for each in made[0].stuck]
        steps = [f"{move.bundle} to {move.destination}: {move.placement}" for move in made[0].moves]
        plan = of_moves(desk.scene, Deed.DRAIN, title, made[0].moves, [*steps, *stuck])

        def act(confirmed: Plan) -> None:
            desk.sources.deeds.drain(confirmed, desk.operator, drain_with, made[0])

        await self._confirm.show(plan, act)


def holds(bundle: str, topic: str) -> bool:
    """Whether a topic is one of a bundle; not for names that are none."""
    try:
        return TopicName.parse(topic) in BundleName.parse(bundle)
    except InvalidName:
        return False
