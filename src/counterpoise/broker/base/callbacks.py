"""Callbacks that many parts of a broker take."""

from __future__ import annotations

from typing import Protocol


class Notify(Protocol):
    """Called when something has happened; the listener finds out what."""

    def __call__(self) -> None:
        """Take note."""


class StopListening(Protocol):
    """Ends a subscription to notifications."""

    def __call__(self) -> None:
        """Notify no more."""


class Clock(Protocol):
    """A clock."""

    def __call__(self) -> float:
        """Seconds since some moment."""
