"""Rates from counters that only grow, at no cost for idle topics."""

from typing import Final

from counterpoise.names.callbacks import Clock

MIN_SECONDS: Final = 1.0
"""The shortest time a rate is computed over: over less, a new topic's first messages would make a
rate of thousands."""


class RateClock:
    """The time windows over which all rates of one broker are computed.

    A window ends when the broker calls `turn`, every ``statsUpdateFrequencyInSecs``. Each meter
    notices the new window when it next counts or is read, so idle topics cost nothing, however many
    there are.
    """

    __slots__ = ("began", "former_began", "now", "window")

    def __init__(self, now: Clock) -> None:
        """``now``: seconds of a monotonic clock."""
        self.now = now
        self.window = 0
        self.began = self.former_began = now()

    def turn(self) -> None:
        """End the current window and start the next."""
        self.window += 1
        self.former_began, self.began = self.began, self.now()


class Meter:
    """Counts messages and bytes, and computes their rates per second.

    A rate is the mean over the last window and the current one. So it is correct from the first
    seconds, steady, and 0 two windows after the last message. Pulsar shows only the last window,
    which is empty at first.
    """

    __slots__ = (
        "_began",
        "_began_bytes",
        "_former",
        "_former_bytes",
        "_made",
        "_window",
        "bytes",
        "clock",
        "messages",
    )

    def __init__(self, clock: RateClock) -> None:
        self.messages = 0
        self.bytes = 0
        self.clock = clock
        self._made = clock.now()
        self._window = clock.window
        # What had been counted when the current window began, and when the one before it did.
        self._began = self._began_bytes = 0
        self._former = self._former_bytes = 0

    def count(self, messages: int, size: int) -> None:
        """Count messages and their total bytes."""
        if self._window != self.clock.window:
            self._catch_up()
        self.messages += messages
        self.bytes += size

    def _catch_up(self) -> None:
        """Start the clock's current window, if the counts are of an earlier one."""
        window = self.clock.window
        missed = window - self._window > 1
        self._former = self.messages if missed else self._began
        self._former_bytes = self.bytes if missed else self._began_bytes
        self._began, self._began_bytes = self.messages, self.bytes
        self._window = window

    @property
    def rate(self) -> float:
        """Messages/s over the last window and the current one."""
        if self._window != self.clock.window:
            self._catch_up()
        return (self.messages - self._former) / self._seconds()

    @property
    def byte_rate(self) -> float:
        """Bytes/s over the last window and the current one."""
        if self._window != self.clock.window:
            self._catch_up()
        return (self.bytes - self._former_bytes) / self._seconds()

    def _seconds(self) -> float:
        """The seconds of the last and current windows during which this meter existed."""
        clock = self.clock
        return max(clock.now() - max(clock.former_began, self._made), MIN_SECONDS)

    @property
    def average_size(self) -> float:
        """Bytes per message at the current rates; 0 without messages."""
        if self._window != self.clock.window:
            self._catch_up()
        messages = self.messages - self._former
        return (self.bytes - self._former_bytes) / messages if messages else 0.0


class DeliveryMeters:
    """Three meters: of messages sent, of messages redelivered, and of acknowledgements."""

    __slots__ = ("acked", "out", "redelivered")

    def __init__(self, clock: RateClock) -> None:
        self.out = Meter(clock)
        self.redelivered = Meter(clock)
        self.acked = Meter(clock)
