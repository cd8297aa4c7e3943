"""The one error of this room: a text that is not the name it claims to be."""

from __future__ import annotations

SHOWN_MAX = 200
"""Characters of a wrong name that its message repeats."""


class InvalidName(ValueError):
    """A topic, namespace, bundle or broker name that cannot be read.

    ``text`` is what was given; the message says what is wrong with it and what was expected.
    """

    def __init__(self, text: str, problem: str) -> None:
        self.text = text
        shown = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
        super().__init__(f"{shown!r}: {problem}")
