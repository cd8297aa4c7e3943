"""What a balancer is doing, by its history alone: it need not run here, or at all."""

from collections import Counter
from typing import Any

import pyarrow as pa

from counterpoise.decide.balancing.moves import MoveStatus
from counterpoise.load.rows import BROKER, GAP, POLL
from counterpoise.pipeline.history.compaction import read_table_parts
from counterpoise.pipeline.history.layout import files, newest_poll
from counterpoise.pipeline.history.names import file_of
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.tables.control import read_control
from counterpoise.pipeline.tables.parquet import read_rows
from counterpoise.pipeline.tables.status import BalancerStatus, LastPoll, LastRound

__all__ = ["BalancerStatus", "LastPoll", "LastRound", "read_status"]

HOUR_MS = 3_600_000
REPORT_COLUMNS = ["poll_id", "kind", "broker", "note"]
FAILURES_MOST = 10


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
