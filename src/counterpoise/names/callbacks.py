"""Functions that many parts are given: clocks, listeners, and where sentences go."""

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


class MillisecondClock(Protocol):
    """Returns the time of the wall clock in milliseconds since 1970."""

    def __call__(self) -> int:
        """Milliseconds since 1970."""


class NanosecondClock(Protocol):
    """A clock that does not go backwards, such as ``time.monotonic_ns``."""

    def __call__(self) -> int:
        """Nanoseconds since some moment."""


class SentenceSink(Protocol):
    """Where sentences for a person go: a log, a terminal, a page."""

    def __call__(self, __sentence: str) -> None:
        """Take one sentence."""
