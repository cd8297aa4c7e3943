"""Buttons for the actions on a broker or bundle; each shows its plan first."""

from collections.abc import Callable

import aiohttp
from nicegui import ui

from counterpoise.console.elements import button
from counterpoise.console.page_session import PageSession
from counterpoise.console.parts.confirm import Confirm
from counterpoise.decide.balancing.moves import Round
from counterpoise.names.callbacks import SentenceSink
from counterpoise.names.units import times
from counterpoise.picture.action_plans import (
    Action,
    ActionPlan,
    of_moves,
    plan_split,
    plan_transfer,
    plan_unload,
)
from counterpoise.picture.tables import broker_lines, bundle_line
from counterpoise.picture.treemap import TileKind
from counterpoise.pipeline.drive.action_trail import ActionKind, NewAction
from counterpoise.pipeline.drive.drain import BrokerDrain, DrainOptions, DrainRefusedError
from counterpoise.pipeline.drive.snapshot import SnapshotReader
from counterpoise.pipeline.policies import CannotSeeError


class ActionButtons:
    """The buttons for actions on the selected broker or bundle."""

    def __init__(self, session: PageSession, zoom: Callable[[str], None]) -> None:
        self._session = session
        self._confirm = Confirm(session)
        with ui.element("div").classes("bar") as self._for_bundles:
            button("Transfer…", self._transfer, "strong")
            button("Unload…", self._unload)
            button("Split…", self._split)
        with ui.element("div").classes("bar") as self._for_brokers:
            button("Drain…", self._drain, "strong")
            button("Show it alone", lambda: zoom(session.key))

    def show(self) -> None:
        """Show the buttons that apply to the selection."""
        self._for_bundles.set_visibility(self._session.what is TileKind.BUNDLE)
        self._for_brokers.set_visibility(self._session.what is TileKind.BROKER)

    async def _transfer(self) -> None:
        picture, bundle = self._session.picture, self._session.key
        row = picture.view.bundle_index(bundle)
        owner = bundle_line(picture, row).owner if row is not None else ""
        others = [
            each
            for each in reversed(broker_lines(picture))
            if not each.silent and each.broker != owner
        ]
        choices = {each.broker: f"{each.broker}, {times(each.ratio)} the mean" for each in others}
        first = next(iter(choices), "")
        await self._confirm.show(
            plan_transfer(picture, bundle, first),
            self._move,
            choices,
            lambda broker: plan_transfer(self._session.picture, bundle, broker),
            first,
        )

    async def _unload(self) -> None:
        await self._confirm.show(plan_unload(self._session.picture, self._session.key), self._move)

    def _move(self, plan: ActionPlan) -> None:
        session = self._session
        brokers, where = session.picture.view.brokers, session.sources.watch.address
        session.sources.actions.moves(plan, session.operator, brokers, where)

    async def _split(self) -> None:
        session = self._session

        def act(plan: ActionPlan) -> None:
            row = bundle_line(session.picture, session.picture.view.bundle_index(plan.bundle) or 0)
            session.sources.actions.split(
                plan, session.operator, session.sources.watch.address(row.owner)
            )

        await self._confirm.show(plan_split(session.picture, session.key), act)

    async def _drain(self) -> None:
        session, broker = self._session, self._session.key
        title = f"Drain {broker}"
        options = session.sources.options
        rules = options.drain_rules(session.sources.watch.settings)
        made: list[Round] = []

        def drain_with(
            http: aiohttp.ClientSession, log: SentenceSink = lambda sentence: None
        ) -> BrokerDrain:
            reader = SnapshotReader(http, options.watch.addresses, session.sources.clock_ms)
            clock_ms = session.sources.clock_ms
            trail = session.sources.actions.trail
            action = NewAction(trail, ActionKind.DRAIN, session.operator.name, title)
            return BrokerDrain(
                http, reader, broker, rules, clock_ms, log, DrainOptions(partial=True), action
            )

        async with session.operator.session() as http:
            try:
                made.append(await drain_with(http).plan())
            except (DrainRefusedError, CannotSeeError) as error:
                await self._confirm.show(
                    ActionPlan(Action.DRAIN, title, refused=str(error)), lambda _: None
                )
                return
        stuck = [f"{each.subject} can go nowhere: {each.sentence}" for each in made[0].rejections]
        steps = [f"{move.bundle} to {move.destination}: {move.placement}" for move in made[0].moves]
        plan = of_moves(session.picture, Action.DRAIN, title, made[0].moves, [*steps, *stuck])

        def act(confirmed: ActionPlan) -> None:
            session.sources.actions.drain(confirmed, session.operator, drain_with, made[0])

        await self._confirm.show(plan, act)
