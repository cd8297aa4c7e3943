"""The counters of one transaction coordinator, since it was opened here."""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

LATENCIES_MS: Final = (
    10,
    20,
    50,
    100,
    500,
    1000,
    5000,
    15_000,
    30_000,
    60_000,
    300_000,
    1_500_000,
    3_000_000,
)
"""Upper bounds of the histogram's buckets of durations, as in Pulsar's metrics; longer durations
have a bucket of their own."""


@dataclass(slots=True)
class CoordinatorFigures:
    """A coordinator's counts of transactions and records; times are milliseconds since 1970."""

    recovery_began_ms: int = 0
    """When the coordinator began to read its log."""
    recovery_ended_ms: int = 0
    created: int = 0
    committed: int = 0
    """Transactions that are committed on all their participants."""
    aborted: int = 0
    """Transactions that are aborted on all their participants, those that timed out included."""
    timed_out: int = 0
    records: int = 0
    """Records appended to the coordinator's log."""
    durations: list[int] = field(default_factory=lambda: [0] * (len(LATENCIES_MS) + 1))
    """Committed transactions by how long they were open, for each bucket of `LATENCIES_MS`."""

    def ended(self, took_ms: int, *, commit: bool) -> None:
        """Count a transaction that has ended everywhere, ``took_ms`` after it was opened."""
        if not commit:
            self.aborted += 1
            return
        self.committed += 1
        self.durations[bisect_left(LATENCIES_MS, took_ms)] += 1
