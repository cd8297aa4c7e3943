"""Times that a person names."""

from __future__ import annotations

import argparse

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def seconds(text: str) -> float:
    """A time such as ``5s``, ``500ms``, ``2m`` or ``5`` (seconds)."""
    number = text.rstrip("hms")
    try:
        value = float(number) * UNITS[text[len(number) :]]
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time such as 5s, 500ms or 2m"
        ) from None
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is less than no time")
    return value
