"""Parses numbers from the command line."""

import argparse
import math

from counterpoise.app.errors import UserError


def count(text: str) -> int:
    """Parse a whole number from 1 on; for argparse."""
    try:
        found = int(text)
    except ValueError:
        found = 0
    if found < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return found


def surplus(text: str) -> int:
    """Parse a number of additional brokers, such as ``+2``, to 2; for argparse."""
    if not text.startswith("+"):
        raise argparse.ArgumentTypeError(f"{text!r} is not how many more, such as +2")
    return count(text[1:])


def factor(text: str) -> float:
    """Parse ``x1.5`` or ``1.5``, a number above 0; for argparse."""
    try:
        found = float(text.removeprefix("x"))
    except ValueError:
        found = 0.0
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a factor above 0, such as x1.5")
    return found


def latency_factor(text: str) -> float:
    """Parse ``x2``, a factor above 1, or 0 for no limit; for argparse."""
    found = 0.0 if text == "0" else factor(text)
    if 0 < found <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not above x1, such as x2, and not 0")
    return found


def named_factor(text: str) -> tuple[str, float]:
    """Parse ``NAME=0.5`` into the name and the number; for argparse."""
    name, value = _named(text, "0.5")
    return name, factor(value)


def named_count(text: str) -> tuple[str, int]:
    """Parse ``NAME=32`` into the name and the number; for argparse."""
    name, value = _named(text, "32")
    return name, count(value)


def _named(text: str, example: str) -> tuple[str, str]:
    name, mark, value = text.rpartition("=")
    if not mark or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME={example}")
    return name, value


def expect_move_seconds(given: float | None) -> None:
    """Raise `UserError` for an invalid ``--move-seconds``."""
    if given is not None and not 0 <= given < math.inf:
        raise UserError(f"--move-seconds {given:g}: expected seconds, 0 or more")
