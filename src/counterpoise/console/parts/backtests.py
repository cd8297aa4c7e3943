"""The results of backtests, as a plot of what each strategy moves and gains, and as a table."""

from nicegui import ui

from counterpoise.console.elements import Grid, Row, Text, attributes, section
from counterpoise.console.page_session import PageSession
from counterpoise.picture.charts import trade_options

HOW = (
    "Results come from files that the console was started with (--backtests FILE), as "
    "'counterpoise backtest … --json > FILE' writes them."
)


class Backtests:
    """The section with the results of backtests, one file at a time."""

    def __init__(self, session: PageSession) -> None:
        self._session = session
        self._shown: object = None
        with section("Backtests"):
            Text("p", HOW, "quiet")
            self._choice = (
                ui.select({}, on_change=self.show)
                .props('dense outlined options-dense aria-label="Which backtest"')
                .classes("measure")
            )
            with ui.element("div") as self._picture:
                attributes(self._picture, role="img")
                self._chart = ui.echart(trade_options(()), renderer="svg").classes("plot")
            self._grid = Grid(
                "Strategies, the best trades marked",
                (
                    "Strategy",
                    "Largest \N{DIVISION SIGN} mean>",
                    "Load moved>",
                    "Moves>",
                    "Moved again within an hour>",
                    "Best trade",
                ),
                empty="There is no backtest to show.",
            )

    def show(self) -> None:
        """Show the results of the chosen file."""
        tests = dict(self._session.sources.trades())
        chosen = self._choice.value if self._choice.value in tests else next(iter(tests), None)
        if list(self._choice.options) != list(tests):
            self._choice.set_options({name: name for name in tests}, value=chosen)
        self._choice.set_visibility(len(tests) > 1)
        self._picture.set_visibility(bool(tests))
        trades = tests.get(chosen or "", ())
        if (chosen, trades) == self._shown:
            return
        self._shown = (chosen, trades)
        self._chart.options.clear()
        self._chart.options.update(trade_options(trades))
        self._chart.update()
        attributes(self._picture, aria_label=" ".join(f"{each.sentence}." for each in trades))
        self._grid.show(
            [
                Row(
                    each.label,
                    (
                        each.label,
                        f"{each.imbalance:.3f}",
                        f"{each.moved:.2f} times",
                        f"{each.moves:,}",
                        f"{each.thrash:,}",
                        "yes" if each.best else "",
                    ),
                    each.best,
                )
                for each in trades
            ]
        )
