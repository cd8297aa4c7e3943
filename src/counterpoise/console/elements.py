"""The elements of the page, each usable by keyboard and screen reader."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement


class Text(TextElement):
    """An element that holds text, which is never interpreted as HTML."""

    def __init__(self, tag: str, text: str = "", classes: str = "") -> None:
        super().__init__(tag=tag, text=text)
        if classes:
            self.classes(classes)


def attributes(element: ui.element, **given: str) -> ui.element:
    """Set HTML attributes of an element, and return the element; ``_`` in a name means ``-``."""
    for name, value in given.items():
        element.props[name.replace("_", "-")] = value
    return element


def section(label: str, classes: str = "") -> ui.element:
    """Make an HTML section with this label for screen readers."""
    made = ui.element("section").classes(classes)
    attributes(made, aria_label=label)
    return made


def button(text: str, act: Callable[..., object], kind: str = "plain") -> ui.button:
    """Make a button that calls `act` on a click; `kind` (plain, strong, danger) is its style."""
    return (
        ui.button(text, on_click=act, color=None)
        .props("no-caps unelevated")
        .classes(f"act act-{kind}")
    )


KINDS = {">": "number", ".": "sentence"}
"""The style of a grid's column by the last character of its heading; other columns hold names."""


class Row(NamedTuple):
    """A row of a grid: its key, its cells, and whether to highlight it."""

    key: str
    cells: Sequence[str]
    marked: bool = False


class Grid:
    """A table whose cells change in place, so that a screen reader keeps its position.

    `columns` are headings; those that end with ``>`` hold numbers, with ``.`` sentences. With
    `choose`, the first cell of each row is a button that calls `choose` with the row's key. `empty`
    is shown when there are no rows.
    """

    def __init__(
        self,
        caption: str,
        columns: Sequence[str],
        *,
        choose: Callable[[str], object] | None = None,
        empty: str = "nothing",
    ) -> None:
        self._columns = columns
        self._choose = choose
        self._rows: list[_Line] = []
        with ui.element("div").classes("scroll") as holder:
            attributes(holder, tabindex="0", role="group", aria_label=caption)
            with ui.element("table").classes("grid"):
                Text("caption", caption, "unseen")
                with ui.element("thead"), ui.element("tr"):
                    for name in columns:
                        head = Text("th", name.rstrip(">."), KINDS.get(name[-1], ""))
                        attributes(head, scope="col")
                self._body = ui.element("tbody")
        self._empty = Text("p", empty, "quiet")

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows in place of the former ones."""
        self._empty.set_visibility(not rows)
        while len(self._rows) < len(rows):
            with self._body:
                self._rows.append(_Line(self._columns, self._choose))
        for place, line in enumerate(self._rows):
            line.show(rows[place] if place < len(rows) else None)


class _Line:
    def __init__(self, columns: Sequence[str], choose: Callable[[str], object] | None) -> None:
        self._key = ""
        self._cells: list[TextElement] = []
        with ui.element("tr") as self._line:
            for place, name in enumerate(columns):
                if place == 0:
                    with attributes(ui.element("th"), scope="row"):
                        if choose is None:
                            self._cells.append(Text("span"))
                        else:
                            chosen = Text("button", "", "pick")
                            attributes(chosen, type="button")
                            chosen.on("click", lambda: choose(self._key))
                            self._cells.append(chosen)
                else:
                    self._cells.append(Text("td", "", KINDS.get(name[-1], "")))

    def show(self, row: Row | None) -> None:
        self._line.set_visibility(row is not None)
        if row is None:
            return
        self._key = row.key
        self._line.classes(
            add="marked" if row.marked else "", remove="" if row.marked else "marked"
        )
        for cell, text in zip(self._cells, row.cells, strict=True):
            if cell.text != text:
                cell.text = text


class Lines:
    """A list of sentences on a page, which changes in place."""

    def __init__(self, empty: str, classes: str = "") -> None:
        self._list = ui.element("ul").classes(f"lines {classes}")
        self._items: list[Text] = []
        self._empty = Text("p", empty, "quiet")

    def show(self, sentences: Sequence[str]) -> None:
        """Show these sentences in place of the former ones."""
        self._list.set_visibility(bool(sentences))
        self._empty.set_visibility(not sentences)
        while len(self._items) < len(sentences):
            with self._list:
                self._items.append(Text("li"))
        for place, item in enumerate(self._items):
            text = sentences[place] if place < len(sentences) else ""
            item.set_visibility(bool(text))
            if item.text != text:
                item.text = text
