"""The dialog before an action: its plan, its operator, and whether the cluster permits it."""

from collections.abc import Callable

from nicegui import ui

from counterpoise.console.actions import BusyError
from counterpoise.console.elements import Grid, Lines, Row, Text, attributes, button
from counterpoise.console.page_session import PageSession
from counterpoise.console.roles import Standing, standing
from counterpoise.names.units import bytes_text, times
from counterpoise.picture.action_plans import ActionPlan

Act = Callable[[ActionPlan], object]
"""Carries out the plan that was confirmed; may raise `BusyError`."""
Choices = dict[str, str]
"""Brokers to choose from: the text to show for each, by broker id."""
SHEDS = (
    "the cluster sheds load by itself (loadBalancerSheddingEnabled), and may move again what is "
    "moved here"
)


class Confirm:
    """The dialog that shows an action's plan and carries it out when it is confirmed."""

    def __init__(self, session: PageSession) -> None:
        self._session = session
        self._plan: ActionPlan | None = None
        self._act: Act | None = None
        self._remake: Callable[[str], ActionPlan] | None = None
        self._standing: Standing | None = None
        with ui.dialog() as self._dialog, ui.element("div").classes("card plan") as card:
            attributes(self._dialog, aria_labelledby="plan-title")
            self._title = Text("h2")
            attributes(self._title, id="plan-title")
            attributes(card, role="document")
            self._who = Text("p", "", "who")
            attributes(self._who, role="status")
            self._choice = (
                ui.select({}, label="To which broker", on_change=self._rechoose)
                .props("outlined dense options-dense")
                .classes("measure")
            )
            self._refused = Text("p", "", "refused")
            attributes(self._refused, role="alert")
            Text("h3", "What happens")
            self._steps = Lines("Nothing.")
            self._effects = Grid(
                "What brokers carry, before and after",
                ("Broker", "Now>", "Then>", "\N{DIVISION SIGN} mean now>", "Then >"),
                empty="Which broker carries it then is not known.",
            )
            self._even = Text("p", "", "quiet")
            self._warnings = Lines("", "warnings")
            with ui.element("div").classes("bar end"):
                button("Cancel", self._dialog.close)
                self._do = button("Carry it out", self._carry_out, "strong")

    async def show(
        self,
        plan: ActionPlan,
        act: Act,
        choices: Choices | None = None,
        remake: Callable[[str], ActionPlan] | None = None,
        chosen: str = "",
    ) -> None:
        """Show a plan, and call ``act`` once it is confirmed.

        With ``choices`` the operator may choose another broker than ``chosen``, for which
        ``remake`` makes the plan.
        """
        self._act, self._remake = act, None
        self._choice.set_visibility(bool(choices))
        if choices:
            self._choice.set_options(choices, value=chosen)
        self._remake = remake
        self._standing = None
        self._fill(plan)
        self._dialog.open()
        session = self._session
        addresses = [*session.sources.options.watch.addresses]
        addresses += map(session.sources.watch.address, session.picture.view.brokers)
        self._standing = await standing(session.operator, addresses)
        if self._plan is not None:
            self._fill(self._plan)

    def _fill(self, plan: ActionPlan) -> None:
        self._plan = plan
        known = self._standing
        self._title.text = plan.title
        self._who.text = known.sentence if known else f"asking whether {self._name} may …"
        self._who.classes(
            add="not-allowed" if known and known.may is False else "",
            remove="" if known and known.may is False else "not-allowed",
        )
        self._refused.text = plan.refused
        self._refused.set_visibility(bool(plan.refused))
        self._steps.show(plan.steps)
        self._effects.show(
            [
                Row(
                    each.broker,
                    (
                        each.broker,
                        bytes_text(each.before),
                        bytes_text(each.after),
                        times(each.ratio_before),
                        times(each.ratio_after),
                    ),
                )
                for each in plan.effects
            ]
        )
        even = plan.imbalance
        self._even.text = (
            f"Largest broker: {1 + even[0]:.2f} times the mean now, {1 + even[1]:.2f} then."
            if even
            else ""
        )
        sheds = [SHEDS] if self._session.sources.watch.sheds else []
        self._warnings.show([*plan.warnings, *sheds])
        allowed = known is not None and known.may is not False
        self._do.set_enabled(allowed and not plan.refused)

    @property
    def _name(self) -> str:
        return self._session.operator.name

    def _rechoose(self) -> None:
        if self._remake is not None and self._choice.value:
            self._fill(self._remake(self._choice.value))

    def _carry_out(self) -> None:
        plan, act = self._plan, self._act
        if plan is None or act is None or plan.refused:
            return
        if self._standing is None or self._standing.may is False:
            return  # the button is disabled; a browser may still send a click
        self._plan = None
        self._dialog.close()
        try:
            act(plan)
        except BusyError as error:
            self._session.announce(str(error))
        else:
            self._session.announce(f"{plan.title}: begun")
