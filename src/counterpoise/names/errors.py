"""Errors whose message explains them to a person, and the error of an invalid name."""

SHOWN_MAX = 200
"""The most characters of an invalid name that the error's message repeats."""


class ExplainedError(Exception):
    """An error whose message is a sentence for a person: what, where, why, and what to do.

    The command line prints it without a traceback and exits with status 2.
    """


class InvalidName(ExplainedError, ValueError):
    """A topic, namespace, bundle or broker name that cannot be read.

    ``text`` is what was given; the message says what is wrong with it and what was expected.
    """

    def __init__(self, text: str, problem: str) -> None:
        self.text = text
        shown = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
        super().__init__(f"{shown!r}: {problem}")
