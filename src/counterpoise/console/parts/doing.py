"""What can be done to a broker or bundle, by button: each shows its plan first."""

from __future__ import annotations

from collections.abc import Callable

import aiohttp
from nicegui import ui

from counterpoise.console.desk import Desk
from counterpoise.console.elements import button
from counterpoise.console.parts.confirm import Confirm
from counterpoise.decide.balancing.drain import DrainPlan
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
from counterpoise.picture.units import times
from counterpoise.pipeline.drive.drain import Drain, DrainOptions, DrainRefusedError
from counterpoise.pipeline.drive.policies import CannotSeeError
from counterpoise.pipeline.drive.scene import SceneReader


class Doing:
    """The buttons about whatever is chosen."""

    def __init__(self, desk: Desk, zoom: Callable[[str], None]) -> None:
        self._desk = desk
        self._confirm = Confirm(desk)
        with ui.element("div").classes("bar") as self._for_bundles:
            button("Transfer…", self._transfer, "strong")
            button("Unload…", self._unload)
            button("Split…", self._split)
        with ui.element("div").classes("bar") as self._for_brokers:
            button("Drain…", self._drain, "strong")
            button("Show it alone", lambda: zoom(desk.key))

    def show(self) -> None:
        """Show the buttons that fit."""
        self._for_bundles.set_visibility(self._desk.what is What.BUNDLE)
        self._for_brokers.set_visibility(self._desk.what is What.BROKER)

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
