"""What a balancer is doing, by its history alone: it need not run here, or at all."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.load.rows import BROKER, GAP, POLL
from counterpoise.pipeline.history.compaction import read_table_parts
from counterpoise.pipeline.history.control import Control, read_control
from counterpoise.pipeline.history.layout import files, newest_poll
from counterpoise.pipeline.history.names import file_of
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.tables.parquet import read_rows

HOUR_MS = 3_600_000
REPORT_COLUMNS = ["poll_id", "kind", "broker", "note"]
FAILURES_MOST = 10


@dataclass(frozen=True, slots=True)
class LastPoll:
    """The last look at the cluster; times are milliseconds since 1970."""

    at_ms: int
    brokers: int
    """How many told their load."""
    silent: Mapping[str, str]
    """Who did not, and why."""
    trouble: str
    """Why nobody could be asked; empty when the cluster answered."""


@dataclass(frozen=True, slots=True)
class LastRound:
    """The last round of decisions, whether it moved anything or not."""

    at_ms: int
    strategy: str
    imbalance: float
    moves: int
    rejections: tuple[str, ...]
    complete: bool
    """False while its moves are under way, or where it was cut off."""


@dataclass(frozen=True, slots=True)
class BalancerStatus:
    """All of it, as of `now_ms`."""

    history: str
    now_ms: int
    control: Control
    poll: LastPoll | None
    round: LastRound | None
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """How many moves of the last hour ended in which way."""
    seconds: tuple[float, ...] = ()
    """How long each move of the last hour took that was carried out, the shortest first."""
    withheld: Mapping[str, int] = field(default_factory=dict)
    """Moves of the last hour that a rule withheld, by the rule."""
    failures: tuple[tuple[str, str], ...] = ()
    """The latest of the last hour: the bundle, and what the cluster said."""
    gaps: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Of the last hour: polls without an answer by broker, and the latest reason."""

    @property
    def held(self) -> str:
        """Why nothing is moved, by an operator's order; empty when none is in force."""
        return self.control.in_force(self.poll.at_ms if self.poll else 0)

    def to_json(self) -> dict[str, Any]:
        """The status as a JSON object."""
        poll, made = self.poll, self.round
        return {
            "history": self.history,
            "now": self.now_ms,
            "control": {
                "wish": self.control.wish.value,
                "since": self.control.since_ms,
                "why": self.control.why,
                "inForce": bool(self.held),
            },
            "lastPoll": poll
            and {
                "at": poll.at_ms,
                "brokers": poll.brokers,
                "silent": dict(poll.silent),
                "trouble": poll.trouble,
            },
            "lastRound": made
            and {
                "at": made.at_ms,
                "strategy": made.strategy,
                "imbalance": made.imbalance,
                "moves": made.moves,
                "rejections": list(made.rejections),
                "complete": made.complete,
            },
            "lastHour": {
                "outcomes": dict(self.outcomes),
                "seconds": list(self.seconds),
                "withheld": dict(self.withheld),
                "failures": [{"bundle": b, "error": e} for b, e in self.failures],
                "gaps": {b: {"polls": n, "note": why} for b, (n, why) in self.gaps.items()},
            },
        }


def read_status(store: Store, now_ms: int) -> BalancerStatus:
    """The status at a time; raises `HistoryFaultError` for a damaged file."""
    hour = now_ms - HOUR_MS
    parts = read_table_parts(store, "outcomes", after=hour - 1)
    rows = [row for part in parts for row in part.to_pylist() if row["ended_at_ms"] >= hour]
    withheld = [row for row in rows if row["status"] == MoveStatus.WITHHELD.value]
    failed = [row for row in rows if row["status"] == MoveStatus.FAILED.value]
    failed.sort(key=lambda row: -int(row["ended_at_ms"]))
    took = [row["ended_at_ms"] - row["started_at_ms"] for row in rows if row["carried_out"]]
    return BalancerStatus(
        history=store.address,
        now_ms=now_ms,
        control=read_control(store),
        poll=_last_poll(store),
        round=_last_round(store),
        outcomes=dict(sorted(Counter(row["status"] for row in rows).items())),
        seconds=tuple(sorted(each / 1000 for each in took)),
        withheld=dict(Counter(row["error"] for row in withheld).most_common()),
        failures=tuple((row["bundle"], row["error"]) for row in failed[:FAILURES_MOST]),
        gaps=_gaps(store, hour),
    )


def _reports(store: Store, after: int) -> list[pa.Table]:
    """What polls say beside their figures."""
    found = []
    for name in files(store, "reports", after=after):
        try:
            read = store.read(name, lambda file: read_rows(file, REPORT_COLUMNS))
        except FileNotFoundError:
            continue  # compacted meanwhile
        found.append(read)
    return found


def _last_poll(store: Store) -> LastPoll | None:
    newest = newest_poll(store)
    if not newest:
        return None
    rows = [row for part in _reports(store, newest - 1) for row in part.to_pylist()]
    rows = [row for row in rows if row["poll_id"] == newest]
    return LastPoll(
        at_ms=newest,
        brokers=sum(row["kind"] == BROKER for row in rows),
        silent={row["broker"]: row["note"] for row in rows if row["kind"] == GAP},
        trouble=next((row["note"] for row in rows if row["kind"] == POLL and row["note"]), ""),
    )


def _last_round(store: Store) -> LastRound | None:
    newest = newest_poll(store, "rounds")
    if not newest:
        return None
    [made] = _of(store, "rounds", newest)
    return LastRound(
        at_ms=newest,
        strategy=made["strategy"],
        imbalance=made["imbalance"],
        moves=made["decisions"],
        rejections=tuple(row["sentence"] for row in _of(store, "rejections", newest)),
        complete=bool(_of(store, "memory", newest)),
    )


def _of(store: Store, table: str, poll_id: int) -> list[dict[str, Any]]:
    if store.exists(name := file_of(table, poll_id)):
        rows: list[dict[str, Any]] = store.read(name, read_rows).to_pylist()
        return rows
    parts = read_table_parts(store, table, after=poll_id - 1)
    return [row for part in parts for row in part.to_pylist() if row["poll_id"] == poll_id]


def _gaps(store: Store, hour: int) -> dict[str, tuple[int, str]]:
    gaps: dict[str, tuple[int, str]] = {}
    for part in _reports(store, hour - 1):
        for row in part.to_pylist():
            lost = row["kind"] == GAP or (row["kind"] == POLL and row["note"])
            if lost and row["poll_id"] >= hour:
                name = row["broker"] or "the cluster"
                gaps[name] = (gaps.get(name, (0, ""))[0] + 1, row["note"])
    return dict(sorted(gaps.items()))
