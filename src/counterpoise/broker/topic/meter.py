"""Rates from counters that only grow."""

from __future__ import annotations

MIN_SECONDS = 1.0
"""Samples closer together than this are ignored: the rate would be noise."""


class Meter:
    """Messages and bytes that passed, and their rates between the last two samples.

    Before the first sample the rate is the average since the meter was made.
    """

    __slots__ = ("_at", "_sampled", "_sampled_bytes", "byte_rate", "bytes", "messages", "rate")

    def __init__(self, now: float) -> None:
        """``now``: seconds of a monotonic clock, here and in `sample`."""
        self.messages = 0
        self.bytes = 0
        self.rate = 0.0
        self.byte_rate = 0.0
        self._at = now
        self._sampled = 0
        self._sampled_bytes = 0

    def sample(self, now: float) -> None:
        """Recompute the rates per second over the time since the last sample."""
        seconds = now - self._at
        if seconds < MIN_SECONDS:
            return
        self.rate = (self.messages - self._sampled) / seconds
        self.byte_rate = (self.bytes - self._sampled_bytes) / seconds
        self._at, self._sampled, self._sampled_bytes = now, self.messages, self.bytes

    @property
    def average_size(self) -> float:
        """Bytes a message, at the sampled rates; 0 when nothing passed."""
        return self.byte_rate / self.rate if self.rate else 0.0
