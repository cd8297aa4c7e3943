"""Parses times from the command line."""

import argparse
import math
from datetime import UTC, datetime

from counterpoise.app.errors import UserError
from counterpoise.pipeline.clock import EVER

FROM_HELP = "only from this time on, such as 2026-11-22 or 2026-11-22T10:30, UTC"
TO_HELP = "up to this time, likewise"
AGO_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def seconds(text: str) -> float:
    """Parse a time such as ``5s``, ``500ms``, ``2m`` or ``5`` (seconds); for argparse."""
    number = text.rstrip("hms")
    try:
        value = float(number) * UNITS[text[len(number) :]]
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time such as 5s, 500ms or 2m"
        ) from None
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of 0 or more")
    return value


def some_time(text: str) -> float:
    """Parse a time above zero, in seconds; for argparse."""
    found = seconds(text)
    if not found:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be more than 0: requests without a pause would overload the cluster"
        )
    return found


def moment_ms(text: str, otherwise: int) -> int:
    """Parse a date and time to ms since 1970, ``otherwise`` for empty text; raises `UserError`."""
    if not text:
        return otherwise
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{text!r} is not a time such as 2026-11-22 or 2026-11-22T10:30") from None
    aware = found if found.tzinfo else found.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def moment_or_ago_ms(text: str, now_ms: int) -> int:
    """Parse a date and time, or a time before now (``-30d``, ``-6h``), to ms since 1970.

    Raises `UserError`.
    """
    if not text.startswith("-"):
        return moment_ms(text, now_ms)
    number, unit = text[1:-1], text[-1:]
    if unit not in AGO_S or not number.replace(".", "", 1).isdecimal():
        raise UserError(f"{text!r} is not a time ago such as -30d, -6h or -90m")
    return max(0, now_ms - round(float(number) * AGO_S[unit] * 1000))


def span_ms(first: str, last: str) -> tuple[int, int]:
    """Parse ``--from`` and ``--to`` to ms since 1970.

    Raises `UserError` if a time is malformed, or the first is not before the last.
    """
    begin, end = moment_ms(first, 0), moment_ms(last, EVER)
    if begin >= end:
        raise UserError(f"--from {first or '1970'} --to {last}: expected an earlier time first")
    return begin, end
