"""Numbers that a person gives."""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """A whole number from 1 on: who wants none of something, or no limit, leaves the option out."""
    try:
        found = int(text)
    except ValueError:
        found = 0
    if found < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return found
