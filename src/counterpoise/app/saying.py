"""What a verb says while it works."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable


def say(sentence: str) -> None:
    """One line for a person, at once."""
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


def tell(sentence: str) -> None:
    """The same, with the time of day."""
    say(f"{time.strftime('%H:%M:%S')} {sentence}")


def though_nobody_reads(tells: Callable[[str], None]) -> Callable[[str], None]:
    """``tells``, for work that has to come to its end though its reader is gone (``… | head``)."""

    def tell_on(sentence: str) -> None:
        try:
            tells(sentence)
        except BrokenPipeError:
            talk_to_nobody()

    return tell_on


def talk_to_nobody() -> None:
    """Write what is still to be said nowhere: Python would complain once more at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
