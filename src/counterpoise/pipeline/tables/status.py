"""A balancer's status, read from its history alone: it may run elsewhere, or not at all."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from counterpoise.decide.balancing.costly import LEFT_FOR_COST
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus
from counterpoise.decide.balancing.thrash import MOVED_OFTEN
from counterpoise.load.rows import BROKER, GAP, POLL
from counterpoise.pipeline.clock import EVER
from counterpoise.pipeline.tables.control import Control, read_control
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.journal import Journal, outcome_of
from counterpoise.pipeline.tables.reports import newest_poll, read_reports

HOUR_MS = 3_600_000
FAILURES_MOST = 10
PAST_RULES = (LEFT_FOR_COST.name, MOVED_OFTEN.name)
"""The rules by which bundles are not moved because of their last moves."""
_REPORT_COLUMNS = ("poll_id", "kind", "broker", "note")
_NO_BUNDLES = (BROKER, GAP, POLL)


@dataclass(frozen=True, slots=True)
class LastPoll:
    """The last poll of the cluster, fields named as in JSON; `at` is milliseconds since 1970."""

    at: int
    brokers: int
    """How many brokers reported their load."""
    silent: Mapping[str, str]
    """The brokers that did not answer the poll, each with the reason."""
    trouble: str
    """Why no broker could be asked; empty when the cluster answered."""


@dataclass(frozen=True, slots=True)
class LastRound:
    """The last round of decisions, which may have moved nothing."""

    at: int
    strategy: str
    imbalance: float
    moves: int
    rejections: tuple[str, ...]
    complete: bool
    """False while its moves are under way, and if it was interrupted."""


@dataclass(frozen=True, slots=True)
class BalancerStatus:
    """A balancer's last hour according to its history, as of `now_ms`."""

    history: str
    now_ms: int
    control: Control
    poll: LastPoll | None
    round: LastRound | None
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """The number of moves that ended in the last hour, by status."""
    seconds: tuple[float, ...] = ()
    """The durations of the moves that were carried out in the last hour, the shortest first."""
    withheld: Mapping[str, int] = field(default_factory=dict)
    """Moves of the last hour that a rule withheld, by the rule."""
    failures: tuple[tuple[str, str], ...] = ()
    """The last hour's latest failures: the bundle, and what the cluster answered."""
    astray: tuple[MoveOutcome, ...] = ()
    """Moves of the last hour whose bundle the destination did not take over, the latest first."""
    gaps: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """By broker, how many polls of the last hour it did not answer, and the latest reason."""

    @property
    def in_force(self) -> str:
        """The reason why an operator's order forbids moves; empty if none is in force."""
        return self.control.in_force(self.poll.at if self.poll else 0)

    def to_json(self) -> dict[str, Any]:
        """The status as a JSON object."""
        return {
            "history": self.history,
            "now": self.now_ms,
            "control": {
                "wish": self.control.wish.value,
                "since": self.control.since_ms,
                "why": self.control.why,
                "inForce": bool(self.in_force),
            },
            "lastPoll": self.poll and asdict(self.poll),
            "lastRound": self.round and asdict(self.round),
            "lastHour": {
                "outcomes": self.outcomes,
                "seconds": self.seconds,
                "withheld": self.withheld,
                "failures": [{"bundle": b, "error": e} for b, e in self.failures],
                "astray": [asdict(each) for each in self.astray],
                "gaps": {b: {"polls": n, "note": why} for b, (n, why) in self.gaps.items()},
            },
        }


def read_status(reader: TablesReader, now_ms: int) -> BalancerStatus:
    """The balancer's status at `now_ms` according to its history; raises `HistoryFaultError`."""
    hour, journal = now_ms - HOUR_MS, Journal(reader)
    rows = journal.ended_since(hour)
    withheld = [row for row in rows if row["status"] == MoveStatus.WITHHELD.value]
    failed = [row for row in rows if row["status"] == MoveStatus.FAILED.value]
    failed.sort(key=lambda row: -int(row["ended_at_ms"]))
    ended = sorted(map(outcome_of, rows), key=lambda one: -one.ended_at_ms)
    took = [row["ended_at_ms"] - row["started_at_ms"] for row in rows if row["carried_out"]]
    reports = list(_reports(reader, hour - 1))
    return BalancerStatus(
        history=reader.location.address,
        now_ms=now_ms,
        control=read_control(reader.location),
        poll=_last_poll(reader),
        round=_last_round(journal),
        outcomes=dict(sorted(Counter(row["status"] for row in rows).items())),
        seconds=tuple(sorted(each / 1000 for each in took)),
        withheld=dict(Counter(row["error"] for row in withheld).most_common()),
        failures=tuple((row["bundle"], row["error"]) for row in failed[:FAILURES_MOST]),
        astray=tuple(one for one in ended if one.astray),
        gaps=_gaps(reports),
    )


def _reports(reader: TablesReader, after: int) -> Iterable[Mapping[str, Any]]:
    """The rows of the polls after `after`, without those of bundles."""
    for part in read_reports(reader, after, EVER, _REPORT_COLUMNS, _NO_BUNDLES):
        yield from part.to_pylist()


def _last_poll(reader: TablesReader) -> LastPoll | None:
    newest = newest_poll(reader)
    if not newest:
        return None
    rows = list(_reports(reader, newest - 1))
    return LastPoll(
        at=newest,
        brokers=sum(row["kind"] == BROKER for row in rows),
        silent={row["broker"]: row["note"] for row in rows if row["kind"] == GAP},
        trouble=next((row["note"] for row in rows if row["kind"] == POLL and row["note"]), ""),
    )


def _last_round(journal: Journal) -> LastRound | None:
    made = journal.round(journal.newest_round())
    if made is None:
        return None
    return LastRound(
        at=made.poll_id,
        strategy=made.strategy,
        imbalance=made.imbalance,
        moves=len(made.moves),
        # Rejections because of past moves come first: they last for hours, others for a round.
        rejections=tuple(
            each.sentence
            for each in sorted(made.rejections, key=lambda each: each.rule not in PAST_RULES)
        ),
        complete=journal.is_complete(made.poll_id),
    )


def _gaps(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, str]]:
    """How many polls each broker did not answer, and the latest reason."""
    gaps: dict[str, tuple[int, str]] = {}
    for row in rows:
        if row["kind"] == GAP or (row["kind"] == POLL and row["note"]):
            name = row["broker"] or "the cluster"
            gaps[name] = (gaps.get(name, (0, ""))[0] + 1, row["note"])
    return dict(sorted(gaps.items()))
