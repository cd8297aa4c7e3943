"""Numbers that a person gives."""

from __future__ import annotations

import argparse
import math

from counterpoise.app.errors import UserError


def count(text: str) -> int:
    """A whole number from 1 on: who wants none of something, or no limit, leaves the option out."""
    try:
        found = int(text)
    except ValueError:
        found = 0
    if found < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return found


def expect_move_seconds(given: float | None) -> None:
    """Raise `UserError` for what ``--move-seconds`` cannot be."""
    if given is not None and not 0 <= given < math.inf:
        raise UserError(f"--move-seconds {given:g}: expected seconds, 0 or more")
