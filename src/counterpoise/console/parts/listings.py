"""Brokers and bundles as tables: the picture for a keyboard and a screen reader."""

from __future__ import annotations

from nicegui import ui

from counterpoise.console.desk import Desk
from counterpoise.console.elements import Grid, Row, Text, button, section
from counterpoise.picture.tables import PAGE_ROWS, broker_rows, bundle_page
from counterpoise.picture.treemap import What
from counterpoise.picture.units import bytes_per_s, counted, messages_per_s, times

BROKER_COLUMNS = (
    *("Broker", "Load>", "Messages>", "\N{DIVISION SIGN} mean>"),
    *("Bundles>", "Topics>", "Most used>", "State"),
)
BUNDLE_COLUMNS = ("Bundle", "Owner", "Load>", "Messages>", "Topics>")


class Brokers:
    """Every broker."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        with section("Brokers"):
            self._grid = Grid(
                "Brokers, the most loaded first",
                BROKER_COLUMNS,
                choose=lambda key: desk.choose(What.BROKER, key),
                empty="No broker has been seen yet.",
            )

    def show(self) -> None:
        """Show what is known now."""
        self._grid.show(
            [
                Row(
                    row.broker,
                    (
                        row.broker,
                        bytes_per_s(row.bytes_per_s),
                        messages_per_s(row.messages_per_s),
                        times(row.ratio),
                        f"{row.bundles:,}",
                        f"{row.topics:,}",
                        f"{row.resource} {row.usage:.0f}%" if row.resource else "unknown",
                        f"silent: {row.silent}" if row.silent else "answers",
                    ),
                    row.broker == self._desk.key,
                )
                for row in broker_rows(self._desk.scene)
            ]
        )


class Bundles:
    """The bundles that are looked for, a page at a time."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._page = 0
        with section("Bundles"):
            self._wanted = (
                ui.input("Find by namespace, range or owner", on_change=self._first)
                .props("dense outlined clearable")
                .classes("find")
            )
            self._grid = Grid(
                "Bundles, the largest first",
                BUNDLE_COLUMNS,
                choose=lambda key: desk.choose(What.BUNDLE, key),
                empty="No bundle is reported by any broker, or none is like that.",
            )
            with ui.element("div").classes("bar"):
                self._back = button("Previous", lambda: self._turn(-1))
                self._told = Text("span", "", "quiet")
                self._on = button("Next", lambda: self._turn(1))

    def show(self) -> None:
        """Show what is known now."""
        found = bundle_page(self._desk.scene, self._wanted.value or "", self._page)
        self._page = found.page
        last = max(0, (found.count - 1) // PAGE_ROWS)
        self._told.text = f"{counted(found.count, 'bundle')}, page {found.page + 1} of {last + 1}"
        self._back.set_enabled(found.page > 0)
        self._on.set_enabled(found.page < last)
        self._grid.show(
            [
                Row(
                    row.bundle,
                    (
                        row.bundle,
                        row.owner or "nobody",
                        bytes_per_s(row.bytes_per_s),
                        messages_per_s(row.messages_per_s),
                        f"{row.topics:,}",
                    ),
                    row.bundle == self._desk.key,
                )
                for row in found.rows
            ]
        )

    def _first(self) -> None:
        self._page = 0
        self.show()

    def _turn(self, by: int) -> None:
        self._page += by
        self.show()
