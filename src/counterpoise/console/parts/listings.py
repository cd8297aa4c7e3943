"""Searchable tables of brokers and bundles, which keyboards and screen readers can use."""

from collections.abc import Sequence

from nicegui import ui

from counterpoise.console.elements import Grid, Row, Text, button, section
from counterpoise.console.page_session import PageSession
from counterpoise.names.units import bytes_text, counted, messages_text, times
from counterpoise.picture.tables import PAGE_ROWS, ListedPage, broker_page, bundle_page
from counterpoise.picture.treemap import TileKind

BROKER_COLUMNS = (
    "Broker",
    "Load>",
    "Messages>",
    "\N{DIVISION SIGN} mean>",
    "Bundles>",
    "Topics>",
    "Most used>",
    "State",
)
BUNDLE_COLUMNS = ("Bundle", "Owner", "Load>", "Messages>", "Topics>")


class Listing:
    """A searchable table that shows one page of rows, since many rows slow the browser down."""

    what: TileKind
    title: str
    find: str
    caption: str
    columns: Sequence[str]
    empty: str

    def __init__(self, session: PageSession) -> None:
        self._session = session
        self._page = 0
        with section(self.title):
            self._search = (
                ui.input(self.find, on_change=self._first)
                .props("dense outlined clearable")
                .classes("find")
            )
            self._grid = Grid(
                self.caption,
                self.columns,
                choose=lambda key: session.choose(self.what, key),
                empty=self.empty,
            )
            with ui.element("div").classes("bar turns"):
                self._previous = button("Previous", lambda: self._turn(-1))
                self._note = Text("span", "", "quiet")
                self._next = button("Next", lambda: self._turn(1))

    def show(self) -> None:
        """Show the rows of the latest poll."""
        found = self.look(self._search.value or "", self._page)
        self._page = found.page
        last = max(0, (found.count - 1) // PAGE_ROWS)
        count = counted(found.count, self.what.value)
        self._note.text = f"{count}, page {found.page + 1} of {last + 1}" if last else count
        for turn, possible in ((self._previous, found.page > 0), (self._next, found.page < last)):
            turn.set_visibility(last > 0)
            turn.set_enabled(possible)
        self._grid.show(found.rows)

    def look(self, search: str, page: int) -> ListedPage[Row]:
        """Return page ``page`` (from 0) of the rows that contain the words of ``search``."""
        raise NotImplementedError

    def _first(self) -> None:
        self._page = 0
        self.show()

    def _turn(self, by: int) -> None:
        self._page += by
        self.show()


class Brokers(Listing):
    """The searchable table of brokers."""

    what = TileKind.BROKER
    title = "Brokers"
    find = "Find by address, or silent"
    caption = "Brokers, the most loaded first"
    columns = BROKER_COLUMNS
    empty = "No broker has been seen, or none is like that."

    def look(self, search: str, page: int) -> ListedPage[Row]:
        """Return page ``page`` (from 0) of the brokers that contain the words of ``search``."""
        found = broker_page(self._session.picture, search, page)
        rows = [
            Row(
                row.broker,
                (
                    row.broker,
                    bytes_text(row.bytes_per_s),
                    messages_text(row.messages_per_s),
                    times(row.ratio),
                    f"{row.bundles:,}",
                    f"{row.topics:,}",
                    f"{row.resource} {row.usage:.0f}%" if row.resource else "unknown",
                    f"silent: {row.silent}" if row.silent else "answers",
                ),
                row.broker == self._session.key,
            )
            for row in found.rows
        ]
        return ListedPage(tuple(rows), found.count, found.page)


class Bundles(Listing):
    """The searchable table of bundles."""

    what = TileKind.BUNDLE
    title = "Bundles"
    find = "Find by namespace, range or owner"
    caption = "Bundles, the largest first"
    columns = BUNDLE_COLUMNS
    empty = "No bundle is reported by any broker, or none is like that."

    def look(self, search: str, page: int) -> ListedPage[Row]:
        """Return page ``page`` (from 0) of the bundles that contain the words of ``search``."""
        found = bundle_page(self._session.picture, search, page)
        rows = [
            Row(
                row.bundle,
                (
                    row.bundle,
                    row.owner or "none",
                    bytes_text(row.bytes_per_s),
                    messages_text(row.messages_per_s),
                    f"{row.topics:,}",
                ),
                row.bundle == self._session.key,
            )
            for row in found.rows
        ]
        return ListedPage(tuple(rows), found.count, found.page)
