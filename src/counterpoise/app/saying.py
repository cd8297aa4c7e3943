"""What a verb says while it works."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable


def tell(sentence: str) -> None:
    """One line for a person, with the time of day."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {sentence}\n")
    sys.stdout.flush()


def though_nobody_reads(say: Callable[[str], None]) -> Callable[[str], None]:
    """``say``, for work that has to come to its end though its reader is gone (``… | head``)."""

    def say_on(sentence: str) -> None:
        try:
            say(sentence)
        except BrokenPipeError:
            talk_to_nobody()

    return say_on


def talk_to_nobody() -> None:
    """Write what is still to be said nowhere: Python would complain once more at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
