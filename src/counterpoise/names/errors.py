"""The one error of this room: a text that is not the name it claims to be."""

from __future__ import annotations


class InvalidName(ValueError):
    """A topic, namespace, bundle or broker name that cannot be read.

    ``text`` is what was given; the message says what is wrong with it and what was expected.
    """

    def __init__(self, text: str, problem: str) -> None:
        self.text = text
        super().__init__(f"{text!r}: {problem}")
