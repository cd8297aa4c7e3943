"""Types of functions that many parts are given: clocks, listeners, and sinks of sentences."""

from typing import Protocol


class Notify(Protocol):
    """A callback without arguments: something has changed, and the listener reads it again."""

    def __call__(self) -> None:
        """Called after a change."""


class StopListening(Protocol):
    """A function that ends a subscription to notifications."""

    def __call__(self) -> None:
        """End the subscription."""


class Clock(Protocol):
    """A function that returns a clock's time in seconds."""

    def __call__(self) -> float:
        """Seconds since some moment."""


class MillisecondClock(Protocol):
    """A function that returns the wall clock's time in milliseconds since 1970."""

    def __call__(self) -> int:
        """Milliseconds since 1970."""


class NanosecondClock(Protocol):
    """A function that returns nanoseconds and never goes back, such as ``time.monotonic_ns``."""

    def __call__(self) -> int:
        """Nanoseconds since some moment."""


class SentenceSink(Protocol):
    """A callback that receives sentences for a person, to write to a log, a terminal or a page."""

    def __call__(self, __sentence: str) -> None:
        """Write one sentence."""
