"""Prints text safely: for a terminal (control characters), and for a pipe that was closed."""

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Final, TextIO, cast

from counterpoise.names.callbacks import SentenceSink

_COMMANDS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Terminal control characters, and those that change the direction of text."""


class PlainOutput:
    """A text stream that replaces terminal control characters by ``?``.

    Names that come from a cluster may contain them.
    """

    def __init__(self, commanded: TextIO) -> None:
        self.commanded = commanded
        """The stream that this one wraps, for this program's own control sequences."""

    def write(self, text: str) -> int:
        """Write a text with ``?`` in place of terminal control characters."""
        return self.commanded.write(_COMMANDS.sub("?", text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts with ``?`` in place of terminal control characters."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.commanded, name)


@contextlib.contextmanager
def plain_output() -> Iterator[None]:
    """Replace terminal control characters by ``?`` in everything printed during the block."""
    with (
        contextlib.redirect_stdout(cast("TextIO", PlainOutput(sys.stdout))),
        contextlib.redirect_stderr(cast("TextIO", PlainOutput(sys.stderr))),
    ):
        yield


def commanded(stream: TextIO) -> TextIO:
    """Return the stream that a `PlainOutput` wraps, to write control sequences to the terminal."""
    return stream.commanded if isinstance(stream, PlainOutput) else stream


def one_line(text: str) -> str:
    """Join a text's lines by spaces, so that a name in it cannot imitate a line of output."""
    return " ".join(text.splitlines())


def say(sentence: str) -> None:
    """Print one line and flush it."""
    sys.stdout.write(f"{one_line(sentence)}\n")
    sys.stdout.flush()


def say_with_time(sentence: str) -> None:
    """Print one line with the time of day in front, and flush it."""
    say(f"{time.strftime('%H:%M:%S')} {sentence}")


def surviving_closed_output(write: SentenceSink) -> SentenceSink:
    """Wrap ``write`` so that it raises no error after the pipe's reader has ended (``… | head``).

    From then on all output is discarded.
    """

    def write_or_discard(sentence: str) -> None:
        try:
            write(sentence)
        except BrokenPipeError:
            discard_output()

    return write_or_discard


def discard_output() -> None:
    """Discard all further standard output, for use after its reader has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
