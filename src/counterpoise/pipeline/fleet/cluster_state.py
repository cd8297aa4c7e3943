"""The state of one cluster of a fleet and of its balancer at one poll."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from counterpoise.pipeline.tables.status import BalancerStatus, LastRound

LATE_AFTER_MS: Final = 60_000
"""A balancer that has saved no poll for so many milliseconds has ended or hangs."""


class BalancerState(StrEnum):
    """Whether a cluster's balancer runs, is paused, or has stopped polling, by its history."""

    NONE = "no history named"
    UNREADABLE = "history cannot be read"
    UNSEEN = "has not looked yet"
    LATE = "not looking"
    HELD = "held"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class PolledCluster:
    """What the brokers of one cluster reported at one poll, summed up."""

    brokers: int
    """How many brokers reported their load."""
    silent: Mapping[str, str]
    """Brokers that did not answer, and why."""
    imbalance: float
    """The largest broker's bytes/s ÷ the mean - 1."""
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The state of one cluster of a fleet; what could not be read is missing."""

    name: str
    at_ms: int = 0
    """When it was polled last, in milliseconds since 1970; 0: not yet."""
    service_url: str = ""
    console: str = ""
    """The address of the cluster's own console."""
    polled: PolledCluster | None = None
    unreachable: str = ""
    """Why no broker reported its load; empty if one did."""
    status: BalancerStatus | None = None
    unreadable: str = ""
    """Why the history could not be read; empty if it could."""
    has_history: bool = field(default=True)

    @property
    def balancer(self) -> BalancerState:
        """The state of the cluster's balancer."""
        if not self.has_history:
            return BalancerState.NONE
        if self.status is None:
            return BalancerState.UNREADABLE if self.unreadable else BalancerState.UNSEEN
        if self.status.poll is None:
            return BalancerState.UNSEEN
        if self.status.now_ms - self.status.poll.at > LATE_AFTER_MS:
            return BalancerState.LATE
        return BalancerState.HELD if self.status.in_force else BalancerState.RUNNING

    @property
    def last_round(self) -> LastRound | None:
        """The balancer's last round of decisions; None if unknown."""
        return self.status.round if self.status else None

    @property
    def imbalance(self) -> float | None:
        """Largest broker's bytes/s ÷ mean - 1, reported or of the last round; None if unknown."""
        if self.polled is not None:
            return self.polled.imbalance
        return self.last_round.imbalance if self.last_round else None

    @property
    def findings(self) -> tuple[str, ...]:
        """Sentences on what needs an operator's attention.

        The watchdog, which compares several polls, finds more and sends notices of its own.
        """
        if not self.at_ms:
            return ()
        found = [self.unreachable] if self.unreachable else []
        found += [f"no load report from {b}: {why}" for b, why in self._silent.items()]
        if self.balancer is BalancerState.UNREADABLE:
            found.append(self.unreadable)
        if self.balancer is BalancerState.LATE:
            found.append("the balancer has kept no look at the cluster for more than a minute")
        if self.status is not None:
            if self.status.in_force:
                found.append(self.status.in_force)
            found += [f"failed {bundle}: {error}" for bundle, error in self.status.failures]
        return tuple(one_line(each) for each in found)

    @property
    def _silent(self) -> Mapping[str, str]:
        return self.polled.silent if self.polled else {}

    def line(self) -> str:
        """A summary of the cluster in one line."""
        parts = [f"balancer: {self.balancer.value}"]
        if self.polled is not None:
            parts.append(f"{self.polled.brokers} brokers")
        if self.imbalance is not None:
            parts.append(f"imbalance {self.imbalance:.2f}")
        if (made := self.last_round) is not None and self.status is not None:
            ago_s = max(0, self.status.now_ms - made.at) // 1000
            parts.append(f"last round {ago_s} s ago: {made.moves} moves by {made.strategy}")
        if self.findings:
            parts.append(f"{len(self.findings)} to look at: " + " | ".join(self.findings))
        return f"{self.name}: " + ", ".join(parts)

    def to_json(self) -> dict[str, object]:
        """The state as a JSON object."""
        return {
            "cluster": self.name,
            "at": self.at_ms,
            "serviceUrl": self.service_url,
            "console": self.console,
            "reachable": self.polled is not None,
            "balancer": self.balancer.name.lower(),
            "imbalance": self.imbalance,
            "findings": list(self.findings),
            "status": self.status.to_json() if self.status else None,
        }

    def figures(self) -> dict[str, float]:
        """The values of those metrics in `FIGURES` that are known."""
        found = {
            "reachable": float(self.polled is not None),
            "findings": float(len(self.findings)),
            "balancer_running": float(self.balancer is BalancerState.RUNNING),
        }
        if self.polled is not None:
            found |= {"brokers": self.polled.brokers, "silent_brokers": len(self.polled.silent)}
            found |= {"bytes_per_second": self.polled.bytes_per_s}
        if self.imbalance is not None:
            found["imbalance"] = self.imbalance
        if self.last_round is not None:
            found["last_round_timestamp_seconds"] = self.last_round.at / 1000
        return found


FIGURES: Final[Mapping[str, str]] = {
    "reachable": "1 while a broker of the cluster gives its load.",
    "brokers": "Brokers that reported their load.",
    "silent_brokers": "Brokers that did not.",
    "imbalance": "Largest broker's bytes/s by their mean, less 1.",
    "bytes_per_second": "What all brokers carry.",
    "balancer_running": "1 while the balancer looks at the cluster and is not held.",
    "last_round_timestamp_seconds": "When the balancer decided last.",
    "findings": "What needs an operator.",
}
"""The metrics of a cluster, each with its help text."""


def one_line(text: str) -> str:
    """Another program's text without line breaks and control characters."""
    return "".join(each if each.isprintable() else " " for each in " ".join(text.split()))
