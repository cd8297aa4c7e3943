"""What a verb prints while it works."""

from __future__ import annotations

import os
import sys
import time

from counterpoise.names.callbacks import SentenceSink


def say(sentence: str) -> None:
    """One line for a person, at once."""
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


def say_with_time(sentence: str) -> None:
    """The same, with the time of day."""
    say(f"{time.strftime('%H:%M:%S')} {sentence}")


def surviving_closed_output(write: SentenceSink) -> SentenceSink:
    """``write``, for work that goes on though the reader of its output is gone (``… | head``)."""

    def write_or_discard(sentence: str) -> None:
        try:
            write(sentence)
        except BrokenPipeError:
            discard_output()

    return write_or_discard


def discard_output() -> None:
    """Discard all further output: Python would report the closed pipe once more at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
