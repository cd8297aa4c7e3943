"""Faults of a disk that a test asks for: what it does to the groups of entries it is to store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class DiskFaults:
    """What one broker's disk does: it takes no group of entries, or each one so much later."""

    is_full: bool = False
    delay_s: float = 0.0

    @property
    def fails(self) -> bool:
        """Whether it does anything but its work."""
        return self.is_full or self.delay_s > 0
