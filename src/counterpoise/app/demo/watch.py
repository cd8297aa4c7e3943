"""Collects what the demo shows: each broker's load, and the balancer's decisions and moves."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from counterpoise.app.demo.admin import AdminError, load_report
from counterpoise.app.demo.plan import NAMESPACE
from counterpoise.decide.balancing.moves import imbalance
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.journal import Journal
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.schema import JournalKind

SMOOTHED_OVER = 3
"""The number of samples whose mean is shown as the imbalance."""
RAMP_S = 3.0
"""Seconds after which the load has its full rate; earlier samples do not count."""
_LOGGED = re.compile(r"\d\d:\d\d:\d\d |counterpoise: ")
_SHOWN_ALREADY = re.compile(r"\d\d:\d\d:\d\d (decided|moved) ")


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one broker at one moment."""

    throughput: float
    """Bytes/s in and out."""
    usage: float
    """The use of the network, in or out, whichever is higher, as a fraction of its capacity."""
    bundles: int
    """The number of its bundles of the demonstration's namespace."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The loads of all brokers at one moment."""

    at_s: float
    """Seconds since the load began."""
    loads: Mapping[str, Load]
    """The load of each broker, by the broker's id."""

    @property
    def imbalance(self) -> float:
        """The largest broker's bytes/s ÷ the mean of all brokers - 1."""
        return imbalance([load.throughput for load in self.loads.values()])


@dataclass
class DemoRecord:
    """What the demo has measured and read since its load began: loads, decisions, outcomes."""

    began_s: float
    """When the load began, by `time.monotonic`."""
    moments: list[Moment] = field(default_factory=list)
    decisions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The balancer's decisions by move id, as rows of its journal."""
    outcomes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The outcomes of moves by move id, as rows of the journal."""
    moved_at_s: dict[str, float] = field(default_factory=dict)
    """By move id, when each move that was carried out ended, in seconds since the load began."""
    decided_at_s: float = 0.0
    """When the balancer's last decision was seen, in seconds since the load began."""
    first_round_s: float | None = None
    """When the balancer's first round was seen, in seconds since the load began, even if it moved
    nothing; None before."""

    newest_round: int = 0
    """The poll id of the balancer's latest round; 0 before the first."""

    @property
    def is_content(self) -> bool:
        """Whether the balancer's latest round decided to move nothing."""
        decided = (int(row["poll_id"]) for row in self.decisions.values())
        return self.newest_round > max(decided, default=0)

    @property
    def moves(self) -> int:
        """The number of bundles whose new owner was verified."""
        return sum(1 for outcome in self.outcomes.values() if outcome["status"] == "moved")

    @property
    def before(self) -> float:
        """The median imbalance (largest broker ÷ mean - 1) at full load before the first move."""
        first = min(self.moved_at_s.values(), default=float("inf"))
        values = [value for at, value in self._smooth() if RAMP_S <= at <= first]
        return median(values) if values else 0.0

    @property
    def now(self) -> float:
        """The latest imbalance (largest broker ÷ mean - 1), the mean of a few samples."""
        smooth = self._smooth()
        return smooth[-1][1] if smooth else 0.0

    def _smooth(self) -> list[tuple[float, float]]:
        """Return the imbalance over time, (seconds, imbalance), each the mean of a few samples."""
        values = [moment.imbalance for moment in self.moments]
        return [
            (self.moments[end - 1].at_s, sum(values[end - SMOOTHED_OVER : end]) / SMOOTHED_OVER)
            for end in range(SMOOTHED_OVER, len(values) + 1)
        ]


@dataclass(frozen=True, slots=True)
class News:
    """What has happened since the last sample: decisions, outcomes, log lines."""

    decisions: list[Mapping[str, Any]]
    outcomes: list[Mapping[str, Any]]
    log_lines: list[str]
    """Lines of the balancer's log."""


class DemoWatcher:
    """Measures the demo's cluster on request, and reads what is new in the balancer's history."""

    def __init__(self, brokers: Sequence[str], history: Path) -> None:
        self._brokers = brokers
        self._history = history
        self._journal = Journal(TablesReader(open_location(history)))
        self._log_read = 0
        self.record = DemoRecord(time.monotonic())

    def sample(self) -> News:
        """Measure the cluster once, and return what is new since the last call."""
        record = self.record
        now = time.monotonic() - record.began_s
        loads = {}
        for broker in self._brokers:
            try:
                loads[broker] = _load(broker)
            except AdminError:
                continue
        if len(loads) == len(self._brokers):
            record.moments.append(Moment(now, loads))
        newest = self._journal.newest_round()  # read before the decisions, so none is missed
        decisions = self._new(JournalKind.DECISION, record.decisions)
        outcomes = self._new(JournalKind.OUTCOME, record.outcomes)
        if decisions:
            record.decided_at_s = now
        wall = time.time() - now
        for outcome in outcomes:
            if outcome["carried_out"]:
                record.moved_at_s[outcome["id"]] = outcome["ended_at_ms"] / 1000 - wall
        record.newest_round = newest
        if record.first_round_s is None and newest:
            record.first_round_s = now
        return News(decisions, outcomes, self._new_log_lines())

    def _new_log_lines(self) -> list[str]:
        """Read the new lines of the balancer's log, except those about decisions and moves."""
        try:
            with (self._history / "balancer.log").open(encoding="utf-8") as log:
                log.seek(self._log_read)
                lines = log.readlines()
                if lines and not lines[-1].endswith("\n"):
                    lines.pop()
                self._log_read += sum(len(line.encode()) for line in lines)
        except FileNotFoundError:
            return []
        return [
            line.rstrip()
            for line in lines
            if _LOGGED.match(line) and not _SHOWN_ALREADY.match(line)
        ]

    def _new(
        self, kind: JournalKind, known: dict[str, Mapping[str, Any]]
    ) -> list[Mapping[str, Any]]:
        rows = [row for row in self._journal.rows(kind) if row["id"] not in known]
        known.update({row["id"]: row for row in rows})
        return list(rows)


def _load(broker: str) -> Load:
    report = load_report(broker)
    prefix = f"{NAMESPACE}/"
    return Load(
        throughput=report.msg_throughput_in + report.msg_throughput_out,
        usage=max(report.bandwidth_in.percent, report.bandwidth_out.percent) / 100,
        bundles=sum(1 for bundle in report.bundles if bundle.startswith(prefix)),
    )
