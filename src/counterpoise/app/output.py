"""Prints progress and results of verbs."""

from __future__ import annotations

import os
import sys
import time

from counterpoise.names.callbacks import SentenceSink


def say(sentence: str) -> None:
    """Print one line at once."""
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


def say_with_time(sentence: str) -> None:
    """The same, with the time of day."""
    say(f"{time.strftime('%H:%M:%S')} {sentence}")


def surviving_closed_output(write: SentenceSink) -> SentenceSink:
    """``write``, for work that continues when the reader of its output is gone (``… | head``)."""

    def write_or_discard(sentence: str) -> None:
        try:
            write(sentence)
        except BrokenPipeError:
            discard_output()

    return write_or_discard


def discard_output() -> None:
    """Discard all further output: Python would report the closed pipe again at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
