"""Disk faults that a test injects: failures and delays of writes."""

from dataclasses import dataclass


@dataclass(slots=True)
class DiskFaults:
    """The faults that a test set for one broker's disk: it refuses writes, or delays them."""

    is_full: bool = False
    delay_s: float = 0.0

    @property
    def fails(self) -> bool:
        """Whether any fault is set."""
        return self.is_full or self.delay_s > 0
