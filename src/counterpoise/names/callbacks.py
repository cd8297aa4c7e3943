"""Types of callbacks: clocks, listeners, and sinks for sentences."""

from typing import Protocol


class Notify(Protocol):
    """A callback without arguments, such as a listener that is called after each change.

    It is not passed the change: a listener reads the new state itself.
    """

    def __call__(self) -> None:
        """Handle the event or change."""


class StopListening(Protocol):
    """A function that unregisters a listener; it is returned when the listener is registered."""

    def __call__(self) -> None:
        """Unregister the listener."""


class Clock(Protocol):
    """A function that returns the time in seconds, such as ``time.monotonic``."""

    def __call__(self) -> float:
        """Return the seconds since this clock's epoch, which may be any moment."""


class MillisecondClock(Protocol):
    """A function that returns the wall clock's time in milliseconds since 1970."""

    def __call__(self) -> int:
        """Return the milliseconds since 1970."""


class NanosecondClock(Protocol):
    """A function that returns a monotonic time in nanoseconds, such as ``time.monotonic_ns``."""

    def __call__(self) -> int:
        """Return the nanoseconds since this clock's epoch, which may be any moment."""


class SentenceSink(Protocol):
    """A callback that shows a sentence to a person: in a log, on a terminal or on a page."""

    def __call__(self, __sentence: str) -> None:
        """Show one sentence."""
